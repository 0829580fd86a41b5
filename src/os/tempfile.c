/* Output files that appear whole or not at all, and scratch files that never outlive their process.
 *
 * An output is written to a hidden name in its own folder and renamed over its path when it is complete and on the disk:
 *
 *     .<name>.<pid>-<start>-<n>.plimsoll-tmp      pid and start time of the writer; n: the first number that was free
 *
 * A run that was killed leaves that file. The next run for the same output removes it when its writer is gone: no process has that
 * pid and that start time (a recycled pid has a later one), and nobody holds the lock on it. The lock is what protects a
 * writer that we cannot see, in another container or on another machine that shares the folder.
 *
 * Memory: one small block per file from the C library. Thread-safety: a tempfile is used by one thread at a time; its
 * descriptors by any number. */
#include "core/alloc.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".plimsoll-tmp"
#define SCRATCH_NAME "plimsoll-scratch"
#define NAME_SHOWN 160 /* of a long name; with pid, start time, number and suffix it stays below NAME_MAX */
#define TRIES 1000

struct plim__tempfile {
    const plim__os *os;
    uint64_t bytes;
    int fd, buffered_fd;
    bool direct, named; /* named: it has a name to unlink or to rename */
    bool finished;      /* has its size and is on the disk */
    char path[PATH_MAX]; /* where it will appear; for a scratch file its folder */
    char folder[PATH_MAX];
    char temp[PATH_MAX];
};

static const plim__alloc heap = {0};

plim_status plim__os_fail(int negative_errno, const char *doing, const char *path, uint64_t offset, plim_error *err)
{
    const int e = -negative_errno;
    const plim_status code = e == ENOSPC || e == EDQUOT ? PLIM_E_NOSPACE : e == ENOMEM ? PLIM_E_NOMEM : PLIM_E_IO;
    char why[96];
    if (err && err->code == PLIM_OK) err->offset = offset;
    return plim__fail_at(err, code, path, "cannot %s '%.300s' at byte %llu: %s", doing, path, (unsigned long long)offset,
                         strerror_r(e, why, sizeof why));
}

/* As plim__os_fail, for operations on a whole file. */
static plim_status path_fail(int negative_errno, const char *doing, const char *path, plim_error *err)
{
    const int e = -negative_errno;
    const plim_status code = e == ENOSPC || e == EDQUOT ? PLIM_E_NOSPACE : PLIM_E_IO;
    char why[96];
    return plim__fail_at(err, code, path, "cannot %s '%.300s': %s", doing, path, strerror_r(e, why, sizeof why));
}

/* ------------------------------------------------------------------------------------------------ whose file it is */

/* Field 22 of /proc/<pid>/stat: when the process started, in ticks since boot; 0 when there is no such process. The second field is
 * a name in parentheses that may hold anything, so fields are counted from the last closing one. */
static uint64_t process_start(const plim__os *os, const char *pid)
{
    char file[64], text[1024];
    snprintf(file, sizeof file, "/proc/%.20s/stat", pid);
    if (os->read_text(os->self, file, text, sizeof text) <= 0) return 0;
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

/* FNV-1a: tells long names with the same beginning apart. */
static uint64_t name_hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

/* ".<name>.", the part of the hidden name that says whose output it is. */
static void temp_prefix(char buf[NAME_MAX], const char *name)
{
    if (strlen(name) <= NAME_SHOWN)
        snprintf(buf, NAME_MAX, ".%s.", name);
    else
        snprintf(buf, NAME_MAX, ".%.*s~%016llx.", NAME_SHOWN - 17, name, (unsigned long long)name_hash(name));
}

typedef struct sweep {
    const plim__os *os;
    const char *folder;
    char prefix[NAME_MAX];
} sweep;

/* Removes `name` if it is an unfinished file of our output whose writer is gone. */
static void sweep_name(void *arg, const char *name)
{
    const sweep *s = arg;
    const plim__os *os = s->os;
    const size_t n = strlen(s->prefix);
    char path[PATH_MAX];
    if (strncmp(name, s->prefix, n) != 0) return;

    char *end;
    const unsigned long long pid = strtoull(name + n, &end, 10);
    if (end == name + n || *end != '-') return;
    const char *p = end + 1;
    const uint64_t start = strtoull(p, &end, 10);
    if (end == p || *end != '-') return;
    p = end + 1;
    (void)strtoull(p, &end, 10);
    if (end == p || strcmp(end, SUFFIX) != 0) return;

    char pid_text[24];
    snprintf(pid_text, sizeof pid_text, "%llu", pid);
    if (process_start(os, pid_text) == start) return;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", s->folder, name) >= sizeof path) return;
    const int fd = os->open(os->self, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return;
    if (os->lock(os->self, fd) != -EWOULDBLOCK) os->unlink(os->self, path);
    os->close(os->self, fd);
}

/* ------------------------------------------------------------------------------------------------------- creation */

/* Splits t->path into t->folder and the name in it. A link is followed, so that the file it points to is replaced and not the link. */
static plim_status resolve_path(plim__tempfile *t, const char *path, const char **name, plim_error *err)
{
    char real[PATH_MAX];
    const plim__os *os = t->os;
    PLIM_FAIL_IF(path[0] == 0, err, PLIM_E_INVALID, "an output has an empty path");
    if (strlen(path) >= sizeof t->path) return path_fail(-ENAMETOOLONG, "write", path, err);
    snprintf(t->path, sizeof t->path, "%s", realpath(path, real) ? real : path);

    plim__stat st;
    const int fd = os->open(os->self, t->path, O_PATH, 0);
    if (fd >= 0) {
        const int got = os->stat(os->self, fd, &st);
        os->close(os->self, fd);
        if (got == 0 && !st.regular)
            return plim__fail_at(err, PLIM_E_INVALID, path, "cannot write '%.300s': it exists and is not a regular file", path);
    }
    const char *slash = strrchr(t->path, '/');
    *name = slash ? slash + 1 : t->path;
    if (**name == 0) return path_fail(-EISDIR, "write", path, err);
    if (!slash)
        snprintf(t->folder, sizeof t->folder, ".");
    else
        snprintf(t->folder, sizeof t->folder, "%.*s", slash == t->path ? 1 : (int)(slash - t->path), t->path);
    return PLIM_OK;
}

static plim_status sweep_and_create(plim__tempfile *t, const char *name, plim_error *err)
{
    const plim__os *os = t->os;
    sweep s = {.os = os, .folder = t->folder};
    temp_prefix(s.prefix, name);
    const int listed = os->list(os->self, t->folder, sweep_name, &s);
    if (listed == -ENOENT || listed == -ENOTDIR) return path_fail(listed, "write into the folder", t->folder, err);

    const unsigned long long start = process_start(os, "self");
    int fd = -EEXIST;
    for (int n = 0; n < TRIES && fd == -EEXIST; n++) {
        if (snprintf(t->temp, sizeof t->temp, "%s/%s%ld-%llu-%d" SUFFIX, t->folder, s.prefix, (long)getpid(), start, n) >=
            (int)sizeof t->temp)
            return path_fail(-ENAMETOOLONG, "create", t->path, err);
        fd = os->open(os->self, t->temp, O_RDWR | O_CREAT | O_EXCL, 0666);
    }
    if (fd < 0) return path_fail(fd, "create a file in the folder", t->folder, err);
    t->buffered_fd = fd;
    t->named = true;
    os->lock(os->self, fd); /* best effort: where there are no locks, pid and start time have to do */
    return PLIM_OK;
}

static plim_status allocate_blocks(plim__tempfile *t, plim_error *err)
{
    plim__stat st = {0};
    const plim__os *os = t->os;
    const int stated = os->stat(os->self, t->buffered_fd, &st);
    /* asked for more than there is, a file system may take all of it before it refuses, and other programs find the disk full */
    const bool too_much = stated == 0 && t->bytes > st.space;
    const int got = too_much ? -ENOSPC : os->allocate(os->self, t->buffered_fd, t->bytes);
    if (got == 0) return PLIM_OK;
    if (stated != 0 || (got != -ENOSPC && got != -EDQUOT && got != -EFBIG)) return path_fail(got, "allocate", t->path, err);

    char want[32], have[32];
    plim_bytes_format(want, sizeof want, t->bytes);
    plim_bytes_format(have, sizeof have, st.space);
    if (err && err->code == PLIM_OK) {
        err->need = t->bytes;
        err->have = st.space;
    }
    return plim__fail_at(err, PLIM_E_NOSPACE, t->path, "no space for '%.300s': it needs %s (%llu bytes), the file system has %s free%s", t->path,
                         want, (unsigned long long)t->bytes, have, got == -EFBIG ? " but takes no file of that size" : "");
}

/* Opens the second descriptor for direct I/O if that works here. Some file systems accept the flag and refuse the transfer: one block is
 * read to find out. A file system in memory has nothing to be direct about. */
static void try_direct(plim__tempfile *t)
{
    const plim__os *os = t->os;
    _Alignas(4096) uint8_t probe[4096];
    plim__stat st;
    if (os->stat(os->self, t->buffered_fd, &st) != 0 || st.memory) return;
    const int fd = os->open(os->self, t->temp, O_RDWR | O_DIRECT, 0);
    if (fd < 0) return;
    if (os->pread(os->self, fd, probe, sizeof probe, 0) < 0) {
        os->close(os->self, fd);
        return;
    }
    t->fd = fd;
    t->direct = true;
}

static plim_status create(plim__tempfile *t, const char *name, bool direct, plim_error *err)
{
    PLIM_TRY(sweep_and_create(t, name, err));
    PLIM_TRY(allocate_blocks(t, err));
    t->fd = t->buffered_fd;
    if (direct) try_direct(t);
    return PLIM_OK;
}

static plim__tempfile *tempfile_alloc(const plim__os *os, uint64_t bytes, plim_error *err)
{
    plim__tempfile *t = plim__new(&heap, 1, sizeof *t, err);
    if (!t) return NULL;
    t->os = os;
    t->bytes = bytes;
    t->fd = t->buffered_fd = -1;
    return t;
}

plim_status plim__tempfile_new(plim__tempfile **out, const plim__os *os, const char *path, uint64_t bytes, bool direct, plim_error *err)
{
    const char *name;
    *out = NULL;
    plim__tempfile *t = tempfile_alloc(os, bytes, err);
    if (!t) return PLIM_E_NOMEM;
    plim_status status = resolve_path(t, path, &name, err);
    if (status == PLIM_OK) status = create(t, name, direct, err);
    if (status != PLIM_OK) plim__tempfile_drop(&t);
    *out = t;
    return status;
}

plim_status plim__tempfile_scratch(plim__tempfile **out, const plim__os *os, const char *dir, uint64_t bytes, bool direct, plim_error *err)
{
    *out = NULL;
    if (strlen(dir) >= PATH_MAX) return path_fail(-ENAMETOOLONG, "use the folder", dir, err);
    plim__tempfile *t = tempfile_alloc(os, bytes, err);
    if (!t) return PLIM_E_NOMEM;
    snprintf(t->path, sizeof t->path, "%s", dir);
    snprintf(t->folder, sizeof t->folder, "%s", dir);
    plim_status status = create(t, SCRATCH_NAME, direct, err);
    if (status == PLIM_OK) {
        const int got = os->unlink(os->self, t->temp);
        if (got == 0)
            t->named = false;
        else
            status = path_fail(got, "unlink the scratch file", t->temp, err);
    }
    if (status != PLIM_OK) plim__tempfile_drop(&t);
    *out = t;
    return status;
}

/* ------------------------------------------------------------------------------------------------- use and the end */

int plim__tempfile_fd(const plim__tempfile *t) { return t->fd; }
int plim__tempfile_buffered_fd(const plim__tempfile *t) { return t->buffered_fd; }
bool plim__tempfile_is_direct(const plim__tempfile *t) { return t->direct; }
const char *plim__tempfile_path(const plim__tempfile *t) { return t->path; }
void plim__tempfile_resize(plim__tempfile *t, uint64_t bytes) { t->bytes = bytes; }

/* Makes the new name survive a power cut. A file system without folder syncs says EINVAL; that is not a failure. */
static plim_status sync_folder(const plim__tempfile *t, plim_error *err)
{
    const plim__os *os = t->os;
    const int fd = os->open(os->self, t->folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return fd == -EACCES ? PLIM_OK : path_fail(fd, "open the folder", t->folder, err);
    const int got = os->sync(os->self, fd);
    os->close(os->self, fd);
    return got == 0 || got == -EINVAL ? PLIM_OK : path_fail(got, "sync the folder", t->folder, err);
}

plim_status plim__tempfile_finish(plim__tempfile *t, plim_error *err)
{
    const plim__os *os = t->os;
    if (t->finished) return PLIM_OK;
    int got = os->truncate(os->self, t->buffered_fd, t->bytes);
    if (got != 0) return path_fail(got, "set the size of", t->path, err);
    got = os->sync(os->self, t->buffered_fd);
    if (got != 0) return path_fail(got, "sync", t->path, err);
    t->finished = true;
    return PLIM_OK;
}

plim_status plim__tempfile_commit(plim__tempfile **pt, plim_error *err)
{
    plim__tempfile *t = *pt;
    const plim__os *os = t->os;
    plim_status status = plim__tempfile_finish(t, err);
    if (status == PLIM_OK) {
        const int got = os->rename(os->self, t->temp, t->path);
        t->named = got != 0;
        status = got == 0 ? sync_folder(t, err) : path_fail(got, "rename the finished file to", t->path, err);
    }
    plim__tempfile_drop(pt);
    return status;
}

void plim__tempfile_drop(plim__tempfile **pt)
{
    plim__tempfile *t = *pt;
    if (!t) return;
    if (t->named) t->os->unlink(t->os->self, t->temp);
    if (t->direct) t->os->close(t->os->self, t->fd);
    if (t->buffered_fd >= 0) t->os->close(t->os->self, t->buffered_fd);
    plim__free(&heap, t);
    *pt = NULL;
}
