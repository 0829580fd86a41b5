/* What the benchmark's own programs share: .npy files by direct I/O, the plain way. Nothing here comes from the library, because these
 * programs are what it is measured against. A failure ends the program with a message. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, HEADER = 4096, MAX_DIMS = 8, BLOCK = 4 << 20 };

typedef struct array {
    int fd;
    int rank;
    int64_t dim[MAX_DIMS];
    int64_t count; /* elements */
    char descr[8];
} array;

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* Whole pages, touched, so that the loop pays for no page fault. */
static inline void *buffer_new(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) die("no memory for %zu bytes", bytes);
    return p;
}

static inline int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* @return bytes read: less than asked for only at the file's end */
static inline int64_t read_at(int fd, void *to, int64_t bytes, int64_t offset)
{
    int64_t done = 0;
    while (done < bytes) {
        const ssize_t n = pread(fd, (char *)to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) die("reading at byte %lld: %s", (long long)(offset + done), strerror(errno));
        if (n == 0) break;
        done += n;
        if (done % PAGE) break; /* only the file's last page is not whole */
    }
    return done;
}

static inline void write_at(int fd, const void *from, int64_t bytes, int64_t offset)
{
    for (int64_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(fd, (const char *)from + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) die("writing at byte %lld: %s", (long long)(offset + done), strerror(errno));
        done += n;
    }
}

static inline int open_direct(const char *path, int flags)
{
    int fd = open(path, flags | O_DIRECT, 0666);
    if (fd < 0 && errno == EINVAL) fd = open(path, flags, 0666); /* tmpfs and some network file systems */
    if (fd < 0) die("%s: %s", path, strerror(errno));
    return fd;
}

/* Reads a header that this benchmark's generator wrote: C order, data from byte 4096 on. */
static inline array array_open(const char *path)
{
    array a = {.fd = open_direct(path, O_RDONLY)};
    char *head = buffer_new(HEADER + 1);
    if (read_at(a.fd, head, HEADER, 0) != HEADER || memcmp(head, "\x93NUMPY\x01\x00", 8)) die("%s is no .npy 1.0 file", path);
    if ((unsigned char)head[8] + 256 * (unsigned char)head[9] + 10 != HEADER) die("%s: data should start at byte %d", path, HEADER);
    const char *descr = strstr(head + 10, "'descr': '"), *shape = strstr(head + 10, "'shape': (");
    if (!descr || !shape || sscanf(descr, "'descr': '%7[^']'", a.descr) != 1) die("%s: unexpected header", path);
    a.count = 1;
    for (char *p = (char *)shape + strlen("'shape': ("); *p != ')' && a.rank < MAX_DIMS;) {
        a.dim[a.rank] = strtoll(p, &p, 10);
        a.count *= a.dim[a.rank++];
        while (*p == ',' || *p == ' ') p++;
    }
    munmap(head, HEADER + 1);
    return a;
}

static inline void header_write(int fd, const char *descr, const int64_t *dim, int rank)
{
    char *head = buffer_new(HEADER);
    memset(head, ' ', HEADER);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((HEADER - 10) & 255);
    head[9] = (char)((HEADER - 10) >> 8);
    int at = 10 + sprintf(head + 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < rank; i++) at += sprintf(head + at, "%lld,%s", (long long)dim[i], i + 1 < rank ? " " : "");
    at += sprintf(head + at, "), }");
    head[at] = ' ';
    head[HEADER - 1] = '\n';
    write_at(fd, head, HEADER, 0);
    munmap(head, HEADER);
}

/* A new file with all its blocks, the last page whole, so that every write can be direct. */
static inline int output_new(const char *path, const char *descr, const int64_t *dim, int rank, int64_t data_bytes)
{
    const int fd = open_direct(path, O_RDWR | O_CREAT | O_TRUNC);
    const int64_t bytes = HEADER + round_up(data_bytes, PAGE);
    if (fallocate(fd, 0, 0, bytes) && ftruncate(fd, bytes)) die("%s: no space for %lld bytes: %s", path, (long long)bytes, strerror(errno));
    header_write(fd, descr, dim, rank);
    return fd;
}

static inline void output_end(int fd, int64_t data_bytes)
{
    if (ftruncate(fd, HEADER + data_bytes) || fdatasync(fd)) die("ending an output: %s", strerror(errno));
    close(fd);
}

static inline int cpu_count(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

static inline void run_threads(int n, void *(*work)(void *), void *arg)
{
    pthread_t thread[256];
    if (n > 256) n = 256;
    for (int i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, work, arg)) die("cannot start a thread");
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
}
