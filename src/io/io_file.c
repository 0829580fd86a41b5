/* Opening array files for the transfer engine: which way their bytes will go. One control thread; nothing is allocated. */
#include "core/size.h"
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>

/* A file counts as cached when no more than this is missing: that much may come into the page cache, and stay, for the sake of not reading
 * from the disk what is in memory. */
#define CACHE_MISSING_MAX ((uint64_t)4 << 20)

static plim_status find_limit(plim__io_file *f, plim_error *err)
{
    uint64_t n;
    plim_shape whole = f->shape;
    if (f->rows) whole.dim[0] = (int64_t)f->rows;
    PLIM_TRY(plim_shape_count(&n, &whole, err));
    if (!plim__mul(&n, n, f->element) || !plim__add(&f->limit, n, f->offset) || f->limit > INT64_MAX - PLIM__IO_ALIGN)
        return plim__fail_at(err, PLIM_E_OVERFLOW, f->path, "'%.300s': the array would end beyond 2^63 bytes", f->path);
    return PLIM_OK;
}

static plim_status check_size(const plim__io_file *f, const plim__stat *st, plim_error *err)
{
    if (!st->regular) return plim__fail_at(err, PLIM_E_INVALID, f->path, "'%.300s' is not a regular file", f->path);
    if (st->size >= f->limit) return PLIM_OK;
    if (err && err->code == PLIM_OK) {
        err->offset = err->have = st->size;
        err->need = f->limit;
    }
    return plim__fail_at(err, PLIM_E_CHANGED, f->path, "'%.300s' has %llu bytes, its array needs %llu: it got shorter since its header was read",
                         f->path, (unsigned long long)st->size, (unsigned long long)f->limit);
}

static bool is_cached(const plim__os *os, int fd, uint64_t size)
{
    const int64_t cached = os->cached(os->self, fd);
    return cached >= 0 && (uint64_t)cached >= size / 2 && (uint64_t)cached + CACHE_MISSING_MAX >= size;
}

/* Swaps f->fd for one with direct I/O. Some file systems take the flag and refuse the transfer, so one block is read to see. */
static bool go_direct(plim__io_file *f, const plim__os *os)
{
    _Alignas(PLIM__IO_ALIGN) uint8_t probe[PLIM__IO_ALIGN];
    const int fd = os->open(os->self, f->path, O_RDONLY | O_DIRECT, 0);
    if (fd < 0) return false;
    if (os->pread(os->self, fd, probe, sizeof probe, 0) < 0) {
        os->close(os->self, fd);
        return false;
    }
    os->close(os->self, f->fd);
    f->fd = fd;
    return true;
}

plim_status plim__io_open_input(plim__io_file *f, const plim__os *os, bool allow_direct, plim_error *err)
{
    plim__stat st;
    f->fd = -1;
    f->direct = f->owned = f->drop = f->writable = false;
    PLIM_TRY(find_limit(f, err));
    /* Without O_NONBLOCK opening a pipe would wait for its other end. */
    const int fd = os->open(os->self, f->path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) return plim__os_fail(fd, "open", f->path, 0, err);
    const int got = os->stat(os->self, fd, &st);
    const plim_status status = got < 0 ? plim__os_fail(got, "look at", f->path, 0, err) : check_size(f, &st, err);
    if (status != PLIM_OK) {
        os->close(os->self, fd);
        return status;
    }
    f->fd = fd;
    f->owned = true;
    PLIM_ASSERT(!f->writable && f->limit >= f->offset); /* nothing of it waits in the edge cache */
    const bool keep = st.memory || is_cached(os, fd, st.size);
    if (!keep && allow_direct) f->direct = go_direct(f, os);
    if (!f->direct) {
        os->scatter(os->self, f->fd); /* several threads read: what the kernel would read ahead for each is not in the budget */
        f->drop = !keep;
    }
    return PLIM_OK;
}

void plim__io_open_output(plim__io_file *f, const plim__tempfile *t)
{
    uint64_t n = 0;
    PLIM_ASSERT(f->rows == 0 && f->element > 0); /* rows are picked of inputs only */
    f->path = plim__tempfile_path(t);
    f->fd = plim__tempfile_fd(t);
    f->direct = plim__tempfile_is_direct(t);
    f->drop = !f->direct;
    f->owned = f->swap = false;
    f->writable = true;
    (void)plim_shape_count(&n, &f->shape, NULL);
    f->limit = f->offset + n * f->element;
}

void plim__io_close(plim__io_file *f, const plim__os *os)
{
    PLIM_ASSERT(!f->owned || f->fd >= 0);
    if (f->owned) os->close(os->self, f->fd);
    f->owned = false;
    f->fd = -1;
}
