/* Memory of a pass: the boxes of its values over all tiles give the slots' sizes, the steps give their lifetimes, the sum of what is alive
 * at a step is a lower bound for the arena that packing then reaches or nearly so. Time: cost.c.
 *
 * A slot is as large as a box with the longest length that each dimension has in any tile; a private value as one of any block of any tile. All tiles
 * are looked at where they are at most ALL_TILES and ALL_WORK nodes. Else, along each loop:
 *
 *     its first, second, middle, last but one and last trip (the last may be short), and between two of these, by bisection, the trips where boxes begin or
 *     cease to touch an end of their array: walk_trips. Of several loops, all combinations of these turning points.
 *
 * No length between two neighbours of these trips, a and b, whose boxes touch the same ends, is longer than at a or at b. Proof, for what moves with one
 * loop: where a box begins (`lo`) and ends (`hi`) are made of affine maps of the trip, clamps to an array, and hulls: minima of los, maxima of his, where a
 * negative stride makes a hi of a lo. So along the loop every hi is quasi-convex, every lo quasi-concave: monotone maps, clamps and hulls preserve that.
 * Hence a hi that touches no end at a and b touches none between, and no clamp cuts it there. By induction over the nodes, from the roots on, there is a
 * convex function that is nowhere below hi between a and b and equal to it at both: the constant extent, if it touches at both; else the maximum of
 * affine maps of such functions. The same for lo from the other side. The difference of the two is convex, so the length is nowhere above the larger of
 * its ends. Divisions round, some tiles up and some not, by less than one step each: slack_of adds these steps. The verifier does not rely on any of this: it
 * bounds every box of every tile in its own way (check_bounds.c).
 *
 * Allocates tables in plim__measure, which are reused from pass to pass; one thread at a time for each. */
#include "plan/measure.h"
#include "core/size.h"
#include "plan/cost.h"
#include "plan/transfers.h"
#include "plan/inplace.h"
#include "pack/pack.h"

#include <math.h>
#include <string.h>

#define ALONE_BLOCKS 8    /* per thread, of a node that is a stage by itself: nothing of it stays in a cache for another node */
#define MOST_LARGER 16    /* times as large as it should be a block may be, if it lies together in memory then */
#define PIECE_BYTES 512   /* what lies together is made of pieces of so much at the least */
#define MAX_BLOCKS 4096u
#define DEEP_RING 4          /* copies of what is read in every tile, where */
#define DEEP_RING_BYTES (128u << 10) /* all of it takes no more than that in a tile */
#define ALL_TILES 10000      /* so many tiles are looked at one by one, if they are not more than ALL_WORK nodes */
#define ALL_WORK 20000u
#define TURNS 16             /* trips of one loop that are remembered */
#define CORNERS_WORK 200000u /* nodes in all corners that are looked at */

/* --------------------------------------------------------------------------------------------- own memory */

static plim_status reserve(plim__measure *m, const plim__alloc *a, const plim__pass *p, plim_error *err)
{
    PLIM_TRY(plim__grow(a, (void **)&m->tile.axis, &m->cap_tile_axes, p->n_axes + 1, sizeof *m->tile.axis, err));
    PLIM_TRY(plim__grow(a, (void **)&m->tile.region, &m->cap_tile_values, p->n_values + 1, sizeof *m->tile.region, err));
    PLIM_TRY(plim__grow(a, (void **)&m->block.axis, &m->cap_block_axes, p->n_axes + 1, sizeof *m->block.axis, err));
    PLIM_TRY(plim__grow(a, (void **)&m->block.region, &m->cap_block_values, p->n_values + 1, sizeof *m->block.region, err));
    PLIM_TRY(plim__grow(a, (void **)&m->len, &m->cap_len, p->n_values + 1, sizeof *m->len, err));
    PLIM_TRY(plim__grow(a, (void **)&m->axis_len, &m->cap_axis_len, p->n_axes + 1, sizeof *m->axis_len, err));
    PLIM_TRY(plim__grow(a, (void **)&m->reach, &m->cap_reach, p->n_values + 1, sizeof *m->reach, err));
    PLIM_TRY(plim__grow(a, (void **)&m->axis_reach, &m->cap_axis_reach, p->n_axes + 1, sizeof *m->axis_reach, err));
    PLIM_TRY(plim__grow(a, (void **)&m->rounded, &m->cap_rounded, p->n_nodes + 1, sizeof *m->rounded, err));
    memset(m->len, 0, p->n_values * sizeof *m->len);
    memset(m->axis_len, 0, p->n_axes * sizeof *m->axis_len);
    PLIM_TRY(plim__grow(a, (void **)&m->deepest, &m->cap_deepest, p->n_values + p->n_stages + p->n_nodes + 1, sizeof *m->deepest, err));
    PLIM_TRY(plim__grow(a, (void **)&m->shallowest, &m->cap_shallowest, p->n_values + p->n_stages + p->n_nodes + 1, sizeof *m->shallowest, err));
    PLIM_TRY(plim__grow(a, (void **)&m->slot, &m->cap_slots, p->n_values + p->n_stages + p->n_nodes + 1, sizeof *m->slot, err));
    PLIM_TRY(plim__grow(a, (void **)&m->when, &m->cap_when, p->n_steps + 1, sizeof *m->when, err));
    return plim__grow(a, (void **)&m->live, &m->cap_live, p->n_steps + 1, sizeof *m->live, err);
}

void plim__measure_free(plim__measure *m, const plim__alloc *a)
{
    plim__free(a, m->tile.axis);
    plim__free(a, m->tile.region);
    plim__free(a, m->block.axis);
    plim__free(a, m->block.region);
    plim__free(a, m->len);
    plim__free(a, m->axis_len);
    plim__free(a, m->reach);
    plim__free(a, m->axis_reach);
    plim__free(a, m->rounded);
    plim__free(a, m->slot);
    plim__free(a, m->deepest);
    plim__free(a, m->shallowest);
    plim__free(a, m->live);
    plim__free(a, m->when);
    *m = (plim__measure){0};
}

/* -------------------------------------------------------------------------------------------- sizes of boxes */

const plim__io_file *plim__pvalue_file(const plim_plan *plan, const plim__pvalue *v, plim__io_file *made)
{
    if (v->file != PLIM__NONE) return &plan->file[v->file].io;
    plim__file_describe(made, plan->graph, v->value, 0);
    return made;
}

static bool on_file(const plim__pvalue *v)
{
    return v->file != PLIM__NONE || v->spill;
}

static uint64_t dense_bytes(const plim__value *v, const plim__region *box)
{
    return plim__round_up(plim__region_count(box) * plim_dtype_bytes(v->dtype), 64);
}

/* Bytes of one copy of the slot that holds `box` of a value. */
static uint64_t slot_bytes(const plim_plan *plan, const plim__pvalue *v, const plim__region *box)
{
    if (on_file(v) && !v->flat) {
        plim__io_file made;
        plim__io_layout layout;
        plim__io_layout_of(plim__pvalue_file(plan, v, &made), box, v->role != PLIM__ROLE_READ, &layout);
        return plim__round_up(layout.bytes, PLIM__IO_ALIGN);
    }
    const uint64_t bytes = dense_bytes(&plan->graph->value[v->value], box);
    return v->flat ? plim__round_up(bytes, PLIM__IO_ALIGN) : bytes;
}

/* Notes the lengths of a box, where they are the longest so far. */
static void note_lengths(int64_t *len, const plim__region *box)
{
    PLIM_ASSERT(box->rank <= PLIM_MAX_RANK);
    for (uint32_t d = 0; d < box->rank; d++) len[d] = plim__max(len[d], plim__range_len(box->dim[d]));
}

static plim__region box_of_lengths(const int64_t *len, uint32_t rank)
{
    plim__region box = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++) box.dim[d] = (plim__range){0, len[d]};
    return box;
}

static void whole_loops(const plim__pass *p, plim__range *loop)
{
    for (uint32_t l = 0; l < p->n_loops; l++) loop[l] = (plim__range){0, plim__min(p->loop[l].tile, p->loop[l].extent)};
}

static plim__range trip(const plim__loop *l, int64_t i)
{
    PLIM_ASSERT(i >= 0 && i < plim__loop_trips(l));
    return (plim__range){i * l->tile, plim__min((i + 1) * l->tile, l->extent)};
}

/* Loops that ever stand elsewhere than at their whole extent: cut into tiles, or a tile of them into blocks. */
static uint32_t moving_loops(const plim__pass *p)
{
    uint32_t set = (1u << p->n_cut) - 1;
    for (uint32_t i = 0; i < p->n_stages; i++)
        if (p->stage[i].split >= 0 && p->stage[i].blocks > 1) set |= 1u << p->stage[i].split;
    return set;
}

/* Does every tile of a loop begin a whole number of steps of `unit` behind the one before, in a dimension of this reach? Then they are all rounded alike. */
static bool divides_evenly(const plim__loop *l, int64_t reach, int64_t unit)
{
    int64_t steps;
    return !__builtin_mul_overflow(l->tile, reach, &steps) && steps % l->extent == 0 && steps / l->extent % unit == 0;
}

/* Notes that parts of a dimension are rounded to steps of `unit` in another one, of this extent, by loops. @param reach  of the first dimension */
static void note_rounding(plim__rounding *r, const plim__pass *p, int64_t extent, uint32_t loops, int64_t reach, int64_t unit)
{
    PLIM_ASSERT(loops < 1u << PLIM__MAX_LOOPS && unit > 0);
    extent = plim__max(extent, 1);
    for (uint32_t l = 0; l < PLIM__MAX_LOOPS; l++) {
        if (!(loops & 1u << l)) continue;
        if (!r->extent[l]) r->even |= 1u << l;
        r->extent[l] = r->extent[l] ? plim__min(r->extent[l], extent) : extent;
        if (!divides_evenly(&p->loop[l], reach, unit)) r->even &= ~(1u << l);
    }
}

static bool rounds(const plim__rounding *r)
{
    for (uint32_t l = 0; l < PLIM__MAX_LOOPS; l++)
        if (r->extent[l]) return true;
    return false;
}

/* While a loop goes from one end to the other, how far does the place in a dimension go? As far as the dimension is long, or further: of one of
 * several arrays that are joined, a part of the way is outside of it. The ratio of two reaches says how many steps of one a step of the other is. */
static void find_reach(plim__measure *m, const plim_graph *g, const plim__pass *p)
{
    for (uint32_t v = 0; v < p->n_values; v++) {
        const plim_shape *s = &g->value[p->value[v].value].shape;
        for (uint32_t d = 0; d < s->rank; d++) m->reach[v][d] = s->dim[d];
    }
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &g->node[n->node];
        int64_t *axis = &m->axis_reach[n->axis0];
        for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = n->axes.axis[a].extent;
        for (uint32_t j = 0; j < node->n_out; j++)
            for (uint32_t d = 0; d < g->value[node->out[j]].shape.rank; d++)
                if (n->axes.out[j][d] >= 0) axis[n->axes.out[j][d]] = plim__max(axis[n->axes.out[j][d]], m->reach[n->out[j]][d]);
        for (uint32_t k = 0; k < node->n_in; k++) {
            const plim__index *index = plim__nest_reads(p->nest, n->node, k);
            for (uint32_t d = 0; d < plim__in(g, node, k)->shape.rank; d++) {
                if (index[d].axis < 0) continue;
                const double far = (double)axis[index[d].axis] * fabs((double)index[d].stride) / (double)(index[d].div > 1 ? index[d].div : 1);
                int64_t *to = &m->reach[p->operand[n->in0 + k]][d];
                *to = plim__max(*to, far < 1e18 ? (int64_t)ceil(far) : (int64_t)1e18);
            }
        }
    }
}

/* Notes where the pass divides with a remainder: a part of a root whose extent is not its loop's, a read of several to one. */
static void find_rounding(plim__measure *m, const plim_graph *g, const plim__pass *p)
{
    const uint32_t moving = moving_loops(p);
    m->n_rounded = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &g->node[n->node];
        plim__rounding r = {0};
        for (uint32_t a = 0; a < n->axes.n; a++)
            if (n->root && n->bind[a] >= 0 && n->axes.axis[a].extent != p->loop[n->bind[a]].extent)
                note_rounding(&r, p, m->axis_reach[n->axis0 + a], moving & 1u << n->bind[a], n->axes.axis[a].extent, 1);
        for (uint32_t k = 0; k < node->n_in; k++) {
            const plim_shape *s = &plim__in(g, node, k)->shape;
            const plim__index *index = plim__nest_reads(p->nest, n->node, k);
            for (uint32_t d = 0; d < s->rank; d++)
                if (index[d].axis >= 0 && index[d].div > 1)
                    note_rounding(&r, p, m->reach[p->operand[n->in0 + k]][d], moving & n->moved_by[index[d].axis], m->axis_reach[n->axis0 + index[d].axis],
                                  index[d].div);
        }
        if (rounds(&r)) m->rounded[m->n_rounded++] = r;
    }
}

/* How much longer than those that were looked at a part of a dimension that moves with `loops` can be: one step of each dimension that is rounded and moves
 * with one of them, in steps of this one. */
static int64_t slack_of(const plim__measure *m, int64_t reach, uint32_t loops, bool blocks)
{
    int64_t slack = 0;
    for (uint32_t i = 0; i < m->n_rounded && slack < reach; i++) {
        int64_t step = 0;
        for (uint32_t rest = blocks ? loops : loops & ~m->rounded[i].even; rest; rest &= rest - 1) {
            const int64_t rounded = m->rounded[i].extent[__builtin_ctz(rest)];
            if (rounded) step = plim__max(step, reach / rounded + 1);
        }
        slack += step;
    }
    return slack;
}

static void loosen(const plim__measure *m, plim__region *box, const plim_shape *s, const int64_t *reach, const uint8_t *moved_by, bool blocks)
{
    if (m->n_rounded == 0 || plim__region_count(box) == 0) return;
    for (uint32_t d = 0; d < box->rank; d++) {
        const int64_t more = plim__min(slack_of(m, reach[d], moved_by[d], blocks), s->dim[d] - plim__range_len(box->dim[d]));
        const int64_t up = plim__min(more, s->dim[d] - box->dim[d].hi);
        PLIM_ASSERT(more >= 0 && up >= 0 && more - up <= box->dim[d].lo); /* what does not fit above fits below */
        box->dim[d].hi += up;
        box->dim[d].lo -= more - up;
    }
}

/* Which ends of their values the boxes touch, as a number. */
static uint64_t touches(uint64_t h, const plim__region *box, const plim_shape *s)
{
    for (uint32_t d = 0; d < box->rank; d++) {
        const plim__range r = box->dim[d];
        h = (h ^ (uint64_t)((r.lo == 0) + 2 * (r.hi == s->dim[d]) + 4 * (r.hi <= r.lo))) * 0x100000001b3u;
    }
    return h;
}

/* --------------------------------------------------------------------------------------------------- stages */

static bool reduces(const plim__pnode *n)
{
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (n->bind[a] >= 0 && plim__axis_reduces(n->axes.axis[a].kind)) return true;
    return false;
}

/* Bytes that flow through the stage in the tile, private values counted as if they were whole. What is combined stays where it is, and cutting
 * it into blocks does not make it smaller: tables of counts would otherwise call for a copy in every thread, however small the tile. */
static uint64_t stage_traffic(const plim_graph *g, const plim__pass *p, const plim__stage *s, const plim__ranges *tile)
{
    uint64_t bytes = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t k = 0; k < g->node[n->node].n_in; k++) {
            const uint32_t v = p->operand[n->in0 + k];
            if (p->value[v].role != PLIM__ROLE_PRIVATE) bytes += plim__region_count(&tile->region[v]) * plim_dtype_bytes(g->value[p->value[v].value].dtype);
        }
        for (uint32_t j = 0; j < g->node[n->node].n_out && !reduces(n); j++)
            bytes += plim__region_count(&tile->region[n->out[j]]) * plim_dtype_bytes(g->value[p->value[n->out[j]].value].dtype);
    }
    return bytes;
}

/* How far loop l can be cut in this tile: the shortest range of the stage's nodes along it. */
static int64_t split_range(const plim__pass *p, const plim__stage *s, const plim__ranges *tile, uint32_t l)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t a = 0; a < p->node[i].axes.n; a++)
            if (p->node[i].bind[a] == (int)l) least = plim__min(least, plim__range_len(tile->axis[p->node[i].axis0 + a]));
    return least == INT64_MAX ? 1 : least;
}

/* Bytes that a block makes in one piece, at the least, when the stage is cut along loop l into that many. */
static int64_t piece_bytes(const plim_graph *g, const plim__pass *p, const plim__stage *s, const plim__ranges *tile, uint32_t l, int64_t blocks)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__value *v = &g->value[g->node[n->node].out[0]];
        const plim__region *box = &tile->region[n->out[0]];
        int64_t bytes = (int64_t)plim_dtype_bytes(v->dtype);
        uint32_t d = v->shape.rank;
        while (d > 0 && (n->axes.out[0][d - 1] < 0 || n->bind[n->axes.out[0][d - 1]] != (int)l)) bytes *= plim__range_len(box->dim[--d]);
        if (d == 0) continue; /* the loop does not move it */
        bytes *= plim__max(plim__range_len(box->dim[d - 1]) / blocks, 1);
        bool scattered = false;
        for (uint32_t k = 0; k + 1 < d; k++) scattered |= plim__range_len(box->dim[k]) > 1;
        if (scattered) least = plim__min(least, bytes);
    }
    return least;
}

/* The outermost loop with room for that many blocks, each of which lies together in memory; then one that leaves them larger than they should be; then any, and
 * at last the one with the most room. @param n  how many blocks; set */
static int8_t pick_split(const plim_graph *g, const plim__pass *p, const plim__stage *s, const plim__ranges *tile, uint32_t threads, uint32_t *n)
{
    const int64_t blocks = *n;
    const uint32_t light = s->split_set & ~(uint32_t)s->split_heavy, set = light ? light : s->split_set;
    int8_t best = -1;
    int64_t most = 1;
    for (int larger = 1; larger <= MOST_LARGER; larger *= 4)
        for (uint32_t l = 0; l < p->n_loops; l++) {
            if (!(set & (1u << l))) continue;
            const int64_t range = split_range(p, s, tile, l), some = plim__max(blocks / larger / threads * threads, threads);
            if (range < some || piece_bytes(g, p, s, tile, l, some) < PIECE_BYTES) continue;
            *n = (uint32_t)some;
            return (int8_t)l;
        }
    for (uint32_t l = 0; l < p->n_loops; l++) {
        if (!(set & (1u << l))) continue;
        const int64_t range = split_range(p, s, tile, l);
        if (range >= blocks) return (int8_t)l;
        if (range > most) {
            most = range;
            best = (int8_t)l;
        }
    }
    return best;
}

/* One node, which needs no memory for the block that it works on? */
static bool is_alone(const plim_graph *g, const plim__pass *p, const plim__stage *s)
{
    return s->count == 1 && !plim__op_row_of(g->node[p->node[s->first].node].op)->scratch;
}

static void choose_blocks(const plim_plan *plan, const plim__pass *p, plim__stage *s, const plim__ranges *tile)
{
    s->blocks = 1;
    s->split = -1;
    if (!s->split_set) return;
    const uint64_t traffic = stage_traffic(plan->graph, p, s, tile);
    uint64_t blocks = (traffic + PLIM__BLOCK_BYTES - 1) / PLIM__BLOCK_BYTES;
    if (traffic > (64u << 10) && blocks < plan->threads) blocks = plan->threads;
    if (blocks > plan->threads) blocks = (blocks + plan->threads - 1) / plan->threads * plan->threads;
    if (blocks > MAX_BLOCKS) blocks = MAX_BLOCKS;
    if (is_alone(plan->graph, p, s) && blocks > plan->threads * ALONE_BLOCKS) blocks = plan->threads * ALONE_BLOCKS;
    if (blocks <= 1) return;
    s->blocks = (uint32_t)blocks;
    s->split = pick_split(plan->graph, p, s, tile, plan->threads, &s->blocks);
    if (s->split < 0) s->blocks = 1;
    PLIM_ASSERT(s->blocks >= 1 && s->blocks <= MAX_BLOCKS && !s->pool && (s->split < 0 || s->split_set & 1u << s->split));
}

/* How long a part of a block can be that was seen with length `len`, of `whole` in the tile and of a dimension of this reach. Blocks that do not divide
 * what leaves the stage differ by one step, and the longest need not be among those that were looked at. */
static int64_t longest(const plim__measure *m, int64_t len, int64_t whole, int64_t reach)
{
    return m->uneven_extent == 0 || len >= whole ? len : plim__min(len + reach / m->uneven_extent + 1, whole);
}

/* The same for a box. */
static void lengthen(const plim__measure *m, plim__region *box, const plim__region *tile, const plim_shape *s, const int64_t *reach)
{
    if (plim__region_count(box) == 0) return;
    for (uint32_t d = 0; d < box->rank; d++) {
        const int64_t more = longest(m, plim__range_len(box->dim[d]), plim__range_len(tile->dim[d]), reach[d]) - plim__range_len(box->dim[d]);
        const int64_t up = plim__min(more, s->dim[d] - box->dim[d].hi);
        box->dim[d].hi += up;
        box->dim[d].lo -= more - up;
    }
}

/* One block of a stage, into the lengths of its private boxes and of its nodes' parts. @return what its boxes touch */
static uint64_t measure_block(plim__measure *m, const plim_plan *plan, const plim__pass *p, uint32_t stage, uint32_t block, uint32_t blocks)
{
    const plim_graph *g = plan->graph;
    const plim__stage *s = &p->stage[stage];
    uint64_t mark = 0;
    PLIM_ASSERT(block < blocks && (blocks == 1 || s->split >= 0));
    plim__stage_regions(g, p, s, &m->tile, block, blocks, &m->block);
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &g->node[n->node];
        for (uint32_t j = 0; j < node->n_out; j++) {
            const uint32_t v = n->out[j];
            if (p->value[v].role != PLIM__ROLE_PRIVATE) continue;
            plim__region box = m->block.region[v];
            mark = touches(mark, &box, &g->value[node->out[j]].shape);
            lengthen(m, &box, &m->tile.region[v], &g->value[node->out[j]].shape, m->reach[v]);
            if (plim__region_count(&box) > 0) note_lengths(m->len[v], &box);
        }
        for (uint32_t a = n->axis0; a < n->axis0 + n->axes.n && plim__op_row_of(node->op)->scratch; a++) {
            const int64_t len = longest(m, plim__range_len(m->block.axis[a]), plim__range_len(m->tile.axis[a]), m->axis_reach[a]);
            m->axis_len[a] = plim__max(m->axis_len[a], len);
        }
    }
    return mark;
}

/* Blocks first to last of a stage, whose marks are known: all stretches between them that touch the same ends. The last block of a tile is
 * the longest, so equal stretches are seen at their longest too. */
static void walk_blocks(plim__measure *m, const plim_plan *plan, const plim__pass *p, uint32_t stage, uint32_t first, uint32_t last, uint32_t blocks,
                        uint64_t mark_first, uint64_t mark_last)
{
    if (last - first < 2 || mark_first == mark_last) return;
    const uint32_t mid = first + (last - first) / 2;
    const uint64_t mark = measure_block(m, plan, p, stage, mid, blocks);
    walk_blocks(m, plan, p, stage, first, mid, blocks, mark_first, mark);
    walk_blocks(m, plan, p, stage, mid, last, blocks, mark, mark_last);
}

/* Whether the blocks of a stage divide what leaves it. */
static void find_unevenness(plim__measure *m, const plim__pass *p, const plim__stage *s, uint32_t blocks)
{
    m->uneven_extent = 0;
    for (uint32_t i = s->first; i < s->first + s->count && blocks > 1; i++)
        for (uint32_t a = 0; a < p->node[i].axes.n; a++) {
            const int64_t extent = m->axis_reach[p->node[i].axis0 + a];
            if (p->node[i].bind[a] != s->split || plim__range_len(m->tile.axis[p->node[i].axis0 + a]) % blocks == 0) continue;
            m->uneven_extent = m->uneven_extent ? plim__min(m->uneven_extent, extent) : extent;
        }
}

static void measure_blocks(plim__measure *m, const plim_plan *plan, const plim__pass *p, uint32_t stage, bool exact)
{
    const uint32_t blocks = plim__stage_blocks(p, &p->stage[stage], &m->tile), last = blocks - 1, mid = last / 2;
    find_unevenness(m, p, &p->stage[stage], blocks);
    const uint64_t mark_first = measure_block(m, plan, p, stage, exact ? 0 : mid, blocks);
    if (last == 0 || !exact) return;
    const uint64_t mark_last = measure_block(m, plan, p, stage, last, blocks);
    if (mid == 0) return;
    const uint64_t mark_mid = measure_block(m, plan, p, stage, mid, blocks);
    walk_blocks(m, plan, p, stage, 0, mid, blocks, mark_first, mark_mid);
    walk_blocks(m, plan, p, stage, mid, last, blocks, mark_mid, mark_last);
}

/* The last node of the stage that reads private value v, or the one that makes it. */
static uint32_t last_private_use(const plim_graph *g, const plim__pass *p, const plim__stage *s, uint32_t v)
{
    for (uint32_t i = s->first + s->count; i-- > s->first;)
        for (uint32_t k = 0; k < g->node[p->node[i].node].n_in; k++)
            if (p->operand[p->node[i].in0 + k] == v) return i;
    return p->value[v].producer;
}

/* Of a private value, in any block. */
static uint64_t private_bytes(const plim__measure *m, const plim_plan *plan, const plim__pass *p, uint32_t v)
{
    const plim__value *value = &plan->graph->value[p->value[v].value];
    plim__region box = box_of_lengths(m->len[v], value->shape.rank);
    PLIM_ASSERT(p->value[v].role == PLIM__ROLE_PRIVATE);
    loosen(m, &box, &value->shape, m->reach[v], p->value[v].moved_by, true);
    return dense_bytes(value, &box);
}

/* Of the stage's nodes, which run one after the other in the same scratch. */
static uint64_t scratch_bytes(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__stage *s)
{
    uint64_t most = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &plan->graph->node[n->node];
        const plim__op_row *row = plim__op_row_of(node->op);
        int64_t len[PLIM__MAX_AXES];
        if (!row->scratch) continue;
        for (uint32_t a = 0; a < n->axes.n; a++)
            len[a] = plim__min(m->axis_len[n->axis0 + a] + slack_of(m, m->axis_reach[n->axis0 + a], n->moved_by[a], true), n->axes.axis[a].extent);
        PLIM_ASSERT(!s->pool || s->count == 1); /* nobody else is in the scratch of all threads */
        const uint64_t bytes = plim__round_up(row->scratch(plan->graph, node, len, s->pool ? plan->pool_threads : 1), 64);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Buffers of a stage's private values: one that lies on another shares its buffer. Until they are packed, private_offset is the number of the buffer.
 * @return how many there are */
static uint32_t list_private(const plim__measure *m, const plim_plan *plan, plim__pass *p, const plim__stage *s, plim_buffer *buf)
{
    uint32_t n = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && p->node[i].out[j] != PLIM__NONE; j++) {
            const uint32_t v = p->node[i].out[j], root = plim__alias_root(p, v);
            if (p->value[v].role != PLIM__ROLE_PRIVATE) continue;
            const plim_buffer own = {.lower = i, .upper = (int64_t)last_private_use(plan->graph, p, s, v) + 1, .size = private_bytes(m, plan, p, v)};
            PLIM_ASSERT(p->node[p->value[root].producer].stage == p->node[i].stage && p->value[root].producer <= i);
            p->value[v].private_offset = root == v ? n : p->value[root].private_offset;
            plim_buffer *b = &buf[p->value[v].private_offset];
            if (root == v) buf[n++] = own;
            b->upper = plim__max(b->upper, own.upper);
            b->size = own.size > b->size ? own.size : b->size;
        }
    return n;
}

/* Private values of a stage share memory by lifetime. */
static plim_status place_private(const plim__measure *m, const plim_plan *plan, plim__pass *p, uint32_t stage, plim_error *err)
{
    plim__stage *s = &p->stage[stage];
    plim_buffer *buf = plim__new(&plan->alloc, s->count * (uint64_t)PLIM__MAX_OUT, sizeof *buf, err);
    plim_status status = buf ? PLIM_OK : PLIM_E_NOMEM;
    const uint32_t n = buf ? list_private(m, plan, p, s, buf) : 0;
    plim_pack_result res = {0};
    if (status == PLIM_OK && n > 0) {
        const plim__pack_effort effort = plim__pack_effort_quick();
        status = plim__pack(buf, n, &(plim_pack_options){.alignment = 64}, &effort, &res, &plan->alloc, err);
    }
    for (uint32_t i = s->first; i < s->first + s->count && status == PLIM_OK; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && p->node[i].out[j] != PLIM__NONE; j++) {
            plim__pvalue *v = &p->value[p->node[i].out[j]];
            if (v->role != PLIM__ROLE_PRIVATE) continue;
            v->private_bytes = buf[v->private_offset].size;
            v->private_offset = buf[v->private_offset].offset;
        }
    s->scratch_offset = res.height;
    s->private_bytes = plim__round_up(res.height + scratch_bytes(m, plan, p, s), 64);
    PLIM_ASSERT(s->scratch_offset <= s->private_bytes); /* the scratch lies behind all private values */
    plim__free(&plan->alloc, buf);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- slots */

static uint32_t add_slot(plim__measure *m, const plim__slot *proto)
{
    PLIM_ASSERT(m->n_slots < m->cap_slots && proto->copies >= 1);
    m->slot[m->n_slots] = *proto;
    return m->n_slots++;
}

static bool needs_slot(const plim__pvalue *v)
{
    return v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE && !v->foreign;
}

/* Does thread t > 0 need an accumulator of its own? Yes, where the blocks of the stage are cut along an axis that reduces. */
static bool needs_copies(const plim_plan *plan, const plim__pass *p, const plim__pnode *n)
{
    const plim__stage *s = &p->stage[n->stage];
    if (s->split < 0 || s->blocks <= 1 || plan->threads <= 1) return false;
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (n->bind[a] == s->split && plim__axis_reduces(n->axes.axis[a].kind)) return true;
    return false;
}

static void make_slots(plim__measure *m, const plim_plan *plan, plim__pass *p)
{
    m->n_slots = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        plim__pvalue *v = &p->value[i];
        if (!needs_slot(v) || v->alias_of != PLIM__NONE) continue;
        plim__slot s = {.value = v->value, .copies = 1, .stage = PLIM__NONE};
        PLIM_ASSERT(v->depth <= p->n_cut && (v->role != PLIM__ROLE_READ || v->producer == PLIM__NONE)); /* what is read is not made here */
        if (plim__read_has_ring(plan, p, v)) s.copies = plan->read_copies;
        if (v->ahead) s.copies = 2;
        if (plim__write_has_ring(plan, p, v)) s.copies = plan->write_copies;
        v->slot = add_slot(m, &s);
    }
    for (uint32_t i = 0; i < p->n_values; i++)
        if (needs_slot(&p->value[i])) p->value[i].slot = p->value[plim__alias_root(p, i)].slot;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pnode *n = &p->node[i];
        n->copies_slot = PLIM__NONE;
        memset(n->copy_offset, 0, sizeof n->copy_offset);
        if (needs_copies(plan, p, n))
            n->copies_slot = add_slot(m, &(plim__slot){.value = plan->graph->node[n->node].out[0], .copies = plan->threads - 1, .stage = n->stage});
    }
}

static plim_status add_stage_slots(plim__measure *m, const plim_plan *plan, plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_stages; i++) {
        plim__stage *s = &p->stage[i];
        s->slot = PLIM__NONE;
        PLIM_TRY(place_private(m, plan, p, i, err));
        if (s->private_bytes > 0)
            s->slot = add_slot(m, &(plim__slot){.value = PLIM__NONE, .stage = i, .bytes = s->private_bytes, .copies = s->pool ? 1 : plan->threads});
    }
    return PLIM_OK;
}

/* Bytes of output j in a thread's copy of the accumulators of a node, in this tile. */
static uint64_t copy_bytes(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__pnode *n, uint32_t j, const plim__range *loop)
{
    const plim_graph *g = plan->graph;
    const plim__value *value = &g->value[g->node[n->node].out[j]];
    plim__region box = m->tile.region[n->out[j]];
    if (n->accumulates) plim__acc_region(g, p, n, j, loop, &box);
    loosen(m, &box, &value->shape, m->reach[n->out[j]], p->value[n->out[j]].moved_by, false);
    return dense_bytes(value, &box);
}

/* Boxes of one tile, into the lengths of the slots' boxes. Until all tiles have been looked at, copy_offset has the bytes of each copy. */
static void size_slots(plim__measure *m, const plim_plan *plan, plim__pass *p, const plim__range *loop)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        if (!needs_slot(v) || v->role == PLIM__ROLE_WHOLE) continue;
        plim__region box = m->tile.region[i];
        PLIM_ASSERT(v->role != PLIM__ROLE_ACC || p->node[v->producer].accumulates);
        if (v->role == PLIM__ROLE_ACC) plim__acc_region(g, p, &p->node[v->producer], g->value[v->value].out, loop, &box);
        if (plim__region_count(&box) > 0) note_lengths(m->len[i], &box);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pnode *n = &p->node[i];
        for (uint32_t j = 0; j < g->node[n->node].n_out && n->copies_slot != PLIM__NONE; j++) {
            const uint64_t bytes = copy_bytes(m, plan, p, n, j, loop);
            if (bytes > n->copy_offset[j]) n->copy_offset[j] = bytes;
        }
    }
}

/* What is read ahead of every tile in little pieces is read further ahead: the disk takes as long to answer as tiles like these take to compute. */
static void deepen_rings(plim__measure *m, const plim_plan *plan, const plim__pass *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (plim__read_has_ring(plan, p, &p->value[i])) bytes += m->slot[p->value[i].slot].bytes;
    if (bytes > DEEP_RING_BYTES) return;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (plim__read_has_ring(plan, p, &p->value[i])) m->slot[p->value[i].slot].copies = DEEP_RING;
}

/* The slots' sizes, from the lengths in all tiles; copies of accumulators lie behind each other. */
static void finish_slots(plim__measure *m, const plim_plan *plan, plim__pass *p)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const plim_shape *shape = &g->value[v->value].shape;
        if (!needs_slot(v)) continue;
        plim__region box = v->role == PLIM__ROLE_WHOLE ? plim__region_whole(shape) : box_of_lengths(m->len[i], shape->rank);
        loosen(m, &box, shape, m->reach[i], v->moved_by, false);
        const uint64_t bytes = slot_bytes(plan, v, &box);
        PLIM_ASSERT(bytes % (on_file(v) ? PLIM__IO_ALIGN : 64) == 0 && v->slot == p->value[plim__alias_root(p, i)].slot);
        if (bytes > m->slot[v->slot].bytes) m->slot[v->slot].bytes = bytes; /* the larger, of values that share it */
        if (v->alias_of == PLIM__NONE) m->slot[v->slot].box = box;
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pnode *n = &p->node[i];
        if (n->copies_slot == PLIM__NONE) continue;
        plim__slot *s = &m->slot[n->copies_slot];
        for (uint32_t j = 0; j < g->node[n->node].n_out; j++) {
            const uint64_t bytes = n->copy_offset[j];
            n->copy_offset[j] = s->bytes;
            s->bytes += bytes;
        }
        if (needs_slot(&p->value[n->out[0]])) s->box = m->slot[p->value[n->out[0]].slot].box;
    }
    deepen_rings(m, plan, p);
}

/* ---------------------------------------------------------------------------------------------------- tiles */

/* One tile, into everything. @return what its boxes touch */
static uint64_t measure_tile(plim__measure *m, const plim_plan *plan, plim__pass *p, const plim__range *loop, bool exact)
{
    uint64_t mark = 0;
    plim__pass_regions(plan->graph, p, loop, &m->tile);
    for (uint32_t i = 0; i < p->n_values; i++) mark = touches(mark, &m->tile.region[i], &plan->graph->value[p->value[i].value].shape);
    size_slots(m, plan, p, loop);
    for (uint32_t i = 0; i < p->n_stages; i++) measure_blocks(m, plan, p, i, exact);
    return mark;
}

/* Trips of a loop at which boxes begin or cease to touch an end, and its first and last. */
typedef struct turns {
    int64_t trip[TURNS];
    uint32_t n;
} turns;

static void note_turn(turns *t, int64_t trip)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->trip[i] == trip) return;
    if (t->n < TURNS) t->trip[t->n++] = trip;
}

static uint64_t measure_trip(plim__measure *m, const plim_plan *plan, plim__pass *p, plim__range *loop, uint32_t l, int64_t i, bool exact)
{
    loop[l] = trip(&p->loop[l], i);
    return measure_tile(m, plan, p, loop, exact);
}

static void walk_trips(plim__measure *m, const plim_plan *plan, plim__pass *p, plim__range *loop, uint32_t l, int64_t first, int64_t last,
                       uint64_t mark_first, uint64_t mark_last, turns *t)
{
    if (mark_first == mark_last) return;
    PLIM_ASSERT(first < last && l < p->n_cut);
    if (last - first < 2) {
        note_turn(t, first);
        note_turn(t, last);
        return;
    }
    const int64_t mid = first + (last - first) / 2;
    const uint64_t mark = measure_trip(m, plan, p, loop, l, mid, true);
    walk_trips(m, plan, p, loop, l, first, mid, mark_first, mark, t);
    walk_trips(m, plan, p, loop, l, mid, last, mark, mark_last, t);
}

/* Trips of loop l, the other loops where they are: the first and one in the middle; for an exact answer also the second, the last but one and the last,
 * which may be shorter, and all stretches between. */
static void measure_loop(plim__measure *m, const plim_plan *plan, plim__pass *p, plim__range *loop, uint32_t l, bool exact, turns *t)
{
    PLIM_ASSERT(l < p->n_cut && p->loop[l].tile >= 1);
    const int64_t trips = plim__loop_trips(&p->loop[l]), look[] = {0, 1, trips / 2, trips - 2, trips - 1};
    const plim__range before = loop[l];
    uint64_t mark_last = 0;
    int64_t last = -1;
    note_turn(t, 0);
    note_turn(t, trips - 1);
    for (uint32_t i = 0; i < sizeof look / sizeof *look; i++) {
        if (look[i] <= last || (!exact && i != 0 && i != 2)) continue;
        const uint64_t mark = measure_trip(m, plan, p, loop, l, look[i], exact);
        if (exact && last >= 0) walk_trips(m, plan, p, loop, l, last, look[i], mark_last, mark, t);
        last = look[i];
        mark_last = mark;
    }
    loop[l] = before;
}

/* Every combination of the loops' turns, from loop l on. */
static void measure_corners(plim__measure *m, const plim_plan *plan, plim__pass *p, plim__range *loop, uint32_t l, const turns *t, uint32_t most)
{
    if (l == p->n_cut) {
        measure_tile(m, plan, p, loop, true);
        return;
    }
    for (uint32_t i = 0; i < t[l].n && i < most; i++) {
        loop[l] = trip(&p->loop[l], t[l].trip[i]);
        measure_corners(m, plan, p, loop, l + 1, t, most);
    }
}

/* How many turns of each loop may be combined. */
static uint32_t most_turns(const plim__pass *p)
{
    uint32_t most = 2;
    for (uint64_t tiles = 1; most < TURNS && tiles * p->n_nodes <= CORNERS_WORK; most++) {
        tiles = 1;
        for (uint32_t l = 0; l < p->n_cut; l++) tiles *= most + 1;
    }
    return most;
}

/* Every tile, if there are few. @return false: there are many */
static bool measure_all_tiles(plim__measure *m, const plim_plan *plan, plim__pass *p)
{
    int64_t tiles = 1;
    for (uint32_t l = 0; l < p->n_cut; l++)
        if (__builtin_mul_overflow(tiles, plim__loop_trips(&p->loop[l]), &tiles) || tiles > ALL_TILES) return false;
    if ((uint64_t)tiles * p->n_nodes > ALL_WORK) return false;
    plim__range loop[PLIM__MAX_LOOPS];
    whole_loops(p, loop);
    for (int64_t it = 0; it < tiles; it++) {
        int64_t rest = it;
        for (uint32_t l = 0; l < p->n_cut; l++) {
            const int64_t trips = plim__loop_trips(&p->loop[l]);
            loop[l] = trip(&p->loop[l], rest % trips);
            rest /= trips;
        }
        measure_tile(m, plan, p, loop, true);
    }
    return true;
}

/* One loop at a time: many boxes depend on each loop separately. The walk is repeated with the other loops in their middle and at their end. Hulls over several
 * loops are largest where each of these is at a turn. */
static void measure_tiles(plim__measure *m, const plim_plan *plan, plim__pass *p, bool exact)
{
    plim__range loop[PLIM__MAX_LOOPS];
    turns t[PLIM__MAX_LOOPS] = {0};
    if (exact && p->n_cut > 0 && measure_all_tiles(m, plan, p)) return;
    if (!exact) { /* an estimate: the first tile, and one that sees its neighbours on all sides */
        whole_loops(p, loop);
        measure_tile(m, plan, p, loop, false);
        for (uint32_t l = 0; l < p->n_cut; l++) loop[l] = trip(&p->loop[l], plim__loop_trips(&p->loop[l]) / 2);
        if (p->n_cut > 0) measure_tile(m, plan, p, loop, false);
        return;
    }
    for (int64_t place = 0; place < (p->n_cut > 1 ? 3 : 1); place++) {
        whole_loops(p, loop);
        for (uint32_t l = 0; l < p->n_cut; l++) {
            const int64_t trips = plim__loop_trips(&p->loop[l]);
            loop[l] = trip(&p->loop[l], place == 0 ? 0 : place == 1 ? trips / 2 : trips - 1);
        }
        if (p->n_cut == 0) measure_tile(m, plan, p, loop, true);
        for (uint32_t l = 0; l < p->n_cut; l++) measure_loop(m, plan, p, loop, l, true, &t[l]);
    }
    if (p->n_cut > 1) measure_corners(m, plan, p, loop, 0, t, most_turns(p));
}

/* --------------------------------------------------------------------------------------------- lifetimes */

static void use(plim__measure *m, uint32_t slot, uint32_t t, const plim__step *step)
{
    PLIM_ASSERT(slot < m->n_slots && step->depth <= PLIM__MAX_LOOPS);
    plim__slot *s = &m->slot[slot];
    if (t < s->first) s->first = t;
    if (t > s->last) s->last = t;
    if (step->depth > m->deepest[slot]) m->deepest[slot] = step->depth;
    if (step->depth < m->shallowest[slot]) m->shallowest[slot] = step->depth;
}

static void use_stage(plim__measure *m, const plim_graph *g, const plim__pass *p, uint32_t t)
{
    const plim__step *step = &p->step[t];
    const plim__stage *s = &p->stage[step->index];
    if (s->slot != PLIM__NONE) use(m, s->slot, t, step);
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &g->node[n->node];
        for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
            const plim__pvalue *v = &p->value[k < node->n_in ? p->operand[n->in0 + k] : n->out[k - node->n_in]];
            if (needs_slot(v)) use(m, v->slot, t, step);
        }
        if (n->copies_slot != PLIM__NONE) use(m, n->copies_slot, t, step);
    }
}

static void use_step(plim__measure *m, const plim_graph *g, const plim__pass *p, uint32_t t)
{
    const plim__step *step = &p->step[t];
    if (step->kind == PLIM__STEP_STAGE) {
        use_stage(m, g, p, t);
    } else if (step->kind == PLIM__STEP_INIT || step->kind == PLIM__STEP_MERGE) {
        const plim__pnode *n = &p->node[step->index];
        for (uint32_t j = 0; j < g->node[n->node].n_out; j++)
            if (needs_slot(&p->value[n->out[j]])) use(m, p->value[n->out[j]].slot, t, step);
        if (n->copies_slot != PLIM__NONE) use(m, n->copies_slot, t, step);
    } else {
        use(m, p->value[step->index].slot, t, step);
    }
}

/* From the first step that uses a slot to the last. One that is used both outside a loop and inside lives as long as that loop turns: the steps of the
 * loops deeper than a depth stand together. Rings, and what a pass makes whole part by part, live as long as the pass. */
static void set_lifetimes(plim__measure *m, const plim_plan *plan, plim__pass *p)
{
    uint32_t begins[PLIM__MAX_LOOPS + 1], ends[PLIM__MAX_LOOPS + 1] = {0}; /* of the loops deeper than the index */
    for (uint32_t d = 0; d <= PLIM__MAX_LOOPS; d++) begins[d] = UINT32_MAX;
    for (uint32_t i = 0; i < m->n_slots; i++) m->slot[i].first = UINT32_MAX, m->slot[i].last = 0, m->deepest[i] = 0, m->shallowest[i] = UINT8_MAX;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        use_step(m, plan->graph, p, t);
        for (uint32_t d = 0; d < p->step[t].depth; d++) {
            ends[d] = t;
            if (begins[d] == UINT32_MAX) begins[d] = t;
        }
    }
    for (uint32_t i = 0; i < m->n_slots; i++) {
        plim__slot *s = &m->slot[i];
        if (s->first > s->last) continue;
        PLIM_ASSERT(m->shallowest[i] <= m->deepest[i] && m->deepest[i] <= p->n_cut);
        const uint32_t out = m->shallowest[i];
        if (m->deepest[i] > out) {
            if (begins[out] < s->first) s->first = begins[out];
            if (ends[out] > s->last) s->last = ends[out];
        }
        if (s->copies > 1 && s->value != PLIM__NONE && p->n_cut > 0 && s->stage == PLIM__NONE) s->first = 0, s->last = p->n_steps - 1; /* a ring */
    }
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        if (needs_slot(v) && v->beside) m->slot[v->slot].first = 0, m->slot[v->slot].last = p->n_steps - 1;
        if (!needs_slot(v) || v->role != PLIM__ROLE_WHOLE) continue;
        if (p->n_cut > 0) m->slot[v->slot].first = 0;
        m->slot[v->slot].last = p->n_steps - 1;
    }
}

static void sweep(plim__measure *m, const plim__pass *p, uint64_t carried)
{
    m->peak = carried;
    m->peak_step = 0;
    memset(m->live, 0, (p->n_steps + 1) * sizeof *m->live);
    for (uint32_t i = 0; i < m->n_slots; i++) { /* changes; they wrap, their sums do not */
        const plim__slot *s = &m->slot[i];
        if (s->first > s->last || s->first >= p->n_steps) continue;
        m->live[s->first] += s->bytes * s->copies;
        m->live[plim__min(s->last, p->n_steps - 1) + 1] -= s->bytes * s->copies;
    }
    uint64_t live = carried;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        live += m->live[t];
        m->live[t] = live;
        if (live <= m->peak) continue;
        m->peak = live;
        m->peak_step = t;
    }
    PLIM_ASSERT(live + m->live[p->n_steps] == carried); /* every slot that came has left; wraps */
}

static plim_status measure_memory(plim__measure *m, const plim_plan *plan, plim__pass *p, uint64_t carried, bool exact, plim_error *err)
{
    m->passes++;
    PLIM_TRY(reserve(m, &plan->alloc, p, err));
    plim__range loop[PLIM__MAX_LOOPS];
    whole_loops(p, loop);
    plim__pass_regions(plan->graph, p, loop, &m->tile);
    for (uint32_t i = 0; i < p->n_stages; i++) choose_blocks(plan, p, &p->stage[i], &m->tile);
    find_reach(m, plan->graph, p);
    find_rounding(m, plan->graph, p);
    make_slots(m, plan, p);
    measure_tiles(m, plan, p, exact);
    finish_slots(m, plan, p);
    PLIM_TRY(add_stage_slots(m, plan, p, err));
    set_lifetimes(m, plan, p);
    sweep(m, p, carried);
    return PLIM_OK;
}

plim_status plim__pass_measure_peak(plim__measure *m, const plim_plan *plan, plim__pass *p, uint64_t carried, plim_error *err)
{
    return measure_memory(m, plan, p, carried, false, err);
}

plim_status plim__pass_measure(plim__measure *m, const plim_plan *plan, plim__pass *p, uint64_t carried, bool exact, plim_error *err)
{
    PLIM_TRY(measure_memory(m, plan, p, carried, exact, err));
    plim__range loop[PLIM__MAX_LOOPS];
    whole_loops(p, loop);
    for (uint32_t l = 0; l < p->n_cut; l++) loop[l] = trip(&p->loop[l], (plim__loop_trips(&p->loop[l]) - 1) / 2);
    plim__pass_regions(plan->graph, p, loop, &m->tile);
    plim__transfers_advance(m, plan, p);
    plim__pass_cost(m, plan, p);
    return PLIM_OK;
}
