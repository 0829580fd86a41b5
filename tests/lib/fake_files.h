/* A system for tests that has nothing but a few text files: those of a machine that is not this one. The list ends with a path of NULL. */
#ifndef PLIM_TESTS_FAKE_FILES_H
#define PLIM_TESTS_FAKE_FILES_H

#include "os/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct fake_file {
    const char *path, *text;
} fake_file;

static inline const char *fake_find(void *self, const char *path)
{
    for (const fake_file *f = self; f->path; f++)
        if (!strcmp(f->path, path)) return f->text;
    return NULL;
}

static inline int64_t fake_read_text(void *self, const char *path, char *buf, uint64_t size)
{
    const char *text = fake_find(self, path);
    if (!text) return -ENOENT;
    snprintf(buf, size, "%s", text);
    return (int64_t)strlen(buf);
}

static inline int fake_open(void *self, const char *path, int flags, int mode)
{
    (void)flags, (void)mode;
    const fake_file *files = self;
    for (int i = 0; files[i].path; i++)
        if (!strcmp(files[i].path, path)) return i;
    return -ENOENT;
}

/* At most 100 bytes at a time, so that lines are cut in the middle. */
static inline int64_t fake_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    const char *text = ((const fake_file *)self)[fd].text;
    const uint64_t size = strlen(text), left = off < size ? size - off : 0;
    uint64_t take = n < left ? n : left;
    if (take > 100) take = 100;
    memcpy(buf, text + off, take);
    return (int64_t)take;
}

static inline int fake_close(void *self, int fd)
{
    (void)self, (void)fd;
    return 0;
}

static inline plim__os fake_os(const fake_file *files)
{
    return (plim__os){.self = (void *)(uintptr_t)files, .open = fake_open, .close = fake_close, .pread = fake_pread, .read_text = fake_read_text};
}

#endif
