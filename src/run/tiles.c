/* A walk over an array file, tile by tile, for a loop that the caller writes.
 *
 * Two slots take turns. While the caller works on tile i in one, tile i + 1 is read into the other, and tile i - 1 is on its way out:
 *
 *     next(i)   queue write i-1 ─ queue read i+1 ─ wait for read i ─ wait for write i-2 ─> the caller has tile i
 *
 * Tiles come in the order of the output's bytes, so that blocks which two tiles share are soon complete; without an output, in the order of
 * the input's. The two differ when the input is in Fortran order: the walk is then a transposition.
 *
 * The shape of a tile. Dimensions that the caller left at 0 start at 1; that gives the smallest arena, and so the smallest budget that
 * works. They then grow while the arena fits: first the fastest axis of the input and that of the output, step by step, to runs of
 * RUN_GOOD bytes (where the two differ, the sum of requests a/run + b/run is least when both are alike); then axes with an overlap to
 * HALO_GOOD times of it, so that little is read twice; then whole axes, fastest first, so that a tile becomes a few whole rows of
 * the slowest axis. It stops at ARENA_GOOD: more would only cost the touching of it.
 * plim__io_layout_of promises that a box never needs less room when it grows, so halving finds the largest that fits.
 *
 * Memory: one arena holds the transfer engine's buffers and both slots; the handle comes from the caller's allocator. The budget is for the
 * whole process, as plan/budget.h counts it. */
#include "run/tiles.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "io/io.h"
#include "plan/budget.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define RUN_LEAST ((int64_t)4 << 10)
#define RUN_GOOD ((int64_t)64 << 10)
#define HALO_GOOD 8
#define ARENA_GOOD (256 * MIB)

/* From generous to frugal. A transfer engine should not take more than a quarter of what there is. */
static const plim__io_config engines[] = {
    {.threads = 4, .bounce_bytes = 1 << 20, .edge_blocks = 256, .piece_bytes = 2 << 20},
    {.threads = 2, .bounce_bytes = 128 << 10, .edge_blocks = 64, .piece_bytes = 512 << 10},
    {.threads = 1, .bounce_bytes = 8 << 10, .edge_blocks = 4, .piece_bytes = 64 << 10},
};
#define N_ENGINES (sizeof engines / sizeof *engines)

typedef struct slot {
    void *in, *out;
    plim__region core, halo;
    plim__region outgoing; /* the core that `writing` is about */
    plim__io_layout in_layout, out_layout;
    plim__io_ticket reading, writing;
} slot;

struct plim_tiles {
    plim__alloc alloc;
    const plim__os *os;
    plim_settings set;
    plim_error error; /* the first; every later call gives it again */

    char in_path[PATH_MAX];
    plim__array_file array;
    plim__tempfile *unpacked; /* NULL: the input is read in place */
    plim__tempfile *result;   /* NULL: nothing is written */
    plim__io_file in, out;
    bool writes;

    uint32_t rank;
    uint32_t order[PLIM_MAX_RANK]; /* axes, slowest first: of the output, or of the input where there is none */
    int64_t tile[PLIM_MAX_RANK], grid[PLIM_MAX_RANK], overlap[PLIM_MAX_RANK];
    uint64_t count, given;
    bool last_written;

    plim__io_config engine;
    plim__io *io;
    void *arena;
    uint64_t arena_bytes;
    slot slot[2];
    uint64_t started_ns, bytes_done, bytes_total;
};

/* ------------------------------------------------------------------------------------------------ what is asked for */

static plim_status check_extents(const plim_tiles *t, const plim_shape *s, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(s->rank != t->rank, err, PLIM_E_SHAPE, "%s has %u dimensions, the array %.200s has %u", what, s->rank, t->in_path, t->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        PLIM_FAIL_IF(s->dim[d] < 0, err, PLIM_E_SHAPE, "%s: dimension %u is negative: %lld", what, d, (long long)s->dim[d]);
    return PLIM_OK;
}

static plim_status take_extents(plim_tiles *t, const plim_shape *tile, const plim_shape *overlap, plim_error *err)
{
    t->rank = t->array.shape.rank;
    if (tile) PLIM_TRY(check_extents(t, tile, "the tile", err));
    if (overlap) PLIM_TRY(check_extents(t, overlap, "the overlap", err));
    for (uint32_t d = 0; d < t->rank; d++) {
        const int64_t n = t->array.shape.dim[d];
        t->tile[d] = tile ? plim__min(tile->dim[d], n) : 0;
        t->overlap[d] = overlap ? plim__min(overlap->dim[d], n) : 0;
    }
    return PLIM_OK;
}

static void order_axes(plim_tiles *t, const plim__io_file *f)
{
    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t k = d;
        for (; k > 0 && f->stride[t->order[k - 1]] < f->stride[d]; k--) t->order[k] = t->order[k - 1];
        t->order[k] = d;
    }
}

static plim_status unpack_input(plim_tiles *t, const char *path, plim_error *err)
{
    if (!t->set.spill_dir)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, path, "%.300s is compressed: a folder to unpack it in is needed (spill_dir)", path);
    PLIM_TRY(plim__tempfile_scratch(&t->unpacked, t->os, t->set.spill_dir, 0, !t->set.no_direct_io, err));
    return plim__array_unpack(&t->array, t->os, path, plim__tempfile_buffered_fd(t->unpacked), err);
}

static plim_status open_input(plim_tiles *t, const char *path, plim_error *err)
{
    PLIM_TRY(plim__array_open(&t->array, t->os, path, NULL, t->in_path, sizeof t->in_path, err));
    if (t->array.compressed) PLIM_TRY(unpack_input(t, path, err));
    t->in = (plim__io_file){.path = t->in_path,
                            .offset = t->array.source.offset,
                            .element = (uint32_t)plim_dtype_bytes(t->array.dtype),
                            .shape = t->array.shape,
                            .swap = t->array.source.swap};
    memcpy(t->in.stride, t->array.source.stride, sizeof t->in.stride);
    if (!t->unpacked) return plim__io_open_input(&t->in, t->os, !t->set.no_direct_io, err);
    plim__io_open_output(&t->in, t->unpacked);
    t->in.path = t->in_path;
    t->in.swap = t->array.source.swap;
    t->in.writable = false;
    return PLIM_OK;
}

/* The output as the planner needs it; there is no file yet. */
static plim_status describe_output(plim_tiles *t, plim_dtype dtype, plim_error *err)
{
    uint64_t bytes;
    PLIM_TRY(plim_shape_bytes(&bytes, &t->array.shape, dtype, err));
    t->out = (plim__io_file){.offset = PLIM__NPY_HEADER, .element = (uint32_t)plim_dtype_bytes(dtype), .shape = t->array.shape};
    int64_t step = 1;
    for (uint32_t d = t->rank; d-- > 0 && bytes > 0;) {
        t->out.stride[d] = step;
        step *= t->array.shape.dim[d];
    }
    return PLIM_OK;
}

static plim_status open_output(plim_tiles *t, const char *path, plim_dtype dtype, plim_error *err)
{
    uint64_t bytes, size;
    char header[PLIM__NPY_HEADER];
    PLIM_TRY(plim__npy_header(header, dtype, &t->array.shape, err));
    PLIM_TRY(plim_shape_bytes(&bytes, &t->array.shape, dtype, err));
    PLIM_FAIL_IF(!plim__add(&size, bytes, sizeof header), err, PLIM_E_OVERFLOW, "%.300s would have more than 2^64 bytes", path);
    PLIM_TRY(plim__tempfile_new(&t->result, t->os, path, size, !t->set.no_direct_io, err));
    plim__io_open_output(&t->out, t->result);
    for (uint64_t done = 0; done < sizeof header;) {
        const int64_t put = t->os->pwrite(t->os->self, plim__tempfile_buffered_fd(t->result), header + done, sizeof header - done, done);
        if (put <= 0) return plim__os_fail(put ? (int)put : -EIO, "write", path, done, err);
        done += (uint64_t)put;
    }
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------- the shape of a tile */

/* Extent of a tile and its overlap on both sides, clipped. */
static int64_t halo_extent(const plim_tiles *t, uint32_t d)
{
    const int64_t n = t->array.shape.dim[d], tile = t->tile[d];
    return (n - tile + 1) / 2 <= t->overlap[d] ? n : tile + 2 * t->overlap[d];
}

/* Room for the largest box of each kind, `in` with its halo. Where a box lies does not matter to it. */
static void slot_bytes(const plim_tiles *t, uint64_t *in_bytes, uint64_t *out_bytes)
{
    plim__io_layout in, out = {0};
    plim__region core = {.rank = t->rank}, halo = {.rank = t->rank};
    *in_bytes = *out_bytes = 0;
    if (t->bytes_total == 0) return;
    for (uint32_t d = 0; d < t->rank; d++) {
        core.dim[d] = (plim__range){0, t->tile[d]};
        halo.dim[d] = (plim__range){0, halo_extent(t, d)};
    }
    plim__io_layout_of(&t->in, &halo, false, &in);
    if (t->writes) plim__io_layout_of(&t->out, &core, true, &out);
    *in_bytes = in.bytes;
    *out_bytes = out.bytes;
}

static uint64_t engine_bytes(const plim_tiles *t) { return plim__round_up(plim__io_bytes(&t->engine), PLIM__IO_ALIGN); }

static uint64_t slot_count(const plim_tiles *t)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->tile[d] < t->array.shape.dim[d]) return 2;
    return 1;
}

/* With the engine and the tile as they are now. */
static uint64_t arena_need(const plim_tiles *t)
{
    uint64_t in, out;
    slot_bytes(t, &in, &out);
    return engine_bytes(t) + slot_count(t) * (in + out);
}

/* The largest extent of axis d, not above `most`, with which the arena still fits; parts of equal size where it is cut. */
static void grow(plim_tiles *t, uint32_t d, int64_t most, uint64_t room)
{
    int64_t good = t->tile[d], bad = plim__min(most, t->array.shape.dim[d]) + 1;
    if (bad <= good) return;
    while (bad - good > 1) {
        t->tile[d] = good + (bad - good) / 2;
        if (arena_need(t) <= room)
            good = t->tile[d];
        else
            bad = t->tile[d];
    }
    const int64_t parts = plim__ceil_div(t->array.shape.dim[d], good);
    t->tile[d] = plim__ceil_div(t->array.shape.dim[d], parts);
}

/* The axis along which neighbours in the file touch, among those that are longer than 1; PLIM_MAX_RANK: none. */
static uint32_t fastest_axis(const plim__io_file *f)
{
    uint32_t best = PLIM_MAX_RANK;
    for (uint32_t d = 0; d < f->shape.rank; d++)
        if (f->shape.dim[d] > 1 && (best == PLIM_MAX_RANK || f->stride[d] < f->stride[best])) best = d;
    return best;
}

static void choose_tile(plim_tiles *t, const bool *chosen, uint64_t room)
{
    const int64_t *n = t->array.shape.dim;
    const uint64_t good = room < ARENA_GOOD || arena_need(t) > ARENA_GOOD ? room : ARENA_GOOD;
    const uint32_t in = fastest_axis(&t->in), out = t->writes ? fastest_axis(&t->out) : in;
    for (int64_t run = RUN_LEAST; run <= RUN_GOOD && in < PLIM_MAX_RANK; run *= 2) {
        if (chosen[in]) grow(t, in, run / t->in.element, good);
        if (chosen[out] && t->writes) grow(t, out, run / t->out.element, good);
    }
    for (uint32_t k = t->rank; k-- > 0;) {
        const uint32_t d = t->order[k];
        const int64_t wide = t->overlap[d] > n[d] / HALO_GOOD ? n[d] : t->overlap[d] * HALO_GOOD;
        if (chosen[d]) grow(t, d, wide, good);
    }
    for (uint32_t k = t->rank; k-- > 0;)
        if (chosen[t->order[k]]) grow(t, t->order[k], n[t->order[k]], good);
}

static plim_status refuse(const plim_tiles *t, uint64_t need, const plim__budget *budget, plim_error *err)
{
    char a[32], b[32], c[32];
    if (err && err->code == PLIM_OK) {
        err->need = need;
        err->have = budget->bytes;
    }
    return plim__fail_at(err, PLIM_E_BUDGET, t->in_path, "tiles of %.200s do not fit: at least %s (%llu bytes) are needed, the budget is %s, "
                         "of which the process has %s already",
                         t->in_path, plim_bytes_format(a, sizeof a, need), (unsigned long long)need, plim_bytes_format(b, sizeof b, budget->bytes),
                         plim_bytes_format(c, sizeof c, budget->baseline));
}

/* Settles engine, tile and arena inside the budget. */
static plim_status plan(plim_tiles *t, plim_error *err)
{
    plim__budget b;
    bool chosen[PLIM_MAX_RANK] = {0};
    PLIM_TRY(plim__budget_start(&b, t->os, err));
    PLIM_TRY(plim__budget_measure(&b, &t->set, t->set.threads ? t->set.threads : plim__cpu_count(t->os), false, err));
    for (uint32_t d = 0; d < t->rank; d++) {
        chosen[d] = t->tile[d] == 0 && t->bytes_total > 0;
        if (chosen[d]) t->tile[d] = 1;
    }
    const uint64_t room = plim__budget_room(&b, b.bytes);
    for (size_t i = 0; i < N_ENGINES; i++) {
        t->engine = engines[i];
        const uint64_t least = arena_need(t);
        const bool last = i + 1 == N_ENGINES;
        if (last && least > room) return refuse(t, plim__budget_floor(&b, plim__budget_for(&b, least)), &b, err);
        if (least > room || (!last && plim__io_bytes(&t->engine) > room / 4)) continue;
        choose_tile(t, chosen, room);
        break;
    }
    t->count = t->bytes_total > 0;
    for (uint32_t d = 0; d < t->rank && t->count; d++) {
        t->grid[d] = plim__ceil_div(t->array.shape.dim[d], t->tile[d]);
        t->count *= (uint64_t)t->grid[d]; /* never more tiles than elements */
    }
    t->arena_bytes = arena_need(t);
    return PLIM_OK;
}

static plim_status start(plim_tiles *t, plim_error *err)
{
    uint64_t in, out;
    const uint32_t threads = t->set.threads ? t->set.threads : plim__cpu_count(t->os);
    PLIM_TRY(plim__arena_map(&t->arena, t->arena_bytes, threads, err));
    slot_bytes(t, &in, &out);
    uint8_t *at = (uint8_t *)t->arena + engine_bytes(t);
    for (uint64_t i = 0; i < slot_count(t); i++) {
        t->slot[i].in = at;
        t->slot[i].out = at + in;
        at += in + out;
    }
    PLIM_ASSERT(at == (uint8_t *)t->arena + t->arena_bytes);
    return plim__io_new(&t->io, &t->engine, t->os, &t->alloc, t->arena, err);
}

/* ---------------------------------------------------------------------------------------------------------- the walk */

static void place(const plim_tiles *t, uint64_t index, slot *s)
{
    s->core.rank = s->halo.rank = t->rank;
    for (uint32_t k = t->rank; k-- > 0;) {
        const uint32_t d = t->order[k];
        const int64_t n = t->array.shape.dim[d], at = (int64_t)(index % (uint64_t)t->grid[d]);
        index /= (uint64_t)t->grid[d];
        s->core.dim[d].lo = at * t->tile[d];
        s->core.dim[d].hi = n - s->core.dim[d].lo > t->tile[d] ? s->core.dim[d].lo + t->tile[d] : n;
        s->halo.dim[d].lo = plim__max(0, s->core.dim[d].lo - t->overlap[d]);
        s->halo.dim[d].hi = n - s->core.dim[d].hi > t->overlap[d] ? s->core.dim[d].hi + t->overlap[d] : n;
    }
    plim__io_layout_of(&t->in, &s->halo, false, &s->in_layout);
    if (t->writes) plim__io_layout_of(&t->out, &s->core, true, &s->out_layout);
}

static void fetch(plim_tiles *t, uint64_t index)
{
    slot *s = &t->slot[index % 2];
    place(t, index, s);
    plim__io_read(t->io, &t->in, &s->halo, s->in, &s->reading);
}

/* The tile that the caller has just finished. Its write before this one was waited for when the tile was given out. */
static void write_back(plim_tiles *t, uint64_t index)
{
    slot *s = &t->slot[index % 2];
    if (!t->writes) return;
    s->outgoing = s->core;
    plim__io_write(t->io, &t->out, &s->outgoing, s->out, &s->writing);
}

static void describe(const plim_tiles *t, const slot *s, plim_tile *out)
{
    *out = (plim_tile){.in = (uint8_t *)s->in + s->in_layout.first, .index = t->given, .count = t->count};
    if (t->writes) out->out = (uint8_t *)s->out + s->out_layout.first;
    out->core.rank = out->halo.rank = t->rank;
    for (uint32_t d = 0; d < t->rank; d++) {
        out->core.dim[d] = plim__range_len(s->core.dim[d]);
        out->core_lo[d] = s->core.dim[d].lo;
        out->halo.dim[d] = plim__range_len(s->halo.dim[d]);
        out->halo_lo[d] = s->halo.dim[d].lo;
        out->in_stride[d] = s->in_layout.stride[d];
        out->out_stride[d] = s->out_layout.stride[d];
    }
}

static plim_status tell_progress(plim_tiles *t, plim_error *err)
{
    if (!t->set.progress) return PLIM_OK;
    const plim_progress now = {.what = "tiles",
                               .done = t->bytes_done,
                               .total = t->bytes_total,
                               .seconds = (double)(t->os->clock_ns(t->os->self) - t->started_ns) * 1e-9};
    PLIM_FAIL_IF(!t->set.progress(t->set.progress_ctx, &now), err, PLIM_E_CANCELLED, "stopped after %llu of %llu tiles",
                 (unsigned long long)t->given, (unsigned long long)t->count);
    return PLIM_OK;
}

/* `write_back` has to come before `fetch` places a new tile in the same slot. */
static void write_last(plim_tiles *t)
{
    if (t->given > 0 && !t->last_written) write_back(t, t->given - 1);
    t->last_written = true;
}

static plim_status advance(plim_tiles *t, plim_tile *out, plim_error *err)
{
    *out = (plim_tile){.index = t->given, .count = t->count};
    if (t->given > 0) PLIM_TRY(tell_progress(t, err));
    write_last(t);
    if (t->given == t->count) return PLIM_OK;
    if (t->given == 0) fetch(t, 0);
    if (t->given + 1 < t->count) fetch(t, t->given + 1);
    slot *s = &t->slot[t->given % 2];
    PLIM_TRY(plim__io_wait(t->io, &s->reading, err));
    PLIM_TRY(plim__io_wait(t->io, &s->writing, err));
    describe(t, s, out);
    t->given++;
    t->last_written = false;
    t->bytes_done += plim__region_count(&s->core) * t->in.element;
    return PLIM_OK;
}

/* A file that was written to while it was read gives tiles of two different arrays. */
static plim_status check_unchanged(const plim_tiles *t, plim_error *err)
{
    plim__stat st;
    const plim__source *was = &t->array.source;
    if (t->unpacked) return PLIM_OK;
    const int code = t->os->stat(t->os->self, t->in.fd, &st);
    if (code < 0) return plim__os_fail(code, "stat", t->in_path, 0, err);
    if (st.size == was->file_bytes && st.inode == was->inode && st.device == was->device && st.mtime_ns == was->mtime_ns) return PLIM_OK;
    return plim__fail_at(err, PLIM_E_CHANGED, t->in_path, "%.300s changed while it was read", t->in_path);
}

static plim_status complete(plim_tiles *t, plim_error *err)
{
    if (!t->writes) return check_unchanged(t, err);
    PLIM_FAIL_IF(t->given < t->count, err, PLIM_E_INVALID, "%.300s was not written: only %llu of %llu tiles were walked",
                 plim__tempfile_path(t->result), (unsigned long long)t->given, (unsigned long long)t->count);
    write_last(t);
    PLIM_TRY(plim__io_flush(t->io, err));
    PLIM_TRY(check_unchanged(t, err));
    return plim__tempfile_commit(&t->result, err);
}

/* ------------------------------------------------------------------------------------------------------------ public */

static plim_status give_error(const plim_tiles *t, plim_error *err)
{
    if (t->error.code != PLIM_OK && err && err->code == PLIM_OK) *err = t->error;
    return t->error.code;
}

static plim_status prepare(plim_tiles *t, const char *in_path, const char *out_path, plim_dtype out_dtype, const plim_shape *tile,
                           const plim_shape *overlap, plim_error *err)
{
    PLIM_TRY(open_input(t, in_path, err));
    PLIM_TRY(take_extents(t, tile, overlap, err));
    PLIM_TRY(plim_shape_bytes(&t->bytes_total, &t->array.shape, t->array.dtype, err));
    if (t->writes) PLIM_TRY(describe_output(t, out_dtype, err));
    order_axes(t, t->writes ? &t->out : &t->in);
    PLIM_TRY(plan(t, err));
    if (t->writes) PLIM_TRY(open_output(t, out_path, out_dtype, err));
    PLIM_TRY(start(t, err));
    t->started_ns = t->os->clock_ns(t->os->self);
    t->last_written = true;
    return PLIM_OK;
}

plim_status plim__tiles_new(plim_tiles **out, const plim__os *os, const char *in_path, const char *out_path, plim_dtype out_dtype,
                            const plim_shape *tile, const plim_shape *overlap, const plim_settings *set, plim_error *err)
{
    PLIM_FAIL_IF(!out || !in_path, err, PLIM_E_INVALID, "plim_tiles_new needs a place for the walk and a path");
    *out = NULL;
    PLIM_FAIL_IF(out_path && (unsigned)out_dtype >= PLIM_DTYPE_COUNT, err, PLIM_E_INVALID, "no dtype has the number %d", (int)out_dtype);
    const plim__alloc alloc = plim__alloc_from(set);
    plim_tiles *t = plim__new(&alloc, 1, sizeof *t, err);
    if (!t) return PLIM_E_NOMEM;
    t->alloc = alloc;
    t->os = os;
    t->set = set ? *set : plim_settings_default();
    t->in.fd = -1;
    t->writes = out_path != NULL;
    const plim_status status = prepare(t, in_path, out_path, out_dtype, tile, overlap, err);
    if (status != PLIM_OK) plim_tiles_free(&t);
    *out = t;
    return status;
}

plim_status plim_tiles_new(plim_tiles **out, const char *in_path, const char *out_path, plim_dtype out_dtype, const plim_shape *tile,
                           const plim_shape *overlap, const plim_settings *set, plim_error *err)
{
    return plim__tiles_new(out, &plim__os_linux, in_path, out_path, out_dtype, tile, overlap, set, err);
}

plim_status plim_tiles_next(plim_tiles *t, plim_tile *out, plim_error *err)
{
    PLIM_FAIL_IF(!t || !out, err, PLIM_E_INVALID, "plim_tiles_next needs a walk and a place for the tile");
    *out = (plim_tile){0};
    if (t->error.code == PLIM_OK && advance(t, out, &t->error) != PLIM_OK) *out = (plim_tile){0};
    return give_error(t, err);
}

plim_status plim_tiles_finish(plim_tiles **tiles, plim_error *err)
{
    plim_tiles *t = *tiles;
    if (!t) return PLIM_OK;
    if (t->error.code == PLIM_OK) complete(t, &t->error);
    const plim_status status = give_error(t, err);
    plim_tiles_free(tiles);
    return status;
}

void plim_tiles_free(plim_tiles **tiles)
{
    plim_tiles *t = *tiles;
    if (!t) return;
    plim__io_free(&t->io); /* waits for what is in flight, so that its buffers may go */
    plim__tempfile_drop(&t->result);
    plim__io_close(&t->in, t->os);
    plim__tempfile_drop(&t->unpacked);
    if (t->arena) plim__arena_unmap(t->arena, t->arena_bytes);
    const plim__alloc alloc = t->alloc;
    plim__free(&alloc, t);
    *tiles = NULL;
}
