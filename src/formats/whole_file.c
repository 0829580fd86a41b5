/* Files as one piece: what their content is known by, and writing one that is there whole or not at all. Nothing is allocated but what
 * os/tempfile.c takes; contents pass through a buffer on the stack. */
#include "formats/whole_file.h"
#include "formats/array_file.h"

#include <errno.h>

#define FNV_START 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

plim_status plim__file_identify(plim_file_identity *out, const plim__os *os, const char *path, plim_error *err)
{
    uint8_t buf[32768];
    plim__stat stat;
    int fd;
    plim_status status = PLIM_OK;
    uint64_t hash = FNV_START;
    PLIM_TRY(plim__file_open(&fd, &stat, os, path, err));
    for (uint64_t at = 0; at < stat.size && status == PLIM_OK;) {
        const uint64_t left = stat.size - at, n = left < sizeof buf ? left : sizeof buf;
        status = plim__array_read(os, fd, buf, n, at, path, err);
        for (uint64_t i = 0; i < n && status == PLIM_OK; i++) hash = (hash ^ buf[i]) * FNV_PRIME;
        at += n;
    }
    os->close(os->self, fd);
    if (status == PLIM_OK) *out = (plim_file_identity){.bytes = stat.size, .modified_ns = stat.mtime_ns, .hash = hash};
    return status;
}

plim_status plim__file_write(const plim__os *os, const char *path, const void *data, uint64_t n, plim_error *err)
{
    plim__tempfile *t = NULL;
    PLIM_TRY(plim__tempfile_new(&t, os, path, n, false, err));
    for (uint64_t done = 0; done < n;) {
        const int64_t got = os->pwrite(os->self, plim__tempfile_buffered_fd(t), (const uint8_t *)data + done, n - done, done);
        if (got <= 0) {
            plim__tempfile_drop(&t);
            return plim__os_fail(got < 0 ? (int)got : -EIO, "write", path, done, err);
        }
        done += (uint64_t)got;
    }
    return plim__tempfile_commit(&t, err);
}

plim_status plim_file_identify(plim_file_identity *out, const char *path, plim_error *err)
{
    return plim__file_identify(out, &plim__os_linux, path, err);
}

plim_status plim_file_write(const char *path, const void *data, size_t n, plim_error *err)
{
    return plim__file_write(&plim__os_linux, path, data, n, err);
}
