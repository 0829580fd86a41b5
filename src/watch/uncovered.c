/* Where the budget ends: processes into which the recording library did not come or whose records it cannot open, so that their memory is charged
 * but none of their requests can be refused; and processes that outlive the program, which nobody watches any more.
 *
 * A process without records may yet get some: a program attaches itself with its first large request. It can where the library is mapped into it and
 * either the records are, too (it is a child made by fork), or it may open them. Nothing is allocated but a buffer for an environment. */
#include "watch/uncovered.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { ENVIRONMENT = 1 << 17 };

/* ------------------------------------------------------------------------------------------------ facts of a process */

typedef struct mapped {
    bool library, records, readable;
} mapped;

/* Whether the library and the records are among the mappings. The file may be megabytes long: it is read in pieces, and the end of each is looked at
 * again with the next. */
static mapped mapped_look(int pid)
{
    enum { PIECE = 16384, OVERLAP = 64 };
    char path[64], text[OVERLAP + PIECE + 1];
    mapped m = {0};
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return m;
    size_t kept = 0;
    for (ssize_t n; (n = read(fd, text + kept, PIECE)) > 0 || (n < 0 && errno == EINTR);) {
        if (n < 0) continue;
        const size_t have = kept + (size_t)n;
        text[have] = 0;
        m.readable = true;
        m.library |= strstr(text, "/libplimsoll_watch.so") != NULL;
        m.records |= strstr(text, "/memfd:plimsoll-watch") != NULL;
        kept = have < OVERLAP ? have : OVERLAP;
        memmove(text, text + have - kept, kept);
    }
    close(fd);
    return m;
}

static bool root_is_ours(int pid)
{
    char path[64];
    struct stat own, its;
    snprintf(path, sizeof path, "/proc/%d/root/.", pid);
    return stat("/.", &own) || stat(path, &its) || (own.st_dev == its.st_dev && own.st_ino == its.st_ino);
}

/* The user whom a process runs as; our own where it cannot be told. */
static uid_t user_of(int pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    return stat(path, &st) ? geteuid() : st.st_uid;
}

/* Whether the environment with which the program began has our word in it. `unknown` where it may not be read: one that is empty can be. */
static bool has_our_word(const plim__supervisor *s, int pid, bool unknown)
{
    char word[64], path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    if (access(path, R_OK)) return unknown;
    char *text = plim__new(&s->alloc, 1, ENVIRONMENT, NULL);
    const size_t n = text ? plim__peer_file(pid, "environ", text, ENVIRONMENT) : 0;
    bool found = false;
    snprintf(word, sizeof word, PLIM__REC_ENV "=/proc/%d/fd/%d", (int)s->header->supervisor, s->memfd);
    for (size_t i = 0; i < n && !found; i += strlen(text + i) + 1) found = !strcmp(text + i, word);
    plim__free(&s->alloc, text);
    return found;
}

static bool slots_are_taken(const plim__supervisor *s)
{
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++)
        if (!atomic_load(&s->header->slot[i])) return false;
    return true;
}

/* ---------------------------------------------------------------------------------------------------- not covered */

bool plim__uncovered_why(const plim__supervisor *s, int pid, char *why, size_t size)
{
    char exe[64], reason[96] = "";
    const mapped m = mapped_look(pid);
    const uid_t user = user_of(pid);
    const bool other_user = user != geteuid(), other_root = !root_is_ours(pid);
    why[0] = 0;
    if (m.records || m.library) {
        if (slots_are_taken(s))
            snprintf(why, size, "%d processes are recorded already, and there is room for no more", PLIM__REC_SLOTS);
        else if (!m.records && other_user)
            snprintf(why, size, "it runs as another user (uid %u), who may not open our records", (unsigned)user);
        else if (!m.records && other_root)
            snprintf(why, size, "it runs in another root folder (chroot), in which our records cannot be found");
        return why[0] != 0;
    }
    if (!m.readable && !other_user) return false; /* it is ending: nothing is mapped any more */
    snprintf(exe, sizeof exe, "/proc/%d/exe", pid);
    if (!plim__peer_preloadable(exe, reason, sizeof reason))
        snprintf(why, size, "%s", reason);
    else if (other_root)
        snprintf(why, size, "it runs in another root folder (chroot), in which our library is not");
    else if (!has_our_word(s, pid, true))
        snprintf(why, size, "its environment was cleared (as by env -i, su or sudo), and LD_PRELOAD with it");
    else if (other_user)
        snprintf(why, size, "it runs as another user (uid %u), who may not read our library", (unsigned)user);
    else if (m.readable)
        snprintf(why, size, "the loader did not load our library into it");
    if (!plim__peer_resident(pid, NULL)) why[0] = 0; /* it has ended meanwhile, and what was read may be of its end */
    return why[0] != 0;
}

plim__watched *plim__uncovered_next(plim__supervisor *s, double now)
{
    const uint64_t worth = s->how->memory / 100 > MIB ? s->how->memory / 100 : MIB; /* shells and the like are not worth a word */
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->ended || w->slot || w->uncovered[0] || w->whole < worth || now < w->uncovered_next) continue;
        w->uncovered_next = now + 1; /* it may execute another program */
        plim__peer_status st;
        if (plim__peer_status_read(w->pid, &st) && st.name[0]) snprintf(w->program, sizeof w->program, "%s", st.name);
        if (plim__uncovered_why(s, w->pid, w->uncovered, sizeof w->uncovered)) return w;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------- survivors */

/* Everyone who has our word in the environment: all that the program ever started, whoever is their parent now, unless it was cleared. */
static void marked_add(plim__supervisor *s)
{
    DIR *dir = opendir("/proc");
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir));) {
        const int pid = atoi(e->d_name);
        if (pid > 0 && pid != getpid() && pid != s->child && !plim__tree_find(s, pid) && has_our_word(s, pid, false)) plim__tree_add(s, pid, 1);
    }
    closedir(dir);
}

static bool lives(plim__watched *w)
{
    plim__peer_status st;
    if (w->ended || !plim__peer_status_read(w->pid, &st) || !st.alive || !st.resident) return false;
    if (!w->program[0]) snprintf(w->program, sizeof w->program, "%s", st.name);
    return true;
}

uint32_t plim__survivors(plim__supervisor *s, char *text, size_t size)
{
    uint32_t n = 0;
    char bytes[32];
    size_t at = 0;
    text[0] = 0;
    marked_add(s);
    plim__tree_resident(s);
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->pid == s->child || !lives(w)) continue;
        if (n++ < 3 && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%d (%s, %s)", n > 1 ? ", " : "", w->pid, w->program,
                                   plim_bytes_format(bytes, sizeof bytes, w->resident));
    }
    if (n > 3 && at < size) snprintf(text + at, size - at, " and %u more", n - 3);
    return n;
}
