/* The verifier's part that looks at boxes: in a tile and in a block of a stage, does every node read what is there, and
 * does everything fit where it is put?
 *
 * The ranges and boxes of a tile or a block are claims: they come from plim__pass_regions and plim__stage_regions,
 * which planning and running share. What is tested against them is taken from the graph (plim__region_reads,
 * plim__region_writes) and from the tables of the plan.
 *
 * All tiles and blocks are looked at where they are few; else those at the first two, the last two and a middle place
 * of every loop, in every combination, and others in even steps, until TILES_WORK nodes have been. That boxes fit their
 * memory is shown for all of them in check_bounds.c. Reads the plan; allocates the claims of one tile and of one block;
 * any thread. */
#include "core/dtype.h"
#include "core/size.h"
#include "plan/check.h"

#define LOOKS     5     /* trips along one loop, and blocks of a stage, that are always looked at */
#define ALL_TILES 10000 /* so many tiles are looked at one by one, if the work allows */
#if PLIM_DEBUG >= 2
#define TILES_WORK 100000u /* nodes of tiles and blocks beyond those: a tenth of a second */
#else
#define TILES_WORK 10000u /* some milliseconds */
#endif

typedef struct looker {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    plim__ranges tile, block;
    plim__state_uses states;
    uint32_t *last_use; /* per value: the last node of the pass that makes or reads it */
    uint64_t work;      /* nodes that were looked at */
    plim_error *err;
} looker;

static const plim__node *graph_node(const looker *k, const plim__pnode *n)
{
    return &k->g->node[n->node];
}

static const char *op_name(const looker *k, const plim__pnode *n)
{
    return plim__op_row_of(graph_node(k, n)->op)->name;
}

static uint64_t dense_bytes(const plim__value *v, const plim__region *box)
{
    return plim__region_count(box) * plim_dtype_bytes(v->dtype);
}

/* The box of a sum that is complete when its loops have ended: all of it, but for the part that the loops around them
 * have come to. */
static plim__region sum_box(const looker *k, const plim__pnode *by, uint32_t out)
{
    const plim__value *v = &k->g->value[graph_node(k, by)->out[out]];
    plim__region box = plim__region_whole(&v->shape);
    for (uint32_t d = 0; d < v->shape.rank; d++) {
        const int a = by->axes.out[out][d], l = a < 0 ? -1 : by->bind[a];
        if (l >= 0 && l < by->acc_depth) box.dim[d] = k->tile.axis[by->axis0 + (uint32_t)a];
    }
    return box;
}

/* The box of pass value i that its memory holds in this tile. */
static plim__region tile_box(const looker *k, uint32_t i)
{
    const plim__pvalue *v = &k->p->value[i];
    const plim__value *value = &k->g->value[v->value];
    if (v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_WHOLE) return plim__region_whole(&value->shape);
    return v->role == PLIM__ROLE_ACC ? sum_box(k, &k->p->node[v->producer], value->out) : k->tile.region[i];
}

/* The box of pass value i that node n finds: of a sum what is complete, of a value of its own stage what the same block
 * makes. */
static plim__region readable_box(const looker *k, const plim__pnode *n, uint32_t i, const plim__ranges *block)
{
    const plim__pvalue *v = &k->p->value[i];
    const plim__pnode *by = v->producer == PLIM__NONE ? NULL : &k->p->node[v->producer];
    plim__region box = tile_box(k, i);
    if (by && by->accumulates) return sum_box(k, by, k->g->value[v->value].out);
    if (by && by->stage == n->stage && block)
        plim__region_writes(k->g, graph_node(k, by), &by->axes, k->g->value[v->value].out, &block->axis[by->axis0],
                            &box);
    return box;
}

/* I7: every box that a node reads lies in the box that is there. @param block  NULL: of the tile */
static plim_status check_reads(const looker *k, const plim__pnode *n, const plim__ranges *block)
{
    const plim__range *axis = block ? &block->axis[n->axis0] : &k->tile.axis[n->axis0];
    for (uint32_t i = 0; i < graph_node(k, n)->n_in; i++) {
        const uint32_t v = k->p->operand[n->in0 + i];
        const plim__pvalue *pv = &k->p->value[v];
        plim__region need;
        plim__region_reads(k->g, graph_node(k, n), i, axis, &need);
        const plim__region have = readable_box(k, n, v, block);
        const bool sum = pv->producer != PLIM__NONE && k->p->node[pv->producer].accumulates;
        if (sum && plim__region_count(&have) == 0)
            continue; /* a trip without a part: what is made of it is written nowhere */
        PLIM_FAIL_IF(plim__region_count(&need) > 0 && !plim__box_is_inside(&need, &have), k->err, PLIM_E_PLAN,
                     "I7: node %u (%s) reads outside the box that is there%s", n->node, op_name(k, n),
                     block ? ", in a block" : "");
    }
    return PLIM_OK;
}

/* I13: an axis that cannot be cut is whole; one that is scanned begins at its beginning, or goes on where the tile
 * before has ended. */
static plim_status check_axes(const looker *k, const plim__pnode *n, const plim__range *axis)
{
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const plim__range r = axis[a], tile = k->tile.axis[n->axis0 + a];
        const int64_t extent = n->axes.axis[a].extent;
        PLIM_FAIL_IF(r.lo < 0 || r.hi > extent, k->err, PLIM_E_PLAN, "I6: node %u (%s) leaves axis %u", n->node,
                     op_name(k, n), a);
        PLIM_FAIL_IF(n->axes.axis[a].kind == PLIM__WHOLE && (r.lo != 0 || r.hi != extent), k->err, PLIM_E_PLAN,
                     "I13: axis %u of node %u (%s) cannot be cut and is", a, n->node, op_name(k, n));
        if (n->axes.axis[a].kind != PLIM__SCAN) continue;
        const bool goes_on = n->accumulates && r.lo == tile.lo && r.hi == tile.hi;
        PLIM_FAIL_IF(r.lo != 0 && !goes_on, k->err, PLIM_E_PLAN,
                     "I13: node %u (%s) begins at %lld what has to be run from the beginning", n->node, op_name(k, n),
                     (long long)r.lo);
    }
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ I12: memory */

/* The box of a value fits its slot, as the runner lays it out there. */
static plim_status check_fits(const looker *k, uint32_t i)
{
    const plim__pvalue *v = &k->p->value[i];
    if (v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_PRIVATE) return PLIM_OK;
    const plim__region box = tile_box(k, i);
    const uint32_t file = v->foreign ? k->plan->home[v->value].file : v->flat ? PLIM__NONE : v->file;
    uint64_t bytes = dense_bytes(&k->g->value[v->value], &box);
    if (file != PLIM__NONE) {
        plim__io_layout layout;
        plim__io_layout_of(&k->plan->file[file].io, &box, v->role != PLIM__ROLE_READ, &layout);
        bytes = layout.bytes;
    }
    PLIM_ASSERT(v->slot < k->plan->n_slots); /* I3 has looked */
    const plim__slot *s = &k->plan->slot[v->slot];
    PLIM_FAIL_IF(bytes > s->bytes, k->err, PLIM_E_PLAN, "I12: a box of '%s' has %llu bytes, its slot %llu",
                 k->g->value[v->value].name, (unsigned long long)bytes, (unsigned long long)s->bytes);
    return PLIM_OK;
}

/* Threads' copies of a node's accumulators lie behind each other in one copy of their slot. */
static plim_status check_copies(const looker *k, const plim__pnode *n)
{
    if (n->copies_slot == PLIM__NONE) return PLIM_OK;
    PLIM_ASSERT(n->copies_slot < k->plan->n_slots); /* I3 has looked */
    const plim__slot *s = &k->plan->slot[n->copies_slot];
    PLIM_FAIL_IF(s->copies + 1 < k->plan->threads, k->err, PLIM_E_PLAN,
                 "I12: node %u has accumulators for %u threads of %u", n->node, s->copies + 1, k->plan->threads);
    uint64_t end = 0;
    for (uint32_t j = 0; j < graph_node(k, n)->n_out; j++) {
        const plim__value *v = &k->g->value[graph_node(k, n)->out[j]];
        plim__region box = sum_box(k, n, j);
        if (!n->accumulates) plim__region_writes(k->g, graph_node(k, n), &n->axes, j, &k->tile.axis[n->axis0], &box);
        PLIM_FAIL_IF(n->copy_offset[j] < end, k->err, PLIM_E_PLAN, "I12: accumulators of node %u overlap", n->node);
        end = n->copy_offset[j] + dense_bytes(v, &box);
    }
    PLIM_FAIL_IF(end > s->bytes, k->err, PLIM_E_PLAN, "I12: accumulators of node %u have %llu bytes, their slot %llu",
                 n->node, (unsigned long long)end, (unsigned long long)s->bytes);
    return PLIM_OK;
}

/* The last node of the pass that uses each value. */
static void find_last_uses(const looker *k)
{
    for (uint32_t i = 0; i < k->p->n_nodes; i++) {
        const plim__pnode *n = &k->p->node[i];
        for (uint32_t j = 0; j < graph_node(k, n)->n_out; j++) k->last_use[n->out[j]] = i;
        for (uint32_t j = 0; j < graph_node(k, n)->n_in; j++) k->last_use[k->p->operand[n->in0 + j]] = i;
    }
}

/* Output j of node i lies in private memory that nobody else uses while it is there: neither what is made from then on
 * to its last use, its node's other outputs included, nor the scratch. */
static plim_status check_private_value(const looker *k, const plim__stage *s, uint32_t i, uint32_t j)
{
    const plim__pvalue *a = &k->p->value[k->p->node[i].out[j]];
    uint64_t end;
    if (a->role != PLIM__ROLE_PRIVATE || a->private_bytes == 0) return PLIM_OK;
    const bool inside =
        plim__add(&end, a->private_offset, a->private_bytes) && end <= s->scratch_offset && s->slot != PLIM__NONE;
    PLIM_FAIL_IF(!inside, k->err, PLIM_E_PLAN, "I12: '%s' reaches beyond its stage's memory",
                 k->g->value[a->value].name);
    PLIM_ASSERT(k->last_use[k->p->node[i].out[j]] >= i && k->last_use[k->p->node[i].out[j]] < k->p->n_nodes);
    for (uint32_t m = i; m <= k->last_use[k->p->node[i].out[j]]; m++)
        for (uint32_t o = m == i ? j + 1 : 0; o < graph_node(k, &k->p->node[m])->n_out; o++) {
            const plim__pvalue *b = &k->p->value[k->p->node[m].out[o]];
            if (b->role != PLIM__ROLE_PRIVATE || b->private_bytes == 0) continue;
            if (b->alias_of == k->p->node[i].out[j]) continue; /* I16 */
            PLIM_FAIL_IF(b->private_offset < end && a->private_offset < b->private_offset + b->private_bytes, k->err,
                         PLIM_E_PLAN, "I12: '%s' and '%s' overlap inside a stage", k->g->value[a->value].name,
                         k->g->value[b->value].name);
        }
    return PLIM_OK;
}

static plim_status check_private(const looker *k, const plim__stage *s)
{
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < graph_node(k, &k->p->node[i])->n_out; j++) PLIM_TRY(check_private_value(k, s, i, j));
    if (s->slot == PLIM__NONE) return PLIM_OK;
    PLIM_ASSERT(s->slot < k->plan->n_slots); /* I3 has looked */
    const plim__slot *slot = &k->plan->slot[s->slot];
    PLIM_FAIL_IF(s->private_bytes > slot->bytes || s->scratch_offset > s->private_bytes ||
                     (!s->pool && slot->copies < k->plan->threads),
                 k->err, PLIM_E_PLAN, "I12: a stage has %llu bytes for each thread, its slot %llu for %u of %u",
                 (unsigned long long)s->private_bytes, (unsigned long long)slot->bytes, slot->copies, k->plan->threads);
    return PLIM_OK;
}

/* What a node makes in a block, and its scratch, fit. */
static plim_status check_block_fits(const looker *k, const plim__stage *s, const plim__pnode *n)
{
    const plim__node *node = graph_node(k, n);
    const plim__op_row *row = plim__op_row_of(node->op);
    const plim__range *axis = &k->block.axis[n->axis0];
    int64_t len[PLIM__MAX_AXES];
    for (uint32_t j = 0; j < node->n_out; j++) {
        const plim__pvalue *v = &k->p->value[n->out[j]];
        plim__region box;
        plim__region_writes(k->g, node, &n->axes, j, axis, &box);
        if (v->role != PLIM__ROLE_PRIVATE) {
            const plim__region have = tile_box(k, n->out[j]);
            PLIM_FAIL_IF(plim__region_count(&box) > 0 && !plim__box_is_inside(&box, &have), k->err, PLIM_E_PLAN,
                         "I12: node %u (%s) writes outside the box that is there", n->node, op_name(k, n));
        } else {
            PLIM_FAIL_IF(dense_bytes(&k->g->value[v->value], &box) > v->private_bytes, k->err, PLIM_E_PLAN,
                         "I12: a block of '%s' has %llu bytes, planned were %llu", k->g->value[v->value].name,
                         (unsigned long long)dense_bytes(&k->g->value[v->value], &box),
                         (unsigned long long)v->private_bytes);
        }
    }
    if (!row->scratch || plim__is_idle(n, axis)) return PLIM_OK;
    for (uint32_t a = 0; a < n->axes.n; a++) len[a] = plim__range_len(axis[a]);
    const uint64_t scratch = row->scratch(k->g, node, len, s->pool ? k->plan->pool_threads : 1);
    PLIM_FAIL_IF(s->scratch_offset + scratch > s->private_bytes, k->err, PLIM_E_PLAN,
                 "I12: node %u (%s) needs %llu bytes of scratch, planned were %llu", n->node, op_name(k, n),
                 (unsigned long long)scratch, (unsigned long long)(s->private_bytes - s->scratch_offset));
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- blocks */

/* I6: a node whose outputs leave the stage does its part of the tile, cut along one loop at the most: from where the
 * tile begins to where it ends. */
static plim_status check_block_follows(const looker *k, const plim__stage *s, const plim__pnode *n, uint32_t block,
                                       uint32_t blocks)
{
    const plim__range *axis = &k->block.axis[n->axis0], *tile = &k->tile.axis[n->axis0];
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const bool cut = s->split >= 0 && n->bind[a] == s->split && blocks > 1;
        PLIM_FAIL_IF(!cut && (axis[a].lo != tile[a].lo || axis[a].hi != tile[a].hi), k->err, PLIM_E_PLAN,
                     "I6: a block of node %u (%s) is not all of its tile", n->node, op_name(k, n));
        PLIM_FAIL_IF(cut && block == 0 && axis[a].lo != tile[a].lo, k->err, PLIM_E_PLAN,
                     "I6: the first block of node %u (%s) begins late", n->node, op_name(k, n));
        PLIM_FAIL_IF(cut && block + 1 == blocks && axis[a].hi != tile[a].hi, k->err, PLIM_E_PLAN,
                     "I6: the last block of node %u (%s) ends early", n->node, op_name(k, n));
        PLIM_FAIL_IF(cut && n->axes.axis[a].kind == PLIM__SCAN, k->err, PLIM_E_PLAN,
                     "I13: node %u (%s) is scanned in blocks", n->node, op_name(k, n));
    }
    return PLIM_OK;
}

static bool leaves(const looker *k, const plim__pnode *n)
{
    for (uint32_t j = 0; j < graph_node(k, n)->n_out; j++)
        if (k->p->value[n->out[j]].role != PLIM__ROLE_PRIVATE) return true;
    return false;
}

static plim_status check_block(looker *k, const plim__stage *s, uint32_t block, uint32_t blocks)
{
    plim__stage_regions(k->g, k->p, s, &k->tile, block, blocks, &k->block);
    k->work += s->count;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &k->p->node[i];
        if (leaves(k, n)) PLIM_TRY(check_block_follows(k, s, n, block, blocks));
        PLIM_TRY(check_block_fits(k, s, n));
        if (plim__is_idle(n, &k->block.axis[n->axis0])) continue;
        PLIM_TRY(check_axes(k, n, &k->block.axis[n->axis0]));
        PLIM_TRY(check_reads(k, n, &k->block));
    }
    return plim__check_block_shares(k->plan, k->p, s, &k->block, k->err);
}

/* Number `i` of the places between 0 and n - 1 that are looked at first: both ends, their neighbours, the middle. */
static int64_t place(uint32_t i, int64_t n)
{
    const int64_t at[LOOKS] = {0, n - 1, n / 2, 1, n - 2};
    PLIM_ASSERT(i < LOOKS && n >= 1);
    return at[i] < 0 ? 0 : at[i] >= n ? n - 1 : at[i];
}

static plim_status check_blocks(looker *k, const plim__stage *s)
{
    const uint32_t blocks = plim__stage_blocks(k->p, s, &k->tile);
    PLIM_FAIL_IF(blocks > 1 && blocks > s->blocks, k->err, PLIM_E_PLAN, "I6: a stage of %u blocks has %u", s->blocks,
                 blocks);
    const bool all = (uint64_t)blocks * s->count + k->work <= TILES_WORK;
    for (uint32_t i = 0; i < (all || blocks < LOOKS ? blocks : LOOKS); i++)
        PLIM_TRY(check_block(k, s, all || blocks < LOOKS ? i : (uint32_t)place(i, blocks), blocks));
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------- tiles */

static plim_status check_tile(looker *k, const int64_t *trip)
{
    const plim__pass *p = k->p;
    plim__range loop[PLIM__MAX_LOOPS];
    for (uint32_t l = 0; l < p->n_loops; l++) {
        const int64_t lo = trip[l] * p->loop[l].tile, hi = lo + p->loop[l].tile;
        PLIM_ASSERT(lo >= 0 && lo < p->loop[l].extent); /* I6 has looked: no loop is empty */
        loop[l] = (plim__range){lo, hi < p->loop[l].extent ? hi : p->loop[l].extent};
    }
    plim__pass_regions(k->g, p, loop, &k->tile);
    k->work += p->n_nodes;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        PLIM_TRY(check_copies(k, n));
        if (plim__is_idle(n, &k->tile.axis[n->axis0])) continue;
        PLIM_TRY(check_axes(k, n, &k->tile.axis[n->axis0]));
        PLIM_TRY(check_reads(k, n, NULL));
    }
    for (uint32_t i = 0; i < p->n_values; i++) PLIM_TRY(check_fits(k, i));
    PLIM_TRY(plim__check_tile_shares(k->plan, p, &k->tile, k->err));
    for (uint32_t i = 0; i < p->n_stages; i++) PLIM_TRY(check_blocks(k, &p->stage[i]));
    return plim__check_tile_states(k->plan, p, &k->states, &k->tile, k->err);
}

/* The trip of every loop in tile number `it`, innermost fastest. */
static void trips_of(const plim__pass *p, int64_t it, int64_t *trip)
{
    for (uint32_t l = p->n_loops; l-- > 0;) {
        const int64_t trips = l < p->n_cut ? plim__loop_trips(&p->loop[l]) : 1;
        trip[l] = it % trips;
        it /= trips;
    }
    PLIM_ASSERT(it == 0); /* it was the number of a tile */
}

static int64_t count_tiles(const plim__pass *p)
{
    int64_t tiles = 1;
    for (uint32_t l = 0; l < p->n_cut; l++)
        if (__builtin_mul_overflow(tiles, plim__loop_trips(&p->loop[l]), &tiles)) return INT64_MAX;
    return tiles;
}

/* Every combination of the loops' places, as far as the work allows: one by one from the ends of all loops on. */
static plim_status check_corners(looker *k)
{
    const plim__pass *p = k->p;
    uint32_t corners = 1;
    for (uint32_t l = 0; l < p->n_cut; l++) corners *= LOOKS;
    for (uint32_t c = 0; c < corners && (c < LOOKS || k->work < TILES_WORK); c++) {
        int64_t trip[PLIM__MAX_LOOPS] = {0};
        uint32_t rest = c;
        for (uint32_t l = p->n_cut; l-- > 0; rest /= LOOKS)
            trip[l] = place(c < LOOKS ? c : rest % LOOKS, plim__loop_trips(&p->loop[l]));
        PLIM_TRY(check_tile(k, trip));
    }
    return PLIM_OK;
}

/* All tiles, where they are not many; else the corners, and tiles in even steps as far as the work allows. */
static plim_status check_tiles(looker *k)
{
    const plim__pass *p = k->p;
    const int64_t tiles = count_tiles(p), few = (int64_t)(TILES_WORK / (p->n_nodes + 1)) + 1;
    int64_t step = 1, trip[PLIM__MAX_LOOPS] = {0};
    if (tiles > few || tiles > ALL_TILES) {
        PLIM_TRY(check_corners(k));
        step = tiles / few + 1;
    }
    for (int64_t it = 0; it < tiles && (step == 1 || k->work < TILES_WORK); it += step) {
        trips_of(p, it, trip);
        PLIM_TRY(check_tile(k, trip));
    }
    return PLIM_OK;
}

static plim_status check_pass_boxes(looker *k)
{
    PLIM_ASSERT(!k->tile.place && !k->block.place); /* claims of a whole pass: value v is at v */
    find_last_uses(k);
    for (uint32_t i = 0; i < k->p->n_stages; i++) PLIM_TRY(check_private(k, &k->p->stage[i]));
    PLIM_TRY(check_tiles(k));
    return plim__check_all_tiles(k->plan, k->p, k->p->n_cut > 0 ? NULL : k->tile.axis, k->err);
}

plim_status plim__check_boxes(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    looker k = {.plan = plan, .g = plan->graph, .p = p, .err = err};
    k.tile = (plim__ranges){.axis = plim__new(a, p->n_axes, sizeof *k.tile.axis, err),
                            .region = plim__new(a, p->n_values, sizeof *k.tile.region, err)};
    k.block = (plim__ranges){.axis = plim__new(a, p->n_axes, sizeof *k.block.axis, err),
                             .region = plim__new(a, p->n_values, sizeof *k.block.region, err)};
    k.last_use = plim__new(a, p->n_values, sizeof *k.last_use, err);
    plim_status status =
        k.tile.axis && k.tile.region && k.block.axis && k.block.region && k.last_use ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) status = plim__find_state_uses(plan, p, replaces, &k.states, err);
    if (status == PLIM_OK) status = check_pass_boxes(&k);
    plim__free(a, k.tile.axis);
    plim__free(a, k.tile.region);
    plim__free(a, k.block.axis);
    plim__free(a, k.block.region);
    plim__free(a, k.states.use);
    plim__free(a, k.last_use);
    return status;
}
