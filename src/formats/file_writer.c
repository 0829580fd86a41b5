/* See the header. What is written is handed to the disk every DROP_STEP bytes and then dropped from the cache: a budget counts dirty pages, too. */
#include "formats/file_writer.h"
#include "formats/array_file.h"
#include "kernels/elementwise.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define DROP_STEP (8u << 20)

plim_status plim__file_writer_open(plim__file_writer *w, const plim__os *os, const char *path, uint64_t bytes, plim_error *err)
{
    *w = (plim__file_writer){.os = os, .path = path};
    return plim__tempfile_new(&w->temp, os, path, bytes, false, err);
}

static void drop_written(plim__file_writer *w)
{
    const int fd = plim__tempfile_buffered_fd(w->temp);
    if (w->dropped == w->written) return; /* a length of 0 would mean all of it */
    w->os->flush_range(w->os->self, fd, w->dropped, w->written - w->dropped, true);
    w->os->drop_cache(w->os->self, fd, w->dropped, w->written - w->dropped);
    w->dropped = w->written;
}

static plim_status write_at(plim__file_writer *w, uint64_t at, const void *bytes, uint64_t n, plim_error *err)
{
    for (uint64_t done = 0; done < n;) {
        const int64_t got = w->os->pwrite(w->os->self, plim__tempfile_buffered_fd(w->temp), (const uint8_t *)bytes + done, n - done, at + done);
        if (got <= 0) return plim__os_fail(got < 0 ? (int)got : -EIO, "write", w->path, at + done, err);
        done += (uint64_t)got;
    }
    return PLIM_OK;
}

plim_status plim__file_writer_put(plim__file_writer *w, const void *bytes, uint64_t n, plim_error *err)
{
    PLIM_TRY(write_at(w, w->written, bytes, n, err));
    if (w->summed) w->crc = (uint32_t)crc32_z(w->crc, bytes, n);
    w->written += n;
    if (w->written - w->dropped >= DROP_STEP) drop_written(w);
    return PLIM_OK;
}

plim_status plim__file_writer_correct(plim__file_writer *w, uint64_t at, const void *bytes, uint64_t n, plim_error *err)
{
    PLIM_ASSERT(at <= w->written && n <= w->written - at);
    return write_at(w, at, bytes, n, err);
}

/* A piece is a multiple of every element's size, so none is torn. */
plim_status plim__file_writer_tensor(plim__file_writer *w, plim__tensor_reader reader, uint32_t index, uint64_t bytes, uint32_t swap,
                                     plim_error *err)
{
    _Alignas(64) uint8_t piece[PLIM__FILE_PIECE];
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        PLIM_TRY(reader.read(reader.ctx, index, at, piece, n, err));
        if (swap > 1) plim__swap_bytes(piece, n / swap, swap);
        PLIM_TRY(plim__file_writer_put(w, piece, n, err));
        at += n;
    }
    return PLIM_OK;
}

plim_status plim__file_writer_copy(plim__file_writer *w, plim__file_from file, uint64_t from, uint64_t to, plim_error *err)
{
    _Alignas(64) uint8_t piece[PLIM__FILE_PIECE];
    uint64_t dropped = from;
    for (uint64_t at = from; at < to;) {
        const uint64_t n = to - at < sizeof piece ? to - at : sizeof piece;
        PLIM_TRY(plim__array_read(w->os, file.fd, piece, n, at, file.path, err));
        PLIM_TRY(plim__file_writer_put(w, piece, n, err));
        at += n;
        if (at - dropped < DROP_STEP && at < to) continue;
        w->os->drop_cache(w->os->self, file.fd, dropped, at - dropped);
        dropped = at;
    }
    return PLIM_OK;
}

plim_status plim__file_writer_patched(plim__file_writer *w, plim__file_from file, uint64_t from, uint64_t to, const plim__patch *patch, uint32_t n,
                                      plim__tensor_reader reader, plim_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        PLIM_ASSERT(patch[i].offset >= from && patch[i].offset <= to && patch[i].bytes <= to - patch[i].offset);
        PLIM_TRY(plim__file_writer_copy(w, file, from, patch[i].offset, err));
        PLIM_TRY(plim__file_writer_tensor(w, reader, patch[i].index, patch[i].bytes, patch[i].swap, err));
        from = patch[i].offset + patch[i].bytes;
    }
    return plim__file_writer_copy(w, file, from, to, err);
}

plim_status plim__file_writer_finish(plim__file_writer *w, plim_error *err)
{
    drop_written(w);
    return plim__tempfile_finish(w->temp, err);
}

plim_status plim__file_writer_commit(plim__file_writer *w, plim_error *err)
{
    const plim_status status = plim__file_writer_finish(w, err);
    if (status == PLIM_OK) return plim__tempfile_commit(&w->temp, err);
    plim__file_writer_drop(w);
    return status;
}

void plim__file_writer_drop(plim__file_writer *w) { plim__tempfile_drop(&w->temp); }

static int compare_offsets(const void *a, const void *b)
{
    const plim__patch *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void plim__patches_sort(plim__patch *patch, uint32_t n) { qsort(patch, n, sizeof *patch, compare_offsets); }
