/* A walk over an array file, tile by tile, for a loop that the caller writes: a program of one node, which the caller computes (ops/caller.c), planned as one
 * pass and run by the ordinary runner, which stops at every tile. Reading ahead, writing behind, budget and output file are theirs.
 *
 * What is decided here is the shape of a tile. Tiles come in the order of the output's bytes, so that blocks which two tiles share are soon complete; without an
 * output, in the order of the input's. The two differ when the input is in Fortran order: the walk is then a transposition. Dimensions that the caller left at 0
 * start at 1; that gives the smallest arena, and so the smallest budget that works. They then grow while the plan fits: first the fastest axis of the input
 * and that of the output, step by step, to runs of RUN_GOOD bytes (where the two differ, the sum of requests a/run + b/run is least when both are alike); then axes
 * with an overlap to HALO_GOOD times of it, so that little is read twice; then whole axes, fastest first, so that a tile becomes a few whole rows of the slowest
 * axis. It stops at ARENA_GOOD: more would only cost the touching of it. A larger tile never needs less room, so halving finds the largest that fits.
 *
 * A pass has at most LOOPS cut loops. Where the caller cuts more dimensions, those with the fewest parts are cut in memory: the runner stops once, and
 * several tiles are given out of what is there.
 *
 * The graph, the plan and this handle come from the caller's allocator. One thread at a time. */
#include "session/tiles.h"
#include "core/size.h"
#include "ops/ops.h"
#include "plan/search.h"
#include "session/program.h"
#include "run/run.h"

#define RUN_LEAST ((int64_t)4 << 10)
#define RUN_GOOD ((int64_t)64 << 10)
#define HALO_GOOD 8
#define ARENA_GOOD ((uint64_t)256 << 20)
#define LOOPS 3 /* I6 */
#define RINGS 2 /* tiles in memory at a time: one that the caller has, one that is read, or written */
#define IO_LEVELS 3

struct plim_tiles {
    plim__alloc alloc;
    const plim__os *os;
    plim_settings set;
    plim_error error; /* the first; every later call gives it again */
    plim_graph *graph;
    plim__tempfile *unpacked; /* a compressed input's; else NULL */
    plim_plan *plan;
    bool writes;

    plim_shape shape;
    uint32_t order[PLIM_MAX_RANK]; /* axes, slowest first: of the output, or of the input where there is none */
    int64_t tile[PLIM_MAX_RANK], overlap[PLIM_MAX_RANK];
    bool looped[PLIM_MAX_RANK];    /* the plan may cut it; others that have several tiles are cut in memory */

    plim__call part;       /* where the run has stopped */
    uint64_t inner, parts; /* tiles of it that were given out, and that it has */
    bool ended;            /* the run is over */
    uint64_t count, given;
    uint64_t started_ns, bytes_done;
};

/* --------------------------------------------------------------------------------------------------- the program */

static plim_status check_extents(const plim_tiles *t, const plim_shape *s, const char *what, const char *path, plim_error *err)
{
    PLIM_FAIL_IF(s->rank != t->shape.rank, err, PLIM_E_SHAPE, "%s has %u dimensions, the array %.200s has %u", what, s->rank, path, t->shape.rank);
    for (uint32_t d = 0; d < s->rank; d++)
        PLIM_FAIL_IF(s->dim[d] < 0, err, PLIM_E_SHAPE, "%s: dimension %u is negative: %lld", what, d, (long long)s->dim[d]);
    return PLIM_OK;
}

static plim_status build(plim_tiles *t, const char *in_path, const char *out_path, plim_dtype out_dtype, const plim_shape *tile, const plim_shape *overlap,
                         plim_error *err)
{
    uint32_t x, v;
    PLIM_TRY(plim__graph_new(&t->graph, t->alloc, err));
    PLIM_TRY(plim__graph_input(t->graph, t->os, &(plim_binding){.name = "in", .path = in_path}, &t->set, &t->unpacked, &x, err));
    t->shape = t->graph->value[x].shape;
    if (tile) PLIM_TRY(check_extents(t, tile, "the tile", in_path, err));
    if (overlap) PLIM_TRY(check_extents(t, overlap, "the overlap", in_path, err));
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        t->tile[d] = tile ? plim__min(tile->dim[d], t->shape.dim[d]) : 0;
        t->overlap[d] = overlap ? plim__min(overlap->dim[d], t->shape.dim[d]) : 0;
    }
    PLIM_TRY(plim__op_caller(t->graph, x, t->overlap, t->writes ? &out_dtype : NULL, &v, err));
    return plim__graph_output(t->graph, v, "out", out_path, err);
}

/* --------------------------------------------------------------------------------------------- the shape of a tile */

typedef struct chooser {
    plim_tiles *t;
    plim__search s;
    bool chosen[PLIM_MAX_RANK]; /* the caller left it to us */
} chooser;

static const plim__io_file *file_of(const plim_tiles *t, bool output)
{
    const plim__file *f = &t->plan->file[output];
    PLIM_ASSERT(output < t->plan->n_files && f->kind == (output ? PLIM__FILE_OUTPUT : PLIM__FILE_INPUT));
    return &f->io;
}

static void order_axes(plim_tiles *t)
{
    const int64_t *stride = file_of(t, t->writes)->stride;
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        uint32_t k = d;
        for (; k > 0 && stride[t->order[k - 1]] < stride[d]; k--) t->order[k] = t->order[k - 1];
        t->order[k] = d;
    }
}

static int64_t most_parts(const plim_tiles *t, uint32_t d)
{
    const int64_t n = t->shape.dim[d];
    return n <= 1 ? 1 : plim__ceil_div(n, t->tile[d] ? t->tile[d] : 1);
}

/* The loops are the dimensions with the most parts. Others are whole, unless the caller cuts them. */
static void choose_loops(chooser *c)
{
    plim_tiles *t = c->t;
    for (int i = 0; i < LOOPS; i++) {
        uint32_t best = PLIM_MAX_RANK;
        for (uint32_t k = 0; k < t->shape.rank; k++) {
            const uint32_t d = t->order[k];
            if (t->looped[d] || c->s.labels.axis[0][d] < 0 || most_parts(t, d) == 1) continue;
            if (best == PLIM_MAX_RANK || most_parts(t, d) > most_parts(t, best)) best = d;
        }
        if (best < PLIM_MAX_RANK) t->looped[best] = true;
    }
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        c->chosen[d] = t->tile[d] == 0 && t->looped[d];
        if (t->tile[d] == 0) t->tile[d] = c->chosen[d] ? 1 : t->shape.dim[d];
    }
}

/* Makes the plan with the tile as it is now. */
static plim_status make(chooser *c, uint64_t *need)
{
    const plim_tiles *t = c->t;
    const plim__labels *l = &c->s.labels;
    plim__candidate now = {.end = UINT32_MAX};
    uint32_t n = 0;
    for (uint32_t k = 0; k < t->shape.rank; k++) {
        const uint32_t d = t->order[k];
        if (!t->looped[d] || t->tile[d] == t->shape.dim[d]) continue;
        now.cut |= 1u << l->axis[0][d];
        now.order[n] = (uint8_t)l->axis[0][d];
        now.tile[n++] = t->tile[d];
    }
    PLIM_ASSERT(n <= LOOPS);
    for (uint32_t i = 0; i < l->n; i++) {
        if (now.cut & 1u << i) continue;
        now.order[n] = (uint8_t)i;
        now.tile[n++] = l->extent[i];
    }
    PLIM_ASSERT(n == l->n);
    PLIM_TRY(plim__search_one_pass(&c->s, &now));
    *need = plim__plan_need(t->plan);
    return PLIM_OK;
}

/* The largest extent of axis d, not above `most`, with which the plan needs at most `room`; parts of equal size where it is cut. */
static plim_status grow(chooser *c, uint32_t d, int64_t most, uint64_t room)
{
    plim_tiles *t = c->t;
    int64_t good = t->tile[d], bad = plim__min(most, t->shape.dim[d]) + 1;
    if (!c->chosen[d] || bad <= good) return PLIM_OK;
    for (t->tile[d] = bad - 1; bad - good > 1; t->tile[d] = good + (bad - good) / 2) { /* all of it comes first: nearly always the answer, or far from it */
        uint64_t need;
        PLIM_TRY(make(c, &need));
        if (need <= room) good = t->tile[d];
        else bad = t->tile[d];
    }
    t->tile[d] = plim__ceil_div(t->shape.dim[d], plim__ceil_div(t->shape.dim[d], good));
    return PLIM_OK;
}

/* The axis along which neighbours in the file touch, among those that are longer than 1; PLIM_MAX_RANK: none. */
static uint32_t fastest_axis(const plim__io_file *f)
{
    uint32_t best = PLIM_MAX_RANK;
    for (uint32_t d = 0; d < f->shape.rank; d++)
        if (f->shape.dim[d] > 1 && (best == PLIM_MAX_RANK || f->stride[d] < f->stride[best])) best = d;
    return best;
}

static plim_status grow_tile(chooser *c, uint64_t room)
{
    const plim_tiles *t = c->t;
    const int64_t *n = t->shape.dim;
    const plim__io_file *from = file_of(t, false), *to = file_of(t, t->writes);
    const uint32_t in = fastest_axis(from), out = fastest_axis(to);
    for (int64_t run = RUN_LEAST; run <= RUN_GOOD && in < PLIM_MAX_RANK; run *= 2) {
        PLIM_TRY(grow(c, in, run / from->element, room));
        PLIM_TRY(grow(c, out, run / to->element, room));
    }
    for (uint32_t k = t->shape.rank; k-- > 0;) {
        const uint32_t d = t->order[k];
        PLIM_TRY(grow(c, d, t->overlap[d] > n[d] / HALO_GOOD ? n[d] : t->overlap[d] * HALO_GOOD, room));
    }
    for (uint32_t k = t->shape.rank; k-- > 0;) PLIM_TRY(grow(c, t->order[k], n[t->order[k]], room));
    return PLIM_OK;
}

/* Settles engine and tile inside the budget. A transfer engine should not take more than a quarter of what there is. */
static plim_status choose(chooser *c, plim_error *err)
{
    plim_plan *plan = c->t->plan;
    const uint64_t room = plim__budget_room(&plan->budget, plan->budget.bytes);
    plan->read_copies = plan->write_copies = RINGS;
    PLIM_TRY(plim__search_restart(&c->s));
    plim__search_label(&c->s);
    order_axes(c->t);
    choose_loops(c);
    for (int level = 0; level < IO_LEVELS; level++) {
        plim__plan_io(plan, level);
        PLIM_TRY(make(c, &plan->floor_need));
        if (plan->floor_need <= room && plan->io_bytes <= room / 4) break;
    }
    plim__plan_set_floor(plan);
    if (plan->floor_need > room || plim__budget_planning(&plan->budget) > plan->budget.bytes) return plim__plan_refuse(plan, err);
    PLIM_TRY(grow_tile(c, room < ARENA_GOOD || plan->floor_need > ARENA_GOOD ? room : ARENA_GOOD));
    uint64_t need;
    PLIM_TRY(make(c, &need));
    PLIM_ASSERT(need <= room);
    return PLIM_OK;
}

static plim_status make_plan(plim_tiles *t, plim_error *err)
{
    plim_settings set = t->set;
    set.progress = NULL; /* it is told of tiles, here */
    PLIM_TRY(plim__plan_open(&t->plan, t->graph, &set, t->os, err));
    (void)plim__plan_hold(t->plan, 0);
    chooser c = {.t = t};
    PLIM_TRY(plim__search_new(&c.s, t->plan, err));
    const plim_status status = choose(&c, err);
    plim__search_free(&c.s);
    PLIM_TRY(status);
    PLIM_TRY(plim__plan_check(t->plan, err));
    PLIM_TRY(plim__plan_end(t->plan, err));
    if (!t->plan->facts.fits) return plim__plan_refuse(t->plan, err); /* planning itself has taken more */
    t->count = t->graph->value[0].bytes > 0;
    for (uint32_t d = 0; d < t->shape.rank && t->count; d++) t->count *= (uint64_t)plim__ceil_div(t->shape.dim[d], t->tile[d]); /* at most one per element */
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the walk */

static plim_status tell_progress(plim_tiles *t, plim_error *err)
{
    if (!t->set.progress || t->given == 0) return PLIM_OK;
    const plim_progress now = {.what = "tiles", .done = t->bytes_done, .total = t->graph->value[0].bytes,
                               .seconds = (double)(t->os->clock_ns(t->os->self) - t->started_ns) * 1e-9};
    PLIM_FAIL_IF(!t->set.progress(t->set.progress_ctx, &now), err, PLIM_E_CANCELLED, "stopped after %llu of %llu tiles",
                 (unsigned long long)t->given, (unsigned long long)t->count);
    return PLIM_OK;
}

/* Writes the part that was given out, and goes on to the next. */
static plim_status next_part(plim_tiles *t, plim_error *err)
{
    bool stopped;
    PLIM_ASSERT(!t->ended && t->inner == t->parts);
    PLIM_TRY(plim__run_next(t->plan, &t->part, &stopped, err));
    t->ended = !stopped;
    PLIM_ASSERT(t->ended == (t->given == t->count));
    t->inner = 0;
    t->parts = stopped;
    for (uint32_t d = 0; d < t->shape.rank; d++)
        if (!t->looped[d]) t->parts *= (uint64_t)most_parts(t, d);
    return PLIM_OK;
}

/* The next tile of the part: in dimensions that are cut in memory one of several, slowest first. */
static plim__region core_of(const plim_tiles *t)
{
    plim__region core = {.rank = t->shape.rank};
    uint64_t index = t->inner;
    for (uint32_t k = t->shape.rank; k-- > 0;) {
        const uint32_t d = t->order[k];
        core.dim[d] = t->part.axis[d];
        if (t->looped[d] || most_parts(t, d) == 1) continue;
        PLIM_ASSERT(core.dim[d].lo == 0 && core.dim[d].hi == t->shape.dim[d]);
        core.dim[d].lo = (int64_t)(index % (uint64_t)most_parts(t, d)) * t->tile[d];
        core.dim[d].hi = plim__min(core.dim[d].lo + t->tile[d], t->shape.dim[d]);
        index /= (uint64_t)most_parts(t, d);
    }
    return core;
}

static void describe(const plim_tiles *t, plim_tile *out)
{
    const plim__region core = core_of(t);
    plim__region halo = core;
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        halo.dim[d].lo = plim__max(0, core.dim[d].lo - t->overlap[d]);
        halo.dim[d].hi = plim__min(t->shape.dim[d], core.dim[d].hi + t->overlap[d]);
    }
    const plim__view in = plim__view_part(&t->part.in[0], &halo);
    const plim__view made = t->writes ? plim__view_part(&t->part.out[0], &core) : (plim__view){0};
    *out = (plim_tile){.in = in.data, .out = made.data, .core.rank = core.rank, .halo.rank = core.rank, .index = t->given, .count = t->count};
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        out->core.dim[d] = plim__range_len(core.dim[d]);
        out->core_lo[d] = core.dim[d].lo;
        out->halo.dim[d] = plim__range_len(halo.dim[d]);
        out->halo_lo[d] = halo.dim[d].lo;
        out->in_stride[d] = in.stride[d];
        out->out_stride[d] = made.stride[d];
    }
}

static plim_status advance(plim_tiles *t, plim_tile *out, plim_error *err)
{
    *out = (plim_tile){.index = t->given, .count = t->count};
    PLIM_TRY(tell_progress(t, err));
    if (!t->ended && t->inner == t->parts) PLIM_TRY(next_part(t, err));
    if (t->ended) return PLIM_OK;
    describe(t, out);
    const plim__region core = core_of(t);
    t->bytes_done += plim__region_count(&core) * plim_dtype_bytes(t->graph->value[0].dtype);
    t->given++;
    t->inner++;
    PLIM_ASSERT(t->given <= t->count && t->bytes_done <= t->graph->value[0].bytes);
    return PLIM_OK;
}

static plim_status complete(plim_tiles *t, plim_error *err)
{
    PLIM_FAIL_IF(t->writes && t->given < t->count, err, PLIM_E_INVALID, "%.300s was not written: only %llu of %llu tiles were walked",
                 t->graph->output[0].path, (unsigned long long)t->given, (unsigned long long)t->count);
    if (!t->ended && t->given == t->count) PLIM_TRY(next_part(t, err));
    return plim__run_finish(t->plan, err);
}

/* ------------------------------------------------------------------------------------------------------------ public */

static plim_status give_error(const plim_tiles *t, plim_error *err)
{
    if (t->error.code != PLIM_OK && err && err->code == PLIM_OK) *err = t->error;
    return t->error.code;
}

plim_status plim__tiles_new(plim_tiles **out, const plim__os *os, const char *in_path, const char *out_path, plim_dtype out_dtype,
                            const plim_shape *tile, const plim_shape *overlap, const plim_settings *set, plim_error *err)
{
    PLIM_FAIL_IF(!out || !in_path, err, PLIM_E_INVALID, "plim_tiles_new needs a place for the walk and a path");
    *out = NULL;
    const plim__alloc alloc = plim__alloc_from(set);
    plim_tiles *t = plim__new(&alloc, 1, sizeof *t, err);
    if (!t) return PLIM_E_NOMEM;
    t->alloc = alloc;
    t->os = os;
    t->set = set ? *set : plim_settings_default();
    t->writes = out_path != NULL;
    plim_status status = build(t, in_path, out_path, out_dtype, tile, overlap, err);
    if (status == PLIM_OK) status = make_plan(t, err);
    if (status == PLIM_OK) status = plim__run_open(t->plan, err);
    if (status != PLIM_OK) plim_tiles_free(&t);
    else t->started_ns = os->clock_ns(os->self);
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
    const plim__alloc alloc = t->alloc;
    plim_plan_free(&t->plan);
    plim__graph_free(&t->graph);
    plim__tempfile_drop(&t->unpacked);
    plim__free(&alloc, t);
    *tiles = NULL;
}
