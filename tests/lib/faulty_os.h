/* A system for tests: the real one, except that
 *   the n-th call of one kind fails, or is short, once or from then on;
 *   the process says it has a fixed number of bytes resident, so that a budget means the same arena in every run;
 *   nothing is synced (a test does not survive a power cut anyway), and fresh files do not count as cached, so that direct I/O is used;
 *   open descriptors are counted.
 * Thread-safe as far as the real one is: the engine's threads call it. */
#ifndef PLIM_TESTS_FAULTY_OS_H
#define PLIM_TESTS_FAULTY_OS_H

#include "os/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FAULTY_RESIDENT (10u << 20)

/* the calls that can be made to fail */
#define FAULTY_CALLS(X) X(open) X(pread) X(pwrite) X(allocate) X(truncate) X(sync) X(rename) X(unlink) X(stat) X(list) X(lock) X(read_text)

typedef enum faulty_call {
#define X(name) FAULTY_##name,
    FAULTY_CALLS(X)
#undef X
    FAULTY_CALL_COUNT
} faulty_call;

typedef struct faulty_os {
    plim__os table;
    faulty_call call;     /* the kind that fails */
    int error;            /* what it gives; 0: a short count, of pread and pwrite */
    bool from_then;       /* and all later ones too */
    _Atomic int64_t left; /* the call that finds 0 is the bad one; negative: none is */
    _Atomic int64_t hits; /* bad calls so far */
    _Atomic int64_t open; /* descriptors */
    _Atomic int64_t counts[FAULTY_CALL_COUNT];
} faulty_os;

static inline const char *faulty_name(faulty_call call)
{
    static const char *const names[] = {
#define X(name) #name,
        FAULTY_CALLS(X)
#undef X
    };
    return names[call];
}

/* Counts a call. @return it is to go wrong */
static inline bool faulty_now(void *self, faulty_call call)
{
    faulty_os *f = self;
    atomic_fetch_add(&f->counts[call], 1);
    if (call != f->call || atomic_load(&f->left) < 0) return false;
    const int64_t now = atomic_fetch_sub(&f->left, 1);
    if (f->from_then && now == 0) atomic_store(&f->left, 0);
    if (now == 0) atomic_fetch_add(&f->hits, 1);
    return now == 0;
}

static inline int faulty_open(void *self, const char *path, int flags, int mode)
{
    faulty_os *f = self;
    if (faulty_now(f, FAULTY_open)) return f->error;
    const int fd = plim__os_linux.open(NULL, path, flags, mode);
    if (fd >= 0) atomic_fetch_add(&f->open, 1);
    return fd;
}

static inline int faulty_close(void *self, int fd)
{
    atomic_fetch_sub(&((faulty_os *)self)->open, 1);
    return plim__os_linux.close(NULL, fd);
}

static inline int64_t faulty_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    faulty_os *f = self;
    const bool bad = faulty_now(f, FAULTY_pread);
    if (bad && f->error) return f->error;
    return plim__os_linux.pread(NULL, fd, buf, n, off) / (bad && n > 1 ? 2 : 1);
}

static inline int64_t faulty_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    faulty_os *f = self;
    const bool bad = faulty_now(f, FAULTY_pwrite);
    if (bad && f->error) return f->error;
    return plim__os_linux.pwrite(NULL, fd, buf, n, off) / (bad && n > 1 ? 2 : 1);
}

static inline int faulty_allocate(void *self, int fd, uint64_t bytes)
{
    return faulty_now(self, FAULTY_allocate) ? ((faulty_os *)self)->error : plim__os_linux.allocate(NULL, fd, bytes);
}

static inline int faulty_truncate(void *self, int fd, uint64_t bytes)
{
    return faulty_now(self, FAULTY_truncate) ? ((faulty_os *)self)->error : plim__os_linux.truncate(NULL, fd, bytes);
}

static inline int faulty_sync(void *self, int fd)
{
    (void)fd;
    return faulty_now(self, FAULTY_sync) ? ((faulty_os *)self)->error : 0;
}

static inline int faulty_rename(void *self, const char *from, const char *to)
{
    return faulty_now(self, FAULTY_rename) ? ((faulty_os *)self)->error : plim__os_linux.rename(NULL, from, to);
}

/* A name that cannot be removed is there afterwards: the file is gone all the same, or no test could tell its leftovers from ours. */
static inline int faulty_unlink(void *self, const char *path)
{
    const int got = plim__os_linux.unlink(NULL, path);
    return faulty_now(self, FAULTY_unlink) ? ((faulty_os *)self)->error : got;
}

static inline int faulty_stat(void *self, int fd, plim__stat *out)
{
    return faulty_now(self, FAULTY_stat) ? ((faulty_os *)self)->error : plim__os_linux.stat(NULL, fd, out);
}

static inline int faulty_list(void *self, const char *folder, void (*fn)(void *arg, const char *name), void *arg)
{
    return faulty_now(self, FAULTY_list) ? ((faulty_os *)self)->error : plim__os_linux.list(NULL, folder, fn, arg);
}

static inline int faulty_lock(void *self, int fd)
{
    return faulty_now(self, FAULTY_lock) ? ((faulty_os *)self)->error : plim__os_linux.lock(NULL, fd);
}

static inline int64_t faulty_read_text(void *self, const char *path, char *buf, uint64_t size)
{
    if (faulty_now(self, FAULTY_read_text)) return ((faulty_os *)self)->error;
    if (strcmp(path, "/proc/self/status") != 0) return plim__os_linux.read_text(NULL, path, buf, size);
    return snprintf(buf, size, "VmHWM:\t%u kB\nVmRSS:\t%u kB\n", FAULTY_RESIDENT >> 10, FAULTY_RESIDENT >> 10);
}

static inline int64_t faulty_cached(void *self, int fd)
{
    (void)self, (void)fd;
    return -ENOSYS;
}

static inline void faulty_init(faulty_os *f)
{
    *f = (faulty_os){.table = plim__os_linux, .left = -1};
    f->table.self = f;
    f->table.cached = faulty_cached;
    f->table.close = faulty_close;
#define X(name) f->table.name = faulty_##name;
    FAULTY_CALLS(X)
#undef X
}

#endif
