/* The system behind one header. Everything this project asks of the kernel goes through a plim__os: a table of functions
 * with a `self`, so that tests can supply a clock, a limit file, a failing read. Failures are negative errno values.
 *
 * Contracts
 *   open      as open(2). O_DIRECT is passed through; -EINVAL means that this file system has none.
 *   pread     reads at most n bytes at off. 0 is end of file. Retried on EINTR by the implementation, short counts are possible.
 *   pwrite    as pread. -ENOSPC and -EDQUOT mean a full disk.
 *   allocate  gives the file blocks for [0, bytes) and that size. Falls back to ftruncate where the file system cannot.
 *   stat      size, identity and modification time; `memory` is true for tmpfs and ramfs: its pages are RAM.
 *   cached    how many bytes of the file are in the page cache, or -ENOSYS.
 *   scatter   tells that reads of fd are not sequential, so that the kernel reads what is asked for and nothing ahead of it.
 *   lock      takes an exclusive lock on the open file without waiting; -EWOULDBLOCK: another holds it. Ends with the last descriptor.
 *   list      calls fn for every name in the folder.
 *   read_text reads a small file such as /proc/meminfo whole into buf and ends it with NUL; returns the length. */
#ifndef PLIM_OS_OS_H
#define PLIM_OS_OS_H

#include "core/error.h"

#include <sys/types.h>

typedef struct plim__stat {
    uint64_t size, inode, device;
    int64_t mtime_ns;
    uint64_t space; /* bytes that may still be written on its file system */
    bool regular;
    bool memory;
} plim__stat;

typedef struct plim__os {
    void *self;
    int (*open)(void *self, const char *path, int flags, int mode);
    int (*close)(void *self, int fd);
    int64_t (*pread)(void *self, int fd, void *buf, uint64_t n, uint64_t off);
    int64_t (*pwrite)(void *self, int fd, const void *buf, uint64_t n, uint64_t off);
    int (*allocate)(void *self, int fd, uint64_t bytes);
    int (*truncate)(void *self, int fd, uint64_t bytes);
    int (*sync)(void *self, int fd);
    int (*rename)(void *self, const char *from, const char *to);
    int (*unlink)(void *self, const char *path);
    int (*stat)(void *self, int fd, plim__stat *out);
    int (*drop_cache)(void *self, int fd, uint64_t off, uint64_t n);        /* POSIX_FADV_DONTNEED */
    int (*flush_range)(void *self, int fd, uint64_t off, uint64_t n, bool wait); /* sync_file_range */
    int64_t (*cached)(void *self, int fd);
    int (*scatter)(void *self, int fd); /* POSIX_FADV_RANDOM */
    int (*lock)(void *self, int fd);    /* flock */
    int (*list)(void *self, const char *folder, void (*fn)(void *arg, const char *name), void *arg);
    int64_t (*read_text)(void *self, const char *path, char *buf, uint64_t size);
    uint64_t (*clock_ns)(void *self);
} plim__os;

/** The real one. */
extern const plim__os plim__os_linux;

/* ---- limits.c ---- */
/** As plim_limits_read, on any system table: tests give it files of other machines. */
plim_status plim__limits_read(plim_limits *out, const plim__os *os, plim_error *err);
plim_status plim__resident_read(uint64_t *now, uint64_t *peak, const plim__os *os, plim_error *err);
/** Bytes of code that are mapped, resident or not, libraries included; 0: not known. The same in every run of a command. */
uint64_t plim__code_mapped(const plim__os *os);
/** CPUs that this process may use (sched_getaffinity, and the cgroup's cpu quota rounded up); at least 1. */
uint32_t plim__cpu_count(const plim__os *os);

/* ---- arena.c: the one block that a run owns ---- */
/** Maps `bytes` (rounded up to a page), touches every page with `threads` threads so that the kernel has to keep its word now.
 *  @return PLIM_E_NOMEM when it cannot be had. Aligned to 2 MiB when it is 2 MiB or larger. */
plim_status plim__arena_map(void **out, uint64_t bytes, uint32_t threads, plim_error *err);
void plim__arena_unmap(void *p, uint64_t bytes);
/** Keeps it in memory, whatever the system is short of. The message names the limit that is in the way. */
plim_status plim__arena_lock(void *p, uint64_t bytes, plim_error *err);

/* ---- parallel.c: the one pool of compute threads ---- */
/** Calls fn(arg, i, worker) for i in [0, n), each i once; worker in [0, threads) and stable: item i is always done by worker
 *  i * threads / n, so results do not depend on timing; a worker does its items in order. Returns when all are done. Never
 *  fails: work for which the system gives no thread is done by the calling one. Any thread may call, also from inside fn:
 *  one call at a time uses the pool, the others run on the thread that called. In the child of a fork, too. */
void plim__parallel(uint32_t threads, uint64_t n, void (*fn)(void *arg, uint64_t i, uint32_t worker), void *arg);

/* ---- tempfile.c: outputs appear whole or not at all ---- */
typedef struct plim__tempfile plim__tempfile;
/** Creates "<dir>/.<name>.<pid>-<start>-<n>.plimsoll-tmp" beside `path` with `bytes` allocated and open for writing (direct I/O where
 *  `direct` and it works). First removes such files of `path` whose process is gone (killed runs).
 *  Nothing is at `path` until plim__tempfile_commit, which syncs, renames, and syncs the folder. */
plim_status plim__tempfile_new(plim__tempfile **out, const plim__os *os, const char *path, uint64_t bytes, bool direct, plim_error *err);
/** A scratch file in `dir` for spilled values: unlinked at once, so that even kill -9 leaves nothing. */
plim_status plim__tempfile_scratch(plim__tempfile **out, const plim__os *os, const char *dir, uint64_t bytes, bool direct, plim_error *err);
int plim__tempfile_fd(const plim__tempfile *t);          /* the descriptor for data, maybe O_DIRECT */
int plim__tempfile_buffered_fd(const plim__tempfile *t); /* a second one without O_DIRECT, for headers and odd bytes */
bool plim__tempfile_is_direct(const plim__tempfile *t);
const char *plim__tempfile_path(const plim__tempfile *t);
/** The size that commit gives the file, where it is other than what was allocated. */
void plim__tempfile_resize(plim__tempfile *t, uint64_t bytes);
/** Gives the file its size and brings it to the disk: what a full or broken disk can spoil has been spoilt after this. Before several files are
 *  committed together each is finished; plim__tempfile_commit finishes one that is not. */
plim_status plim__tempfile_finish(plim__tempfile *t, plim_error *err);
/** The file appears at its path; when that fails, it is dropped. Takes `t` back either way. */
plim_status plim__tempfile_commit(plim__tempfile **t, plim_error *err);
void plim__tempfile_drop(plim__tempfile **t);
/** Turns -errno of an operation on `path` at `offset` into a status with a message that names all three. */
plim_status plim__os_fail(int negative_errno, const char *doing, const char *path, uint64_t offset, plim_error *err);

#endif
