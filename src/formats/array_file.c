/* One way in for every kind of array file: splits "file.npz:member", opens the file, looks at its first bytes and asks the right reader.
 * Descriptors are closed before a function returns: what is kept is the file's identity, so that a later reader notices a change. */
#include "formats/array_file.h"
#include "core/size.h"
#include "formats/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DROP_STEP (8u << 20) /* bytes unpacked between two rounds of dropping pages */

/* An open file and what was asked of it. */
typedef struct opened {
    const plim__os *os;
    int fd;
    const char *path;   /* without the member */
    const char *member; /* NULL: none was named */
    plim__stat stat;
} opened;

/* ------------------------------------------------------------------------------------- for the readers in this folder */

plim_status plim__array_fail(plim_error *err, plim_status code, const char *path, uint64_t offset, const char *fmt, ...)
{
    if (!err || err->code != PLIM_OK) return code;
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plim__fail_at(err, code, path, "%.100s: %s", path, text);
    err->offset = offset;
    return code;
}

plim_status plim__file_open(int *out, plim__stat *stat, const plim__os *os, const char *path, plim_error *err)
{
    const int fd = os->open(os->self, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return plim__os_fail(fd, "open", path, 0, err);
    const int code = os->stat(os->self, fd, stat);
    plim_status status = PLIM_OK;
    if (code < 0) status = plim__os_fail(code, "stat", path, 0, err);
    else if (!stat->regular) status = plim__array_fail(err, PLIM_E_INVALID, path, 0, "not a regular file");
    if (status != PLIM_OK) os->close(os->self, fd);
    else *out = fd;
    return status;
}

void plim__source_identify(plim__source *s, const plim__stat *stat)
{
    s->file_bytes = stat->size;
    s->inode = stat->inode;
    s->device = stat->device;
    s->mtime_ns = stat->mtime_ns;
}

plim_status plim__array_read(const plim__os *os, int fd, void *buf, uint64_t n, uint64_t off, const char *path, plim_error *err)
{
    for (uint64_t done = 0; done < n;) {
        const int64_t got = os->pread(os->self, fd, (uint8_t *)buf + done, n - done, off + done);
        if (got < 0) return plim__os_fail((int)got, "read", path, off + done, err);
        if (got == 0)
            return plim__array_fail(err, PLIM_E_FORMAT, path, off + done, "it ends at byte %llu, though it was longer when it was opened",
                                    (unsigned long long)(off + done));
        done += (uint64_t)got;
    }
    return PLIM_OK;
}

char *plim__array_quote(char *buf, size_t size, const uint8_t *text, uint64_t n)
{
    const bool cut = n >= size;
    const uint64_t keep = !cut ? n : size > 4 ? size - 4 : 0;
    for (uint64_t i = 0; i < keep; i++) buf[i] = text[i] >= ' ' && text[i] < 0x7f ? (char)text[i] : '?';
    snprintf(buf + keep, size - keep, "%s", cut ? "..." : "");
    return buf;
}

/* ------------------------------------------------------------------------------------------------------ opening */

/* "a.npz:m" is the member m of a.npz; in any other path a colon is just a character. */
static plim_status split_path(const char *path, bool raw, char *buf, size_t size, const char **member, plim_error *err)
{
    *member = NULL;
    size_t n = strlen(path);
    for (const char *p = raw ? NULL : strstr(path, ".npz:"); p; p = strstr(p + 1, ".npz:")) {
        n = (size_t)(p - path) + 4;
        *member = p + 5;
    }
    if (n >= size) return plim__fail_at(err, PLIM_E_INVALID, path, "a path of %zu bytes is too long: %.100s...", n, path);
    memcpy(buf, path, n);
    buf[n] = 0;
    return PLIM_OK;
}

static plim_status file_open(opened *f, const plim__os *os, const char *path, const char *member, plim_error *err)
{
    *f = (opened){.os = os, .path = path, .member = member};
    return plim__file_open(&f->fd, &f->stat, os, path, err);
}

static plim_status read_npy(plim__array_file *out, const opened *f, uint64_t base, uint64_t end, plim_error *err)
{
    uint8_t head[PLIM__NPY_HEAD_MAX];
    const uint64_t n = end - base < sizeof head ? end - base : sizeof head;
    PLIM_TRY(plim__array_read(f->os, f->fd, head, n, base, f->path, err));
    return plim__npy_parse(out, head, n, base, end, f->path, err);
}

/* The start of an inflated member: all that a header needs. */
typedef struct head_buffer {
    uint64_t n;
    uint8_t bytes[PLIM__NPY_HEAD_MAX];
} head_buffer;

static plim_status head_keep(void *ctx, const uint8_t *p, uint64_t n, plim_error *err)
{
    head_buffer *h = ctx;
    (void)err;
    const uint64_t keep = n < sizeof h->bytes - h->n ? n : sizeof h->bytes - h->n;
    memcpy(h->bytes + h->n, p, keep);
    h->n += keep;
    return PLIM_OK;
}

static plim_status read_npz(plim__array_file *out, const opened *f, plim_error *err)
{
    const plim__zip z = {.os = f->os, .fd = f->fd, .bytes = f->stat.size, .path = f->path};
    plim__zip_member m;
    PLIM_TRY(plim__zip_find(&m, &z, f->member, ".npy", err));
    if (!m.deflated) return read_npy(out, f, m.data, m.data + m.size, err);
    head_buffer head = {.n = 0};
    PLIM_TRY(plim__zip_inflate(&z, &m, sizeof head.bytes, head_keep, &head, err));
    PLIM_TRY(plim__npy_parse(out, head.bytes, head.n, 0, m.size, f->path, err));
    out->compressed = true;
    return PLIM_OK;
}

static plim_status read_raw(plim__array_file *out, const opened *f, const plim_binding *raw, plim_error *err)
{
    PLIM_FAIL_IF(raw->shape.rank > PLIM_MAX_RANK || (unsigned)raw->dtype >= PLIM_DTYPE_COUNT, err, PLIM_E_INVALID,
                 "%.100s: a raw file needs a dtype and a shape of at most %d dimensions", f->path, PLIM_MAX_RANK);
    out->dtype = raw->dtype;
    out->shape = raw->shape;
    out->source.offset = raw->raw_offset;
    return plim__array_settle(out, f->stat.size, f->path, err);
}

static plim_status read_any(plim__array_file *out, const opened *f, const plim_binding *raw, plim_error *err)
{
    if (raw) return read_raw(out, f, raw, err);
    uint8_t start[4] = {0};
    if (f->stat.size >= sizeof start) PLIM_TRY(plim__array_read(f->os, f->fd, start, sizeof start, 0, f->path, err));
    const bool zip = memcmp(start, "PK\3\4", 4) == 0 || memcmp(start, "PK\5\6", 4) == 0;
    return zip || f->member ? read_npz(out, f, err) : read_npy(out, f, 0, f->stat.size, err);
}

plim_status plim__array_open(plim__array_file *out, const plim__os *os, const char *path, const plim_binding *raw, char *path_buf,
                             size_t path_size, plim_error *err)
{
    opened f;
    const char *member;
    plim__array_file found = {0};
    if (raw && !raw->raw) raw = NULL;
    PLIM_TRY(split_path(path, raw != NULL, path_buf, path_size, &member, err));
    PLIM_TRY(file_open(&f, os, path_buf, member, err));
    const plim_status status = read_any(&found, &f, raw, err);
    os->close(os->self, f.fd);
    if (status != PLIM_OK) return status;
    found.source.path = path_buf;
    plim__source_identify(&found.source, &f.stat);
    *out = found;
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- unpacking */

typedef struct unpacker {
    head_buffer head;
    const opened *from;
    int dst;
    uint64_t written, dropped;
} unpacker;

/* Pages of the scratch file are written out and dropped as we go: a budget counts them. */
static void unpack_drop(unpacker *u)
{
    const plim__os *os = u->from->os;
    os->flush_range(os->self, u->dst, u->dropped, u->written - u->dropped, true);
    os->drop_cache(os->self, u->dst, u->dropped, u->written - u->dropped);
    os->drop_cache(os->self, u->from->fd, 0, u->from->stat.size);
    u->dropped = u->written;
}

static plim_status unpack_write(void *ctx, const uint8_t *p, uint64_t n, plim_error *err)
{
    unpacker *u = ctx;
    const plim__os *os = u->from->os;
    PLIM_TRY(head_keep(&u->head, p, n, err));
    for (uint64_t done = 0; done < n;) {
        const int64_t put = os->pwrite(os->self, u->dst, p + done, n - done, u->written);
        if (put <= 0) return plim__os_fail(put ? (int)put : -EIO, "unpack to a scratch file", u->from->path, u->written, err);
        done += (uint64_t)put;
        u->written += (uint64_t)put;
    }
    if (u->written - u->dropped >= DROP_STEP) unpack_drop(u);
    return PLIM_OK;
}

static plim_status unpack_member(plim__array_file *out, const opened *f, int dst, plim_error *err)
{
    const plim__zip z = {.os = f->os, .fd = f->fd, .bytes = f->stat.size, .path = f->path};
    plim__zip_member m;
    PLIM_TRY(plim__zip_find(&m, &z, f->member, ".npy", err));
    if (!m.deflated) return plim__array_fail(err, PLIM_E_INVALID, f->path, m.data, "the member is stored, not compressed");
    unpacker u = {.from = f, .dst = dst};
    PLIM_TRY(plim__zip_inflate(&z, &m, m.size, unpack_write, &u, err));
    unpack_drop(&u);

    plim__array_file found = {.source = {.path = out->source.path}};
    PLIM_TRY(plim__npy_parse(&found, u.head.bytes, u.head.n, 0, m.size, f->path, err));
    plim__stat st;
    const int code = f->os->stat(f->os->self, dst, &st);
    if (code < 0) return plim__os_fail(code, "stat the scratch file for", f->path, 0, err);
    plim__source_identify(&found.source, &st);
    *out = found;
    return PLIM_OK;
}

plim_status plim__array_unpack(plim__array_file *out, const plim__os *os, const char *path, int dst, plim_error *err)
{
    opened f;
    const char *member;
    char file_path[PATH_MAX];
    PLIM_TRY(split_path(path, false, file_path, sizeof file_path, &member, err));
    PLIM_TRY(file_open(&f, os, file_path, member, err));
    const plim_status status = unpack_member(out, &f, dst, err);
    os->close(os->self, f.fd);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- public */

plim_status plim_array_info_read(plim_array_info *out, const char *path, plim_error *err)
{
    char file_path[PATH_MAX];
    plim__array_file f;
    PLIM_FAIL_IF(!out || !path, err, PLIM_E_INVALID, "plim_array_info_read needs a place for the answer and a path");
    PLIM_TRY(plim__array_open(&f, &plim__os_linux, path, NULL, file_path, sizeof file_path, err));
    const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    *out = (plim_array_info){
        .dtype = f.dtype,
        .shape = f.shape,
        .fortran_order = f.fortran_order,
        .big_endian = big != f.source.swap,
        .data_offset = f.source.offset,
    };
    return plim_shape_bytes(&out->bytes, &f.shape, f.dtype, err);
}
