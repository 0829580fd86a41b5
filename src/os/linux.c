/* The system table of a real Linux process. Each function is one system call with its errno turned into a negative value and
 * EINTR retried where the call does not say otherwise; there is no state, so `self` is unused and every function may be called
 * by any thread. Nothing is allocated, except by the C library while a folder is listed. */
#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* Repeats a call while a signal interrupts it; yields its result or -errno. */
#define RETRIED(call)                                   \
    __extension__({                                     \
        int64_t got_;                                   \
        do got_ = (int64_t)(call);                      \
        while (got_ < 0 && errno == EINTR);             \
        got_ < 0 ? -(int64_t)errno : got_;              \
    })

static int os_open(void *self, const char *path, int flags, int mode)
{
    (void)self;
    return (int)RETRIED(open(path, flags | O_CLOEXEC, mode));
}

/* Not retried: Linux has released the descriptor even when close says EINTR. */
static int os_close(void *self, int fd)
{
    (void)self;
    return close(fd) == 0 || errno == EINTR ? 0 : -errno;
}

static int64_t os_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    (void)self;
    return RETRIED(pread(fd, buf, n, (off_t)off));
}

static int64_t os_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    (void)self;
    return RETRIED(pwrite(fd, buf, n, (off_t)off));
}

static int os_truncate(void *self, int fd, uint64_t bytes)
{
    (void)self;
    return (int)RETRIED(ftruncate(fd, (off_t)bytes));
}

static int os_allocate(void *self, int fd, uint64_t bytes)
{
    if (bytes == 0) return os_truncate(self, fd, 0); /* fallocate refuses a length of 0 */
    const int got = (int)RETRIED(fallocate(fd, 0, 0, (off_t)bytes));
    if (got == -EOPNOTSUPP || got == -ENOSYS) return os_truncate(self, fd, bytes);
    return got;
}

static int os_sync(void *self, int fd)
{
    (void)self;
    return (int)RETRIED(fsync(fd));
}

static int os_rename(void *self, const char *from, const char *to)
{
    (void)self;
    return (int)RETRIED(rename(from, to));
}

static int os_unlink(void *self, const char *path)
{
    (void)self;
    return (int)RETRIED(unlink(path));
}

static int os_stat(void *self, int fd, plim__stat *out)
{
    (void)self;
    struct stat st;
    struct statfs fs;
    int got = (int)RETRIED(fstat(fd, &st));
    if (got == 0) got = (int)RETRIED(fstatfs(fd, &fs));
    if (got != 0) return got;
    uint64_t space;
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_bsize, &space)) space = UINT64_MAX;
    *out = (plim__stat){
        .size = (uint64_t)st.st_size,
        .inode = st.st_ino,
        .device = st.st_dev,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
        .space = space,
        .regular = S_ISREG(st.st_mode),
        .memory = (uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC,
    };
    return 0;
}

static int os_drop_cache(void *self, int fd, uint64_t off, uint64_t n)
{
    (void)self;
    return -posix_fadvise(fd, (off_t)off, (off_t)n, POSIX_FADV_DONTNEED);
}

static int os_scatter(void *self, int fd)
{
    (void)self;
    return -posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
}

static int os_flush_range(void *self, int fd, uint64_t off, uint64_t n, bool wait)
{
    (void)self;
    const unsigned around = wait ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER : 0;
    return (int)RETRIED(sync_file_range(fd, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE | around));
}

/* cachestat has no wrapper in the C libraries that this project supports. The numbers of system calls above 423 are the same on
 * every architecture; kernels before 6.5 answer ENOSYS. */
static int64_t os_cached(void *self, int fd)
{
    (void)self;
    enum { CACHESTAT = 451 };
    struct { uint64_t off, len; } range = {0, 0}; /* a length of 0 means up to the end */
    struct { uint64_t cache, dirty, writeback, evicted, recently_evicted; } pages = {0};
    const int64_t got = RETRIED(syscall(CACHESTAT, fd, &range, &pages, 0u));
    if (got < 0) return -ENOSYS;
    return (int64_t)(pages.cache * (uint64_t)sysconf(_SC_PAGESIZE));
}

static int os_lock(void *self, int fd)
{
    (void)self;
    return (int)RETRIED(flock(fd, LOCK_EX | LOCK_NB));
}

static int os_list(void *self, const char *folder, void (*fn)(void *arg, const char *name), void *arg)
{
    (void)self;
    DIR *dir = opendir(folder);
    if (!dir) return -errno;
    for (const struct dirent *e; (e = readdir(dir));) fn(arg, e->d_name);
    closedir(dir);
    return 0;
}

static int64_t os_read_text(void *self, const char *path, char *buf, uint64_t size)
{
    const int fd = os_open(self, path, O_RDONLY, 0);
    if (fd < 0) return fd;
    uint64_t n = 0;
    int64_t got = size == 0 ? -EINVAL : 0;
    while (got >= 0 && n + 1 < size) {
        got = RETRIED(read(fd, buf + n, size - 1 - n));
        if (got <= 0) break;
        n += (uint64_t)got;
    }
    os_close(self, fd);
    if (got < 0) return got;
    buf[n] = 0;
    return (int64_t)n;
}

static uint64_t os_clock_ns(void *self)
{
    (void)self;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const plim__os plim__os_linux = {
    .open = os_open,
    .close = os_close,
    .pread = os_pread,
    .pwrite = os_pwrite,
    .allocate = os_allocate,
    .truncate = os_truncate,
    .sync = os_sync,
    .rename = os_rename,
    .unlink = os_unlink,
    .stat = os_stat,
    .drop_cache = os_drop_cache,
    .flush_range = os_flush_range,
    .cached = os_cached,
    .scatter = os_scatter,
    .lock = os_lock,
    .list = os_list,
    .read_text = os_read_text,
    .clock_ns = os_clock_ns,
};
