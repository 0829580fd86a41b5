/* See folder.h. Nothing is kept; one block is written to see whether direct I/O works. */
#include "cli/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static int open_nameless(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/.plimsoll-doctor-XXXXXX", dir) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static bool takes_direct(int fd)
{
    static _Alignas(BLOCK) const char block[BLOCK];
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0 && pwrite(fd, block, sizeof block, 0) == BLOCK;
}

void plim__cli_folder_look(plim__cli_folder *out, const char *dir)
{
    const uint32_t tmpfs = 0x01021994, ramfs = 0x858458f6; /* statfs(2) */
    *out = (plim__cli_folder){0};
    const int fd = open_nameless(dir);
    if (fd < 0) {
        out->error = errno;
        return;
    }
    struct statfs fs;
    out->writable = true;
    if (fstatfs(fd, &fs) == 0) {
        out->in_memory = (uint32_t)fs.f_type == tmpfs || (uint32_t)fs.f_type == ramfs;
        out->free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
        out->total_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    }
    out->direct = !out->in_memory && takes_direct(fd);
    close(fd);
}
