/* A system whose one file is the fuzzer's input: readers of whole files run on it as they do on the real one. */
#ifndef PLIM_FUZZ_ONE_FILE_H
#define PLIM_FUZZ_ONE_FILE_H

#include "os/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

typedef struct one_file {
    const char *path; /* under any other there is nothing */
    const uint8_t *data;
    uint64_t size;
    uint64_t written; /* bytes that were written, in order, to any descriptor: counted, not kept */
} one_file;

static inline int one_file_open(void *self, const char *path, int flags, int mode)
{
    const one_file *f = self;
    (void)flags, (void)mode;
    CHECK(path[0] != '/' && strncmp(path, "../", 3) != 0 && !strstr(path, "/../")); /* what a file names stays inside its folder */
    return strcmp(path, f->path) == 0 ? 3 : -ENOENT;
}

static inline int one_file_close(void *self, int fd) { return (void)self, (void)fd, 0; }

static inline int64_t one_file_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    const one_file *f = self;
    (void)fd;
    CHECK(off <= f->size && n <= f->size - off); /* the reader never asks for what is not there */
    memcpy(buf, f->data + off, n);
    return (int64_t)n;
}

static inline int64_t one_file_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    one_file *f = self;
    (void)fd, (void)buf;
    CHECK(off == f->written);
    f->written += n;
    return (int64_t)n;
}

static inline int one_file_stat(void *self, int fd, plim__stat *out)
{
    const one_file *f = self;
    (void)fd;
    *out = (plim__stat){.size = f->size, .inode = 1, .regular = true};
    return 0;
}

static inline int one_file_drop(void *self, int fd, uint64_t off, uint64_t n) { return (void)self, (void)fd, (void)off, (void)n, 0; }
static inline int one_file_flush(void *self, int fd, uint64_t off, uint64_t n, bool wait) { return (void)wait, one_file_drop(self, fd, off, n); }

static inline plim__os one_file_os(one_file *f)
{
    return (plim__os){.self = f, .open = one_file_open, .close = one_file_close, .pread = one_file_pread, .pwrite = one_file_pwrite,
                      .stat = one_file_stat, .drop_cache = one_file_drop, .flush_range = one_file_flush};
}

#endif
