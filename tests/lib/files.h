/* For tests that work on files: a folder of their own, whole files in and out, NumPy where the machine has it, and a system whose
 * N-th read or write fails. */
#ifndef PLIM_TESTS_FILES_H
#define PLIM_TESTS_FILES_H

#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_PYTHON "/usr/bin/python3"

static char files_dir[64];

static inline int files_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Group set-up and tear-down for cmocka. The folder is on /var/tmp: /tmp may be memory, where direct I/O does not exist. */
static inline int files_begin(void **state)
{
    (void)state;
    strcpy(files_dir, "/var/tmp/plimsoll-test-XXXXXX");
    return mkdtemp(files_dir) ? 0 : -1;
}

static inline int files_end(void **state)
{
    (void)state;
    return nftw(files_dir, files_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of `name` in the folder. Good for the next seven calls. */
static inline const char *files_path(const char *name)
{
    static char ring[8][256];
    static unsigned at;
    char *path = ring[at++ % 8];
    snprintf(path, sizeof ring[0], "%s/%s", files_dir, name);
    return path;
}

static inline void files_write(const char *name, const void *data, size_t n)
{
    unlink(files_path(name)); /* ext4 writes a file that is cut to nothing and filled again to the disk at once */
    FILE *f = fopen(files_path(name), "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

/* The whole file; the caller frees it. NULL: there is none. */
static inline uint8_t *files_read(const char *name, size_t *n)
{
    FILE *f = fopen(files_path(name), "rb");
    *n = 0;
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*n + 1);
    if (!data || fread(data, 1, *n, f) != *n) abort();
    fclose(f);
    return data;
}

/* The path of a case from outside that somebody put beside the project: cases/<name> in a folder `shared` next to it. Test programs lie in the
 * build folder, which lies in the project. @return it is there */
static inline bool files_shared(char *path, size_t size, const char *name)
{
    char self[256];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return false;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    snprintf(path, size, "%s/../../shared/cases/%s", self, name);
    return access(path, R_OK) == 0;
}

static inline bool files_have_numpy(void)
{
    return system(FILES_PYTHON " -c 'import numpy' >/dev/null 2>&1") == 0;
}

/* Runs a Python script with the folder as its working directory. @return its exit status was 0 */
static inline bool files_python(const char *script)
{
    char command[512];
    files_write("script.py", script, strlen(script));
    snprintf(command, sizeof command, "cd %s && " FILES_PYTHON " script.py >&2", files_dir);
    return system(command) == 0;
}

/* A real system whose n-th pread or pwrite, counted from 0, and all later ones give `error` (0: a short count). */
typedef struct failing_os {
    plim__os table;
    _Atomic int64_t reads_left, writes_left; /* negative: never fails */
    int error;
    bool short_counts; /* every transfer moves one byte only */
} failing_os;

/* Takes one of what is left. @return there was none: the call fails */
static inline bool failing_now(_Atomic int64_t *left)
{
    int64_t n = *left;
    while (n > 0 && !atomic_compare_exchange_weak(left, &n, n - 1)) {}
    return n == 0;
}

static inline int64_t failing_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    failing_os *f = self;
    if (failing_now(&f->reads_left)) return f->error;
    return plim__os_linux.pread(plim__os_linux.self, fd, buf, f->short_counts && n > 1 ? 1 : n, off);
}

static inline int64_t failing_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    failing_os *f = self;
    if (failing_now(&f->writes_left)) return f->error;
    return plim__os_linux.pwrite(plim__os_linux.self, fd, buf, f->short_counts && n > 1 ? 1 : n, off);
}

static inline void failing_os_init(failing_os *f)
{
    *f = (failing_os){.table = plim__os_linux, .reads_left = -1, .writes_left = -1, .error = -EIO};
    f->table.self = f;
    f->table.pread = failing_pread;
    f->table.pwrite = failing_pwrite;
}

/* A deterministic stream of numbers (splitmix64). */
static inline uint64_t files_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
