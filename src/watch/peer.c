/* Another process, seen through process_vm_readv and /proc. Whoever may trace it may read it: its parent, as a rule. It is never stopped, so
 * what is read may change between two reads. Nothing is kept between calls, and nothing is allocated except while the tree is walked. Safe from
 * any thread. */
#include "watch/peer.h"

#include "core/alloc.h"
#include "os/proc_text.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    PAGE = 4096, /* the smallest anywhere */
    PATH_SIZE = 4096,
    SCRIPTS = 4, /* the kernel follows no longer chain of #! lines */
};

/* ------------------------------------------------------------------------------------------------------ memory */

static bool mem_read(int pid, uint64_t address, void *to, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t have = 0;
    while (have < n) {
        const ssize_t got = pread(fd, (char *)to + have, n - have, (off_t)(address + have));
        if (got <= 0 && !(got < 0 && errno == EINTR)) break;
        if (got > 0) have += (size_t)got;
    }
    close(fd);
    return have == n;
}

bool plim__peer_read(int pid, uint64_t address, void *to, size_t n)
{
    if (n == 0) return true;
    if (address > INT64_MAX || n > INT64_MAX - address) return false; /* the upper half is the kernel's */
    struct iovec here = {to, n}, there = {(void *)(uintptr_t)address, n};
    const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got == (ssize_t)n) return true;
    /* A hole stays one however it is read; only a kernel or a sandbox without this call is worth the other way. */
    return got < 0 && (errno == ENOSYS || errno == EPERM) && mem_read(pid, address, to, n);
}

uint64_t plim__peer_word(int pid, uint64_t address)
{
    uint64_t word;
    return plim__peer_read(pid, address, &word, sizeof word) ? word : 0;
}

/* In pieces that end with a page, for what comes after the string may not be there. */
bool plim__peer_text(int pid, uint64_t address, char *to, size_t size)
{
    if (size == 0) return false;
    enum { PIECE = 256 };
    size_t have = 0;
    while (have + 1 < size) {
        size_t n = PAGE - (address + have) % PAGE;
        if (n > PIECE) n = PIECE;
        if (n > size - 1 - have) n = size - 1 - have;
        if (!plim__peer_read(pid, address + have, to + have, n)) break;
        const size_t len = strnlen(to + have, n);
        have += len;
        if (len < n) {
            to[have] = 0;
            return true;
        }
    }
    to[have] = 0;
    return have > 0;
}

/* ------------------------------------------------------------------------------------------------------- files */

/* Looked at before it is opened, for opening alone can wait (a FIFO) or do something (a tape); and afterwards, for it may have changed between. */
int plim__peer_regular(const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode)) return -1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))) return fd;
    close(fd);
    return -1;
}

size_t plim__peer_file(int pid, const char *name, char *buf, size_t size)
{
    if (size == 0) return 0;
    buf[0] = 0;
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    const int64_t got = plim__os_linux.read_text(plim__os_linux.self, path, buf, size);
    return got > 0 ? (size_t)got : 0;
}

/* The word after `key` at the start of a line. */
static void line_word(const char *text, const char *key, char *to, size_t size)
{
    to[0] = 0;
    const size_t n = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, key, n)) continue;
        line += n;
        line += strspn(line, " \t");
        snprintf(to, size, "%.*s", (int)strcspn(line, "\n"), line);
        return;
    }
}

bool plim__peer_status_read(int pid, plim__peer_status *out)
{
    char text[8192], state[32];
    *out = (plim__peer_status){0};
    if (!plim__peer_file(pid, "status", text, sizeof text)) return false;
    const struct {
        const char *key;
        uint64_t *value;
    } field[] = {
        {"VmSize:", &out->vm_size},  {"VmData:", &out->vm_data}, {"VmSwap:", &out->vm_swap}, {"VmRSS:", &out->resident},
        {"VmHWM:", &out->peak},      {"RssAnon:", &out->anon},   {"RssFile:", &out->file},   {"RssShmem:", &out->shared},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (!plim__field_read(text, field[i].key, field[i].value)) *field[i].value = 0;
    uint64_t parent;
    if (plim__field_read(text, "PPid:", &parent)) out->parent = (int)parent;
    line_word(text, "Name:", out->name, sizeof out->name);
    line_word(text, "State:", state, sizeof state);
    out->alive = state[0] && state[0] != 'Z' && state[0] != 'X';
    return true;
}

uint64_t plim__peer_resident(int pid, uint64_t *mapped)
{
    char text[256], *end;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (mapped) *mapped = 0;
    if (!plim__peer_file(pid, "statm", text, sizeof text)) return 0;
    strtoull(text, &end, 10);
    const uint64_t resident = strtoull(end, &end, 10) * page;
    if (mapped) *mapped = strtoull(end, NULL, 10) * page;
    return resident;
}

bool plim__peer_shares(int pid, plim__peer_kinds *out)
{
    char text[4096];
    *out = (plim__peer_kinds){0};
    return plim__peer_file(pid, "smaps_rollup", text, sizeof text) && plim__field_read(text, "Pss_Anon:", &out->anon) &&
           plim__field_read(text, "Pss_File:", &out->file) && plim__field_read(text, "Pss_Shmem:", &out->shared);
}

bool plim__peer_same_memory(int pid, int other)
{
    enum { VM = 1 }; /* KCMP_VM of linux/kcmp.h */
    return syscall(SYS_kcmp, pid, other, VM, 0, 0) == 0;
}

plim__peer_found plim__peer_find(int pid, uint64_t address, uint64_t word)
{
    uint64_t there = 0;
    struct iovec here = {&there, sizeof there}, at = {(void *)(uintptr_t)address, sizeof there};
    const ssize_t got = process_vm_readv(pid, &here, 1, &at, 1, 0);
    if (got == (ssize_t)sizeof there) return there == word ? PLIM__PEER_THERE : PLIM__PEER_NOT_THERE;
    return got >= 0 || errno == EFAULT ? PLIM__PEER_NOT_THERE : PLIM__PEER_UNKNOWN;
}

/* -------------------------------------------------------------------------------------------------------- tree */

typedef struct kin {
    int pid, parent;
} kin;

typedef struct kin_table {
    kin *row;
    uint32_t n, cap;
} kin_table;

static const plim__alloc plain = {0};

static bool kin_add(kin_table *t, int pid, int parent)
{
    if (t->n == t->cap && plim__grow(&plain, (void **)&t->row, &t->cap, t->n + 1, sizeof *t->row, NULL)) return false;
    t->row[t->n++] = (kin){pid, parent};
    return true;
}

/* The parent in /proc/PID/stat: "12 (any (thing) at all) S 7 ...". */
static int parent_of(int pid)
{
    char text[512];
    if (!plim__peer_file(pid, "stat", text, sizeof text)) return 0;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] && end[3] == ' ' ? atoi(end + 4) : 0;
}

/* Every process there is, with its parent. */
static void kin_scan(kin_table *t)
{
    DIR *dir = opendir("/proc");
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir));) {
        const int pid = atoi(e->d_name);
        const int parent = pid > 0 ? parent_of(pid) : 0;
        if (parent > 0 && !kin_add(t, pid, parent)) break;
    }
    closedir(dir);
}

/* Children of all threads of `pid`, where the kernel was built to list them. Each gets `pid` as its parent. @return false where it was not */
static bool kin_listed(kin_table *t, int pid)
{
    char path[128], text[8192];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir) return true; /* it is gone: no children */
    bool listed = true;
    for (const struct dirent *e; listed && (e = readdir(dir));) {
        if (atoi(e->d_name) <= 0) continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, e->d_name);
        const int64_t got = plim__os_linux.read_text(plim__os_linux.self, path, text, sizeof text);
        if (got == -ENOENT) {
            snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", pid, e->d_name); /* the thread may have ended meanwhile */
            listed = access(path, F_OK) != 0;
        }
        for (char *p = text, *end; got > 0; p = end) {
            const long child = strtol(p, &end, 10);
            if (end == p || !kin_add(t, (int)child, pid)) break;
        }
    }
    closedir(dir);
    return listed;
}

uint32_t plim__peer_tree(int root, int *pid, int *parent, uint32_t max)
{
    if (max == 0) return 0;
    pid[0] = root;
    parent[0] = parent_of(root);
    if (parent[0] == 0 && root != 1) return 0;
    kin_table t = {0};
    const bool listed = kin_listed(&t, root);
    if (!listed) {
        t.n = 0;
        kin_scan(&t);
    }
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) { /* pid[i..n) are still to be asked for their children */
        if (listed && i > 0) {
            t.n = 0;
            kin_listed(&t, pid[i]);
        }
        for (uint32_t k = 0; k < t.n && n < max; k++) {
            if (t.row[k].parent != pid[i] || t.row[k].pid == root) continue;
            pid[n] = t.row[k].pid;
            parent[n++] = pid[i];
        }
    }
    plim__free(&plain, t.row);
    return n;
}

/* -------------------------------------------------------------------------------------------------- preloadable */

bool plim__peer_program(const char *program, char *path, size_t size)
{
    if (strchr(program, '/')) return (size_t)snprintf(path, size, "%s", program) < size;
    const char *list = getenv("PATH");
    if (!list) list = "/usr/bin:/bin";
    for (;;) {
        const size_t n = strcspn(list, ":");
        const bool fits = (size_t)snprintf(path, size, "%.*s%s%s", (int)n, list, n ? "/" : "./", program) < size;
        if (fits && access(path, X_OK) == 0) return true;
        if (!list[n]) return false;
        list += n + 1;
    }
}

/* An ELF file's word about itself. @return NULL when a library can be loaded into it, otherwise why not */
static const char *elf_refuses(int fd, const char *head, size_t n)
{
    Elf64_Ehdr e;
    if (head[EI_CLASS] != ELFCLASS64) return "it is a 32-bit program";
    if (n < sizeof e) return "its ELF header is cut short";
    memcpy(&e, head, sizeof e);
    for (uint32_t i = 0; i < e.e_phnum && e.e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr p;
        if (e.e_phoff > INT64_MAX - (uint64_t)i * sizeof p) break;
        if (pread(fd, &p, sizeof p, (off_t)(e.e_phoff + (uint64_t)i * sizeof p)) != (ssize_t)sizeof p) break;
        if (p.p_type == PT_INTERP) return NULL;
    }
    return "it is linked statically";
}

/* Loaders ignore LD_PRELOAD where running the file changes rights. A file of one's own user and group changes none. */
static const char *rights_refuse(int fd)
{
    struct stat st;
    if (fstat(fd, &st)) return NULL;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid()) return "it is a setuid program";
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid()) return "it is a setgid program";
    if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0) return "it has capabilities of its own";
    return NULL;
}

/* The interpreter of a "#! /bin/sh -e" line replaces the path. */
static bool script_follow(const char *head, char *path, size_t size)
{
    const char *p = head + 2 + strspn(head + 2, " \t");
    const size_t n = strcspn(p, " \t\r\n");
    return n > 0 && n < size && snprintf(path, size, "%.*s", (int)n, p) > 0;
}

bool plim__peer_preloadable(const char *program, char *why, size_t size)
{
    char path[PATH_SIZE];
    if (size) why[0] = 0;
    if (!plim__peer_program(program, path, sizeof path)) return true; /* it cannot be run at all: exec says why */
    for (int depth = 0; depth <= SCRIPTS; depth++) {
        char head[PAGE + 1];
        const int fd = plim__peer_regular(path);
        if (fd < 0) return true;
        const ssize_t n = pread(fd, head, PAGE, 0);
        head[n > 0 ? n : 0] = 0;
        const bool script = n > 2 && head[0] == '#' && head[1] == '!', elf = n > EI_CLASS && memcmp(head, ELFMAG, SELFMAG) == 0;
        const char *reason = elf ? elf_refuses(fd, head, (size_t)n) : NULL;
        if (elf && !reason) reason = rights_refuse(fd);
        close(fd);
        if (reason && size) snprintf(why, size, "%s", reason);
        if (reason) return false;
        if (!script || !script_follow(head, path, sizeof path)) return true;
    }
    return true;
}
