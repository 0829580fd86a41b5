/* The loop over tiles of one pass.
 *
 * All cut loops are one counter `it`, innermost loop fastest. Steps of depth d run when the loops at d and deeper are at their first trip (pre) or
 * last trip (post). Reads that every tile needs go into a ring of slots: while tile `it` is computed, tiles up to it + copies - 1 are being
 * read. Writes leave from a ring likewise; a slot is filled again only after its write is done.
 *
 * A stage is run block by block on all threads; block b always goes to the same thread, so results do not depend on timing. */
#include "run/pass_run.h"
#include "core/dtype.h"
#include "core/size.h"
#include "plan/transfers.h"
#include "plan/inplace.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define EARLY 3 /* reads of a group of steps that are under way at a time: those that are needed first */
#define BESIDE 2 /* reads that begin while inner loops turn and are under way at a time: what these loops read themselves is needed earlier */

/* A box on its way between a file and a copy of a slot. */
typedef struct transfer {
    plim__io_ticket ticket;
    plim__region box;
} transfer;

typedef struct worker {
    plim__ranges block;
    plim__view *in;
} worker;

struct plim__pass_run {
    plim__run_state *run;
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    int64_t trips[PLIM__MAX_LOOPS];
    int64_t n_tiles, it;
    uint32_t step;            /* the next of this tile */
    bool callers_turn;        /* it is a stage that the caller computes, and he has been told */
    int64_t read_ahead;       /* tiles whose body reads have been issued */
    plim__transfers transfers;
    uint32_t begun, ended;    /* reads of it that have been issued, and waited for, in this trip through a group */
    uint32_t settled;         /* writes of it that have been waited for */
    uint32_t early[PLIM__MAX_LOOPS]; /* per depth: the next read in transfers.early to be issued in this trip */
    int64_t *issued;          /* per early read: trips of its depth for which it has been issued */
    int64_t inner[PLIM__MAX_LOOPS + 1]; /* tiles in a trip of the loops outside a depth */
    uint32_t *over;           /* [n_values] the value that is written from the slot of what is read, having overwritten it, or PLIM__NONE */
    plim__range loop[PLIM__MAX_LOOPS];
    plim__ranges tile, ahead;
    plim__view *view;         /* [n_values] of the current tile; PRIVATE ones are made per block */
    transfer **transfer;      /* [n_values] one per copy of the slot, NULL where there is no file */
    worker *worker;           /* [threads] */
    uint64_t table_bytes;     /* of all these */
    uint32_t stage, blocks;   /* of the stage that is running */
    uint32_t *place;          /* [n_values] where a value that it touches lies in the threads' ranges */
    uint32_t *placed;         /* which value lies there */
    _Atomic bool broken;      /* a box did not fit its slot */
    plim_error *err;          /* of the call that is under way */
};

typedef struct plim__pass_run pass_run;

/* -------------------------------------------------------------------------------------------------- set-up */

static uint32_t copies_of(const pass_run *r, const plim__pvalue *v)
{
    return r->plan->slot[v->slot].copies;
}

static bool has_file(const plim__pvalue *v)
{
    return v->file != PLIM__NONE;
}

static void *new_table(pass_run *r, uint64_t n, uint64_t size)
{
    r->table_bytes += n * size;
    return plim__new(&r->plan->alloc, n, size, r->err);
}

static plim_status new_ranges(plim__ranges *x, pass_run *r, uint64_t axes, uint64_t values)
{
    x->axis = new_table(r, axes, sizeof *x->axis);
    x->region = new_table(r, values, sizeof *x->region);
    return x->axis && x->region ? PLIM_OK : PLIM_E_NOMEM;
}

static void free_ranges(plim__ranges *x, const pass_run *r)
{
    plim__free(&r->plan->alloc, x->axis);
    plim__free(&r->plan->alloc, x->region);
}

/* What every thread has: ranges for the largest stage. */
static plim_status new_workers(pass_run *r)
{
    const plim__stage_size most = plim__pass_largest_stage(r->plan, r->p);
    r->worker = new_table(r, r->plan->threads, sizeof *r->worker);
    r->place = new_table(r, r->p->n_values, sizeof *r->place);
    r->placed = new_table(r, most.values, sizeof *r->placed);
    if (!r->worker || !r->place || !r->placed) return PLIM_E_NOMEM;
    for (uint32_t w = 0; w < r->plan->threads; w++) {
        PLIM_TRY(new_ranges(&r->worker[w].block, r, most.axes, most.values));
        r->worker[w].block.place = r->place;
        r->worker[w].in = new_table(r, most.operands, sizeof *r->worker[w].in);
        if (!r->worker[w].in) return PLIM_E_NOMEM;
    }
    return PLIM_OK;
}

/* What overwrites what is read, and goes to a file from there. Where several lie on each other, the last one goes. */
static void find_over(pass_run *r)
{
    for (uint32_t v = 0; v < r->p->n_values; v++) r->over[v] = PLIM__NONE;
    for (uint32_t v = 0; v < r->p->n_values; v++)
        if (r->p->value[v].role == PLIM__ROLE_WRITE && r->p->value[v].alias_of != PLIM__NONE) r->over[plim__alias_root(r->p, v)] = v;
}

static plim_status new_tables(pass_run *r)
{
    PLIM_TRY(new_ranges(&r->tile, r, r->p->n_axes, r->p->n_values));
    PLIM_TRY(new_ranges(&r->ahead, r, r->p->n_axes, r->p->n_values));
    r->view = new_table(r, r->p->n_values, sizeof *r->view);
    r->transfer = new_table(r, r->p->n_values, sizeof *r->transfer);
    if (!r->view || !r->transfer) return PLIM_E_NOMEM;
    for (uint32_t v = 0; v < r->p->n_values; v++) {
        if (!has_file(&r->p->value[v])) continue;
        r->transfer[v] = new_table(r, copies_of(r, &r->p->value[v]), sizeof **r->transfer);
        if (!r->transfer[v]) return PLIM_E_NOMEM;
    }
    PLIM_TRY(new_workers(r));
    PLIM_TRY(plim__transfers_new(&r->transfers, r->plan, r->p, r->err));
    r->table_bytes += plim__transfers_bytes(r->p);
    r->issued = plim__new(&r->plan->alloc, r->transfers.early0[PLIM__MAX_LOOPS], sizeof *r->issued, r->err);
    r->over = new_table(r, r->p->n_values, sizeof *r->over);
    if (!r->issued || !r->over) return PLIM_E_NOMEM;
    find_over(r);
    PLIM_ASSERT(r->table_bytes <= plim__pass_runner_bytes(r->plan, r->p)); /* estimate equals use */
    return PLIM_OK;
}

static void free_tables(pass_run *r)
{
    const plim__alloc *a = &r->plan->alloc;
    for (uint32_t v = 0; r->transfer && v < r->p->n_values; v++) plim__free(a, r->transfer[v]);
    for (uint32_t w = 0; r->worker && w < r->plan->threads; w++) {
        free_ranges(&r->worker[w].block, r);
        plim__free(a, r->worker[w].in);
    }
    free_ranges(&r->tile, r);
    free_ranges(&r->ahead, r);
    plim__transfers_free(&r->transfers, a);
    plim__free(a, r->view);
    plim__free(a, r->transfer);
    plim__free(a, r->worker);
    plim__free(a, r->place);
    plim__free(a, r->placed);
    plim__free(a, r->issued);
    plim__free(a, r->over);
}

/* --------------------------------------------------------------------------------------------------- tiles */

static void loops_of_tile(const pass_run *r, int64_t it, plim__range *loop)
{
    for (uint32_t l = 0; l < r->p->n_loops; l++) loop[l] = (plim__range){0, r->p->loop[l].extent};
    for (uint32_t l = r->p->n_cut; l-- > 0;) {
        const plim__loop *x = &r->p->loop[l];
        const int64_t i = it % r->trips[l];
        it /= r->trips[l];
        loop[l] = (plim__range){i * x->tile, plim__min((i + 1) * x->tile, x->extent)};
    }
}

/* Are the loops at `depth` and deeper all at their first (last) trip? */
static bool at_first(const pass_run *r, uint32_t depth)
{
    for (uint32_t l = depth; l < r->p->n_cut; l++)
        if (r->loop[l].lo != 0) return false;
    return true;
}

static bool at_last(const pass_run *r, uint32_t depth)
{
    for (uint32_t l = depth; l < r->p->n_cut; l++)
        if (r->loop[l].hi != r->p->loop[l].extent) return false;
    return true;
}

static void *slot_at(const pass_run *r, uint32_t slot, uint32_t copy)
{
    const plim__slot *s = &r->plan->slot[slot];
    PLIM_ASSERT(copy < s->copies);
    return (char *)r->run->arena + s->offset + s->bytes * copy;
}

/* Which copy of its ring a value uses in the current tile. What lies on another value takes turns with it. */
static uint32_t copy_now(const pass_run *r, const plim__pvalue *v)
{
    const uint32_t copies = copies_of(r, v);
    if (copies == 1) return 0;
    while (v->alias_of != PLIM__NONE) v = &r->p->value[v->alias_of];
    return (uint32_t)(r->it / r->inner[v->ahead ? v->depth : r->p->n_cut] % copies);
}

static plim_status broken_plan(const pass_run *r, const plim__pvalue *v, uint64_t bytes, uint64_t planned)
{
    return plim__fail(r->err, PLIM_E_PLAN, "internal: a box of '%s' has %llu bytes where %llu were planned", r->g->value[v->value].name,
                      (unsigned long long)bytes, (unsigned long long)planned);
}

/* The view of a value's box in its slot: laid out for its file where it has one, else dense. */
static plim_status view_of(pass_run *r, uint32_t index, const plim__region *box, plim__view *out)
{
    const plim__pvalue *v = &r->p->value[index];
    const plim_dtype dtype = r->g->value[v->value].dtype;
    const plim__slot *s = &r->plan->slot[v->slot];
    PLIM_ASSERT(v->slot < r->plan->n_slots && v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE);
    PLIM_ASSERT(!v->foreign || (v->role == PLIM__ROLE_WHOLE && s->copies == 1)); /* a slot of an earlier pass, or of what is held */
    char *base = slot_at(r, v->slot, v->foreign ? 0 : copy_now(r, v));
    const uint32_t file = v->foreign ? r->plan->home[v->value].file : v->flat ? PLIM__NONE : v->file;
    *out = plim__view_dense(base, dtype, box);
    uint64_t bytes = plim__region_count(box) * plim_dtype_bytes(dtype);
    if (file != PLIM__NONE) {
        plim__io_layout layout;
        plim__io_layout_of(&r->run->file[file], box, v->role != PLIM__ROLE_READ, &layout);
        out->data = base + layout.first;
        for (uint32_t d = 0; d < box->rank; d++) out->stride[d] = layout.stride[d];
        bytes = layout.bytes;
    }
    return bytes > s->bytes ? broken_plan(r, v, bytes, s->bytes) : PLIM_OK;
}

/* Do the elements of a view lie one behind the other, as in a dense one? */
static bool is_contiguous(const plim__view *v)
{
    int64_t stride = 1;
    for (uint32_t d = v->rank; d-- > 0;) {
        if (v->n[d] > 1 && v->stride[d] != stride) return false;
        stride *= v->n[d];
    }
    return true;
}

/* Is value `index` all of what it lies on, in another shape? Then its node has nothing to do. */
static bool is_reshaped(const pass_run *r, uint32_t index)
{
    const plim__pvalue *v = &r->p->value[index];
    if (v->alias_of == PLIM__NONE || v->role == PLIM__ROLE_PRIVATE) return false;
    const plim__pnode *n = &r->p->node[v->producer];
    return plim__op_row_of(r->g->node[n->node].op)->flags & PLIM__OP_SAME_ORDER && r->p->operand[n->in0] == v->alias_of;
}

/* The view of a value that lies on another: the same elements, in the same order as in a slot of its own. */
static plim_status view_alias(pass_run *r, uint32_t index)
{
    const plim__pvalue *v = &r->p->value[index];
    const plim__view *root = &r->view[plim__alias_root(r->p, index)];
    const plim__region *box = &r->tile.region[index], *under = &r->tile.region[v->alias_of];
    bool same = is_contiguous(root) && plim__view_count(root) == plim__region_count(box);
    PLIM_ASSERT(v->slot == r->p->value[v->alias_of].slot && (v->role == PLIM__ROLE_TILE || v->role == PLIM__ROLE_WRITE));
    r->view[index] = plim__view_dense(root->data, r->g->value[v->value].dtype, box);
    if (plim__region_count(box) == 0) return PLIM_OK; /* nothing is made in this tile */
    for (uint32_t d = 0; d < box->rank && !is_reshaped(r, index); d++) same &= box->dim[d].lo == under->dim[d].lo && box->dim[d].hi == under->dim[d].hi;
    PLIM_FAIL_IF(!same, r->err, PLIM_E_PLAN, "internal: the box of '%s' is not that of the value it overwrites", r->g->value[v->value].name);
    return PLIM_OK;
}

static plim_status view_tile(pass_run *r)
{
    for (uint32_t i = 0; i < r->p->n_values; i++) {
        const plim__pvalue *v = &r->p->value[i];
        const plim__value *value = &r->g->value[v->value];
        plim__region box = r->tile.region[i];
        if (v->role == PLIM__ROLE_PRIVATE || v->alias_of != PLIM__NONE) continue;
        if (v->role == PLIM__ROLE_CONST) {
            box = plim__region_whole(&value->shape);
            r->view[i] = plim__view_dense((void *)value->data, value->dtype, &box);
            continue;
        }
        if (v->role == PLIM__ROLE_WHOLE) box = plim__region_whole(&value->shape);
        if (v->role == PLIM__ROLE_ACC) plim__acc_region(r->g, r->p, &r->p->node[v->producer], value->out, r->loop, &box);
        PLIM_TRY(view_of(r, i, &box, &r->view[i]));
    }
    for (uint32_t i = 0; i < r->p->n_values; i++)
        if (r->p->value[i].role != PLIM__ROLE_PRIVATE && r->p->value[i].alias_of != PLIM__NONE) PLIM_TRY(view_alias(r, i));
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- files */

static plim_status wait_for(pass_run *r, transfer *t)
{
    return plim__io_wait(r->run->io, &t->ticket, r->err);
}

/* What of its slot goes to the spill file and back, byte by byte: whole pages, so that it goes there directly. */
static plim__region flat_box(const pass_run *r, const plim__pvalue *v, const plim__region *box)
{
    const uint64_t bytes = plim__round_up(plim__region_count(box) * plim_dtype_bytes(r->g->value[v->value].dtype), PLIM__IO_ALIGN);
    PLIM_ASSERT(bytes <= r->plan->slot[v->slot].bytes);
    return (plim__region){.rank = 1, .dim = {{0, (int64_t)bytes}}};
}

/* @param soon  somebody waits for it before long; else while nothing of that kind waits */
static plim_status issue_read(pass_run *r, uint32_t index, const plim__region *box, uint32_t copy, bool soon)
{
    const plim__pvalue *v = &r->p->value[index];
    PLIM_ASSERT(v->role == PLIM__ROLE_READ && v->producer == PLIM__NONE && copy < copies_of(r, v));
    transfer *t = &r->transfer[index][copy];
    plim__io_layout layout;
    t->box = v->flat ? flat_box(r, v, box) : *box;
    plim__io_layout_of(&r->run->file[v->file], &t->box, false, &layout);
    if (!v->flat && layout.bytes > r->plan->slot[v->slot].bytes) return broken_plan(r, v, layout.bytes, r->plan->slot[v->slot].bytes);
    PLIM_ASSERT(!v->flat || layout.first == 0);
    (soon ? plim__io_read : plim__io_read_beside)(r->run->io, &r->run->file[v->file], &t->box, slot_at(r, v->slot, copy), &t->ticket);
    return PLIM_OK;
}

/* Issues the reads of tiles that are not yet under way, as far as the rings reach. */
static plim_status read_ahead(pass_run *r)
{
    const plim__transfers *o = &r->transfers;
    const int64_t reach = o->n_rings > 0 ? r->it + o->ahead : r->it;
    for (; r->read_ahead < reach && r->read_ahead < r->n_tiles; r->read_ahead++) {
        plim__range loop[PLIM__MAX_LOOPS];
        loops_of_tile(r, r->read_ahead, loop);
        plim__pass_regions(r->g, r->p, loop, &r->ahead);
        for (uint32_t i = 0; i < o->n_rings; i++) {
            const uint32_t v = o->ring[i];
            PLIM_TRY(issue_read(r, v, &r->ahead.region[v], (uint32_t)(r->read_ahead % copies_of(r, &r->p->value[v])), true));
        }
    }
    return PLIM_OK;
}

/* Are all transfers of a value done? */
static bool is_done(pass_run *r, uint32_t index)
{
    bool done = true;
    for (uint32_t c = 0; c < copies_of(r, &r->p->value[index]); c++) done &= plim__io_is_done(&r->transfer[index][c].ticket);
    return done;
}

/* For which trip of its depth an early read is issued next to what this trip computes. */
static int64_t trip_beside(const pass_run *r, uint32_t depth, const plim__pvalue *v) { return r->it / r->inner[depth] + v->ahead; }

/* Issues an early read for a trip of its depth. What has been written from its memory since is done. */
static plim_status issue_early(pass_run *r, uint32_t depth, uint32_t i, int64_t trip, bool soon)
{
    const uint32_t index = r->transfers.early[i].value;
    const plim__pvalue *v = &r->p->value[index];
    const plim__ranges *ranges = &r->tile;
    const int64_t it = trip * r->inner[depth];
    if (trip != r->it / r->inner[depth]) {
        plim__range loop[PLIM__MAX_LOOPS];
        loops_of_tile(r, it, loop);
        plim__pass_regions(r->g, r->p, loop, &r->ahead);
        ranges = &r->ahead;
    }
    r->issued[i] = trip + 1;
    return issue_read(r, index, &ranges->region[index], (uint32_t)(trip % copies_of(r, v)), soon);
}

/* Is everything done that has been written from the memory into which an early read goes? */
static bool memory_is_free(pass_run *r, uint32_t index, int64_t trip)
{
    const uint32_t over = r->over[index];
    return over == PLIM__NONE || plim__io_is_done(&r->transfer[over][trip % copies_of(r, &r->p->value[index])].ticket);
}

/* Issues the early reads of a depth in turn, as many as may be under way, while something is computed. */
static plim_status read_early(pass_run *r, uint32_t depth)
{
    const plim__transfers *o = &r->transfers;
    const uint32_t first = o->early0[depth];
    for (uint32_t *i = &r->early[depth]; *i < o->early0[depth + 1]; ++*i) {
        const uint32_t index = o->early[*i].value;
        const plim__pvalue *v = &r->p->value[index];
        const int64_t trip = trip_beside(r, depth, v);
        if (r->issued[*i] > trip || trip * r->inner[depth] >= r->n_tiles) continue;
        if (*i >= first + BESIDE && !is_done(r, o->early[*i - BESIDE].value)) break;
        if (!memory_is_free(r, index, trip)) break;
        PLIM_TRY(issue_early(r, depth, *i, trip, false));
    }
    return PLIM_OK;
}

/* Before a step inside loops. */
static plim_status read_early_beside(pass_run *r, const plim__step *s)
{
    for (uint32_t d = 0; d < s->depth && r->transfers.early0[PLIM__MAX_LOOPS] > 0; d++) PLIM_TRY(read_early(r, d));
    return PLIM_OK;
}

/* In a trip that begins for the loops outside some depth, nothing of what is read early at that depth is under way. */
static void restart_early(pass_run *r)
{
    for (uint32_t d = 0; d < r->p->n_cut; d++)
        if (at_first(r, d)) r->early[d] = r->transfers.early0[d];
}

/* The early read whose step is this one. */
static uint32_t early_of(const pass_run *r, uint32_t step)
{
    uint32_t i = r->transfers.early0[r->p->step[step].depth];
    while (r->transfers.early[i].step != step) i++;
    PLIM_ASSERT(i < r->transfers.early0[r->p->step[step].depth + 1]);
    return i;
}

/* At its step an early read has to have been issued. */
static plim_status end_early(pass_run *r, uint32_t depth, uint32_t i)
{
    const uint32_t index = r->transfers.early[i].value;
    const int64_t trip = r->it / r->inner[depth];
    if (r->issued[i] > trip) return PLIM_OK;
    if (r->over[index] != PLIM__NONE) PLIM_TRY(wait_for(r, &r->transfer[r->over[index]][trip % copies_of(r, &r->p->value[index])]));
    return issue_early(r, depth, i, trip, true);
}

/* Before a step: waits for the writes whose time has come, and issues the next of its group's reads whose memory is free. */
static plim_status overlap(pass_run *r, uint32_t step)
{
    const plim__transfers *o = &r->transfers;
    const plim__transfer_group *g = &o->group[plim__step_group(r->p, step)];
    if (step == g->begin) {
        r->begun = r->ended = g->read;
        r->settled = g->wait;
    }
    for (; r->settled < o->n_waits && o->wait[r->settled].at <= step; r->settled++) PLIM_TRY(wait_for(r, &r->transfer[o->wait[r->settled].value][0]));
    for (; r->begun < o->n_reads && o->read[r->begun].step < g->end && r->begun - r->ended < EARLY && o->read[r->begun].at <= step; r->begun++) {
        const uint32_t index = o->read[r->begun].value;
        PLIM_TRY(issue_read(r, index, &r->tile.region[index], 0, true));
    }
    return read_early_beside(r, &r->p->step[step]);
}

static plim_status step_read(pass_run *r, uint32_t index)
{
    const plim__pvalue *v = &r->p->value[index];
    const plim__slot *slot = &r->plan->slot[v->slot];
    const uint32_t copy = copy_now(r, v);
    if (plim__read_is_early(r->p, r->step, slot, r->p->time0)) PLIM_TRY(end_early(r, r->p->step[r->step].depth, early_of(r, r->step)));
    else if (!plim__is_ring(v, slot)) r->ended++; /* it has been issued: its memory is free at its own step */
    PLIM_ASSERT(r->ended <= r->begun);
    return wait_for(r, &r->transfer[index][copy]);
}

/* What was made elsewhere goes to the place of the state that it replaces. */
static void store(pass_run *r, const plim__pvalue *v)
{
    const plim__state *state = &r->g->state[r->plan->replaces[v->value]];
    PLIM_ASSERT(r->plan->held[state->in] && v->role == PLIM__ROLE_WHOLE && !v->foreign); /* made elsewhere, copied to where its state is held */
    memcpy(slot_at(r, r->plan->home[state->in].slot, 0), slot_at(r, v->slot, 0), r->g->value[state->in].bytes);
}

static plim_status step_write(pass_run *r, uint32_t index)
{
    const plim__pvalue *v = &r->p->value[index];
    if (v->stored) {
        store(r, v);
        return PLIM_OK;
    }
    const uint32_t copy = copy_now(r, v);
    PLIM_ASSERT(v->producer != PLIM__NONE && !v->foreign && (!v->again || v->spill)); /* what is made again goes to no file of the program's */
    transfer *t = &r->transfer[index][copy];
    PLIM_TRY(wait_for(r, t));
    t->box = plim__view_region(&r->view[index]);
    if (v->flat) t->box = flat_box(r, v, &r->tile.region[index]);
    (v->beside ? plim__io_write_beside : plim__io_write)(r->run->io, &r->run->file[v->file], &t->box, slot_at(r, v->slot, copy), &t->ticket);
    return PLIM_OK;
}

/* Before a slot that is written to a file is filled again. */
static plim_status wait_outputs(pass_run *r, const plim__pnode *n)
{
    for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++) {
        const plim__pvalue *v = &r->p->value[n->out[j]];
        if (has_file(v)) PLIM_TRY(wait_for(r, &r->transfer[n->out[j]][copy_now(r, v)]));
    }
    return PLIM_OK;
}

/* Waits for every transfer, also after one has failed. @return the first failure */
static plim_status wait_all(pass_run *r)
{
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < r->p->n_values; i++)
        for (uint32_t c = 0; r->transfer[i] && c < copies_of(r, &r->p->value[i]); c++) {
            const plim_status waited = wait_for(r, &r->transfer[i][c]);
            if (status == PLIM_OK) status = waited;
        }
    return status;
}

/* --------------------------------------------------------------------------------------------- accumulators */

/* The box that an accumulator of this node covers now. */
static void acc_box(const pass_run *r, const plim__pnode *n, uint32_t j, plim__region *box)
{
    if (n->accumulates) plim__acc_region(r->g, r->p, n, j, r->loop, box);
    else plim__region_writes(r->g, &r->g->node[n->node], &n->axes, j, &r->tile.axis[n->axis0], box);
}

/* Thread 0 accumulates into the value, the others into copies. */
static plim__view acc_view(const pass_run *r, const plim__pnode *n, uint32_t j, uint32_t thread)
{
    plim__region box;
    acc_box(r, n, j, &box);
    const plim__view *main = &r->view[n->out[j]];
    PLIM_ASSERT(r->p->value[n->out[j]].role != PLIM__ROLE_PRIVATE && thread < r->plan->threads); /* threads combine into a slot of all */
    if (thread == 0 || n->copies_slot == PLIM__NONE) return plim__view_part(main, &box);
    return plim__view_dense((char *)slot_at(r, n->copies_slot, thread - 1) + n->copy_offset[j], main->dtype, &box);
}

static uint32_t acc_threads(const pass_run *r, const plim__pnode *n)
{
    return n->copies_slot == PLIM__NONE ? 1 : r->plan->threads;
}

static void init_accumulators(pass_run *r, const plim__pnode *n)
{
    const plim__node *node = &r->g->node[n->node];
    for (uint32_t t = 0; t < acc_threads(r, n); t++) {
        plim__view out[PLIM__MAX_OUT];
        for (uint32_t j = 0; j < node->n_out; j++)
            out[j] = !n->accumulates || plim__out_accumulates(n, j, r->g->value[node->out[j]].shape.rank) ? acc_view(r, n, j, t) : r->view[n->out[j]];
        plim__op_row_of(node->op)->init(&(plim__call){.graph = r->g, .node = node, .out = out, .axis = &r->tile.axis[n->axis0], .threads = 1});
    }
}

static void merge_accumulators(pass_run *r, const plim__pnode *n)
{
    const plim__node *node = &r->g->node[n->node];
    for (uint32_t t = 1; t < acc_threads(r, n); t++) {
        plim__view out[PLIM__MAX_OUT], in[PLIM__MAX_OUT];
        for (uint32_t j = 0; j < node->n_out; j++) {
            out[j] = acc_view(r, n, j, 0);
            in[j] = acc_view(r, n, j, t);
        }
        plim__op_row_of(node->op)->merge(
            &(plim__call){.graph = r->g, .node = node, .in = in, .out = out, .axis = &r->tile.axis[n->axis0], .threads = 1});
    }
}

static plim_status step_init(pass_run *r, const plim__pnode *n)
{
    PLIM_ASSERT(n->accumulates && n->acc_depth < n->depth); /* at least one loop adds to it */
    PLIM_TRY(wait_outputs(r, n));
    init_accumulators(r, n);
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------- stages */

/* Are the stage's blocks cut along an axis that this node reduces over? Then they combine into one output, which is set up before them. */
static bool blocks_combine(const pass_run *r, const plim__pnode *n)
{
    const plim__stage *s = &r->p->stage[n->stage];
    for (uint32_t a = 0; a < n->axes.n && s->split >= 0 && s->blocks > 1; a++)
        if (n->bind[a] == s->split && plim__axis_reduces(n->axes.axis[a].kind)) return true;
    return false;
}

static plim__view operand_view(pass_run *r, uint32_t index, uint32_t thread)
{
    const plim__pvalue *v = &r->p->value[index];
    if (v->role != PLIM__ROLE_PRIVATE) return r->view[index];
    const plim__stage *s = &r->p->stage[r->stage];
    const plim__region *box = plim__region_of(&r->worker[thread].block, index);
    PLIM_ASSERT(v->slot == PLIM__NONE && r->p->node[v->producer].stage == r->stage); /* it exists inside its stage only */
    const plim_dtype dtype = r->g->value[v->value].dtype;
    if (plim__region_count(box) * plim_dtype_bytes(dtype) > v->private_bytes) atomic_store(&r->broken, true);
    /* boxes without elements need no memory: a stage of nothing else has no slot */
    return plim__view_dense(s->slot == PLIM__NONE ? r->run->arena : (char *)slot_at(r, s->slot, thread) + v->private_offset, dtype, box);
}

static void run_node(pass_run *r, const plim__pnode *n, uint32_t thread)
{
    const plim__node *node = &r->g->node[n->node];
    const plim__op_row *row = plim__op_row_of(node->op);
    const plim__stage *s = &r->p->stage[r->stage];
    worker *w = &r->worker[thread];
    const plim__range *axis = plim__axes_of(&w->block, n);
    plim__view out[PLIM__MAX_OUT];
    if (is_reshaped(r, n->out[0])) return;
    for (uint32_t j = 0; j < node->n_out; j++) {
        plim__view base = n->copies_slot != PLIM__NONE && thread > 0 ? acc_view(r, n, j, thread) : operand_view(r, n->out[j], thread);
        plim__region box;
        plim__region_writes(r->g, node, &n->axes, j, axis, &box);
        out[j] = plim__view_part(&base, &box);
    }
    for (uint32_t k = 0; k < node->n_in; k++) w->in[k] = operand_view(r, r->p->operand[n->in0 + k], thread);
    if (atomic_load_explicit(&r->broken, memory_order_relaxed)) return;
    const bool first = row->init && !n->accumulates && !blocks_combine(r, n), empty = plim__is_idle(n, axis);
    const plim__call call = {.graph = r->g, .node = node, .in = w->in, .out = out, .axis = axis, .fresh = first && !empty && row->flags & PLIM__OP_SETS,
                             .scratch = s->slot == PLIM__NONE ? NULL : (char *)slot_at(r, s->slot, thread) + s->scratch_offset,
                             .threads = s->pool ? r->plan->pool_threads : 1};
    if (first && !call.fresh) row->init(&call);
    if (!empty) row->run(&call);
}

static void run_block(void *arg, uint64_t block, uint32_t thread)
{
    pass_run *r = arg;
    const plim__stage *s = &r->p->stage[r->stage];
    plim__ranges *ranges = &r->worker[thread].block;
    ranges->axis0 = r->p->node[s->first].axis0;
    plim__stage_regions(r->g, r->p, s, &r->tile, (uint32_t)block, r->blocks, ranges);
    for (uint32_t i = s->first; i < s->first + s->count; i++) run_node(r, &r->p->node[i], thread);
}

static bool all_finite(const plim__view *v)
{
    plim__region box = plim__view_region(v);
    int64_t at[PLIM_MAX_RANK];
    for (uint32_t d = 0; d < box.rank; d++) at[d] = box.dim[d].lo;
    for (uint64_t n = plim__view_count(v); n > 0; n--) {
        const void *x = plim__view_at(v, at);
        if (v->dtype == PLIM_F32 ? !isfinite(*(const float *)x) : !isfinite(*(const double *)x)) return false;
        for (uint32_t d = box.rank; d-- > 0 && ++at[d] == box.dim[d].hi;) at[d] = box.dim[d].lo;
    }
    return true;
}

/* Notes the first node that made something that is not a finite number. Values that stay inside their stage are gone: the first that leaves it counts. */
static void watch(pass_run *r, const plim__stage *s)
{
    for (uint32_t i = s->first; i < s->first + s->count && r->run->bad_node == PLIM__NONE; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && r->p->node[i].out[j] != PLIM__NONE; j++) {
            const uint32_t v = r->p->node[i].out[j];
            const plim_dtype t = r->g->value[r->p->value[v].value].dtype;
            if (r->p->value[v].role == PLIM__ROLE_PRIVATE || (t != PLIM_F32 && t != PLIM_F64)) continue;
            if (!all_finite(&r->view[v])) r->run->bad_node = r->p->node[i].node;
        }
}

/* Gives a value that the stage touches its place, unless it has one: `place` may be of another stage, so `placed` has to agree. */
static void place(pass_run *r, uint32_t v, uint32_t *n)
{
    if (r->place[v] < *n && r->placed[r->place[v]] == v) return;
    r->place[v] = *n;
    r->placed[(*n)++] = v;
}

static void place_values(pass_run *r, const plim__stage *s)
{
    uint32_t placed = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &r->p->node[i];
        for (uint32_t k = 0; k < r->g->node[n->node].n_in; k++) place(r, r->p->operand[n->in0 + k], &placed);
        for (uint32_t j = 0; j < r->g->node[n->node].n_out; j++) place(r, n->out[j], &placed);
    }
}

static plim_status step_stage(pass_run *r, uint32_t index)
{
    const plim__stage *s = &r->p->stage[index];
    r->stage = index;
    place_values(r, s);
    r->blocks = plim__stage_blocks(r->p, s, &r->tile);
    PLIM_ASSERT(r->blocks >= 1 && (!s->pool || r->blocks == 1));
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &r->p->node[i];
        PLIM_TRY(wait_outputs(r, n));
        if (!n->accumulates && blocks_combine(r, n)) init_accumulators(r, n);
    }
    if (r->blocks == 1) run_block(r, 0, 0);
    else plim__parallel(r->plan->threads, r->blocks, run_block, r);
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        if (!r->p->node[i].accumulates && r->p->node[i].copies_slot != PLIM__NONE) merge_accumulators(r, &r->p->node[i]);
    PLIM_FAIL_IF(atomic_load(&r->broken), r->err, PLIM_E_PLAN, "internal: a block of stage %u is larger than was planned", index);
    if (r->run->watch) watch(r, s);
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ the pass */

static plim_status run_step(pass_run *r, const plim__step *s)
{
    switch (s->kind) {
    case PLIM__STEP_READ: return step_read(r, s->index);
    case PLIM__STEP_INIT: return step_init(r, &r->p->node[s->index]);
    case PLIM__STEP_STAGE: return step_stage(r, s->index);
    case PLIM__STEP_MERGE: merge_accumulators(r, &r->p->node[s->index]); return PLIM_OK;
    case PLIM__STEP_WRITE: return step_write(r, s->index);
    case PLIM__STEP_WAIT: return PLIM_OK; /* see overlap */
    }
    return PLIM_OK;
}

static plim_status begin_tile(pass_run *r)
{
    loops_of_tile(r, r->it, r->loop);
    PLIM_TRY(read_ahead(r));
    plim__pass_regions(r->g, r->p, r->loop, &r->tile);
    restart_early(r);
    return view_tile(r);
}

/* Is it a stage that the caller computes, and is there anything to compute? Then its outputs are free to be filled. */
static plim_status give_to_caller(pass_run *r, const plim__step *s, bool *given)
{
    *given = false;
    if (s->kind != PLIM__STEP_STAGE) return PLIM_OK;
    const plim__pnode *n = &r->p->node[r->p->stage[s->index].first];
    if (!(plim__op_row_of(r->g->node[n->node].op)->flags & PLIM__OP_CALLER) || plim__is_idle(n, &r->tile.axis[n->axis0])) return PLIM_OK;
    PLIM_ASSERT(r->p->stage[s->index].count == 1 && r->p->stage[s->index].pool);
    *given = true;
    return wait_outputs(r, n);
}

/* From where it is up to a stage that the caller computes, or to the end of the tile. */
static plim_status run_steps(pass_run *r)
{
    for (; r->step < r->p->n_steps; r->step++) {
        const plim__step *s = &r->p->step[r->step];
        if (!(s->post ? at_last(r, s->depth) : at_first(r, s->depth))) continue;
        if (!r->callers_turn) {
            PLIM_TRY(overlap(r, r->step));
            PLIM_TRY(give_to_caller(r, s, &r->callers_turn));
            if (r->callers_turn) return PLIM_OK;
        }
        r->callers_turn = false;
        PLIM_TRY(run_step(r, s));
    }
    return plim__run_progress(r->run, false);
}

plim_status plim__pass_run_new(plim__pass_run **out, plim__run_state *run, const plim__pass *p)
{
    const plim__alloc *a = &run->plan->alloc;
    pass_run *r = plim__new(a, 1, sizeof *r, run->err);
    *out = r;
    if (!r) return PLIM_E_NOMEM;
    *r = (pass_run){.run = run, .plan = run->plan, .g = run->plan->graph, .p = p, .n_tiles = 1, .err = run->err};
    for (uint32_t l = 0; l < p->n_cut; l++) {
        r->trips[l] = plim__loop_trips(&p->loop[l]);
        r->n_tiles *= r->trips[l];
    }
    r->inner[p->n_cut] = 1;
    for (uint32_t l = p->n_cut; l-- > 0;) r->inner[l] = r->inner[l + 1] * r->trips[l];
    return new_tables(r);
}

void plim__pass_run_free(plim__pass_run **pr)
{
    pass_run *r = *pr;
    if (!r) return;
    r->err = NULL;
    if (r->run->io && r->transfer) (void)wait_all(r); /* a run that is dropped before its end has something in flight */
    free_tables(r);
    plim__free(&r->plan->alloc, r);
    *pr = NULL;
}

/* Also on failure: nothing may be in flight into memory that is about to go. */
static plim_status end_pass(pass_run *r, plim_status status)
{
    if (r->it > 0) r->it--;
    if (!r->run->io) return status;
    const plim_status waited = wait_all(r);
    if (status == PLIM_OK) status = waited;
    return status == PLIM_OK ? plim__io_flush(r->run->io, r->err) : status;
}

plim_status plim__pass_run_next(plim__pass_run *r, plim__call *part, bool *stopped)
{
    plim_status status = PLIM_OK;
    r->err = r->run->err;
    for (; r->it < r->n_tiles && status == PLIM_OK; r->it++, r->step = 0) {
        if (r->step == 0 && !r->callers_turn) status = begin_tile(r);
        if (status == PLIM_OK) status = run_steps(r);
        if (status != PLIM_OK || !r->callers_turn) continue;
        const plim__pnode *n = &r->p->node[r->p->stage[r->p->step[r->step].index].first];
        *part = (plim__call){.graph = r->g, .node = &r->g->node[n->node], .in = &r->view[r->p->operand[n->in0]], .out = &r->view[n->out[0]],
                             .axis = &r->tile.axis[n->axis0]};
        *stopped = true;
        return PLIM_OK;
    }
    *stopped = false;
    return end_pass(r, status);
}

plim_status plim__pass_run_go(plim__pass_run *r)
{
    plim__call part;
    bool stopped;
    r->it = r->read_ahead = r->step = 0;
    memset(r->issued, 0, r->transfers.early0[PLIM__MAX_LOOPS] * sizeof *r->issued);
    const plim_status status = plim__pass_run_next(r, &part, &stopped);
    PLIM_ASSERT(!stopped); /* a program of which the caller computes a part is run by plim__run_next */
    return status;
}
