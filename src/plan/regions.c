/* Boxes of a pass: from the tile of the loops back through the nodes. The planner calls this to measure, the runner to do: one code
 * path, so that what was planned is what is used. Pure functions on caller's arrays; any thread. */
#include "plan/plan.h"
#include "core/size.h"

static_assert(PLIM__MAX_LOOPS <= 8, "needs and moved_by are sets of loops in a uint8_t");
static_assert(PLIM__MAX_AXES <= INT8_MAX, "bind and axes.out number loops and axes in an int8_t");

__extension__ typedef __int128 wide; /* a product of two extents may have more than 64 bits */

/* The part of an axis of extent n that belongs to [lo, hi) of a loop of extent `whole`: floors partition n exactly. */
static plim__range share(plim__range loop, int64_t whole, int64_t n)
{
    PLIM_ASSERT(loop.lo >= 0 && loop.lo <= loop.hi && (whole <= 0 || loop.hi <= whole));
    if (n == whole || whole <= 0) return n == whole ? loop : (plim__range){0, n};
    return (plim__range){(int64_t)((wide)loop.lo * n / whole), (int64_t)((wide)loop.hi * n / whole)};
}

static void clear_region(plim__region *r, uint32_t rank)
{
    r->rank = rank;
    for (uint32_t d = 0; d < rank; d++) r->dim[d] = (plim__range){0, 0};
}

static void demand(plim__region *have, const plim__region *more)
{
    /* Rank 0 has no dimension to be empty in: it is always whole. */
    if (more->rank == 0 || plim__region_count(have) == 0) *have = *more;
    else *have = plim__region_hull(have, more);
}

/* Axis ranges of a root in the tile; loops at its depth or deeper count as whole for a post node, which runs after them. */
static void root_ranges(const plim__pass *p, const plim__pnode *n, const plim__range *loop, plim__range *axis)
{
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const int l = n->bind[a];
        const int64_t extent = n->axes.axis[a].extent;
        PLIM_ASSERT(l < (int)p->n_loops && n->root); /* only roots take their ranges from the loops */
        axis[a] = l < 0 || (n->post && l >= n->depth) ? (plim__range){0, extent} : share(loop[l], p->loop[l].extent, extent);
    }
}

/* Ranges that the demanded boxes of the outputs imply. A reduced axis is done whole; a scanned one from its beginning, for what comes before a part is in
 * the part's values. @return false: nothing is demanded, for no reader has elements; then nothing is done */
static bool demanded_ranges(const plim__pnode *n, const plim__ranges *have, plim__range *axis)
{
    bool seen[PLIM__MAX_AXES] = {false}, demanded = false;
    PLIM_ASSERT(!n->accumulates || n->root); /* what accumulates is a root: its parts come from the loops */
    for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = (plim__range){0, n->axes.axis[a].extent};
    for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++) {
        const plim__region *r = plim__region_of(have, n->out[j]);
        if (plim__region_count(r) == 0) continue;
        demanded = true;
        for (uint32_t d = 0; d < r->rank; d++) {
            const int a = n->axes.out[j][d];
            if (a < 0 || n->axes.axis[a].kind == PLIM__WHOLE) continue;
            axis[a].lo = seen[a] ? plim__min(axis[a].lo, r->dim[d].lo) : r->dim[d].lo;
            axis[a].hi = seen[a] ? plim__max(axis[a].hi, r->dim[d].hi) : r->dim[d].hi;
            seen[a] = true;
        }
    }
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (!demanded) axis[a] = (plim__range){0, 0};
        else if (n->axes.axis[a].kind == PLIM__SCAN) axis[a].lo = 0;
    return demanded;
}

/* The part, or where it has no iterations the one next to it. @return false: the node has none at all */
static bool part_or_next(const plim__pnode *n, const plim__range *axis, plim__range *out)
{
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const int64_t extent = n->axes.axis[a].extent;
        if (extent <= 0) return false;
        const int64_t lo = plim__clamp(axis[a].lo, 0, extent - 1);
        out[a] = plim__range_len(axis[a]) > 0 ? axis[a] : (plim__range){lo, lo + 1};
    }
    return true;
}

/* Boxes of a node's operands from its axis ranges. A short axis has tiles without a part of it; they demand what the next part will. So what does not
 * move with a loop is demanded in its first tile, where it is read, and no box is left open. A node that nobody demands anything of demands nothing. */
static void push_demands(const plim_graph *g, const plim__pass *p, const plim__pnode *n, const plim__range *axis, bool demanded, plim__ranges *out)
{
    const plim__node *node = &g->node[n->node];
    for (uint32_t j = 0; j < node->n_out; j++) plim__region_writes(g, node, &n->axes, j, axis, plim__region_of(out, n->out[j]));
    plim__range part[PLIM__MAX_AXES];
    if (!demanded || !part_or_next(n, axis, part)) return;
    for (uint32_t k = 0; k < node->n_in; k++) {
        const plim_shape *s = &g->value[node->in[k]].shape;
        PLIM_ASSERT(p->operand[n->in0 + k] < p->n_values && p->value[p->operand[n->in0 + k]].value == node->in[k]);
        const plim__index *index = plim__nest_reads(p->nest, n->node, k);
        plim__region need;
        need.rank = s->rank;
        for (uint32_t d = 0; d < s->rank; d++) need.dim[d] = plim__index_range(&index[d], part, s->dim[d]);
        demand(plim__region_of(out, p->operand[n->in0 + k]), &need);
    }
}

/* A root that others in the pass read too must cover what they demand; one that accumulates is read only after its loops. */
static void widen(const plim__pnode *n, const plim__region *region, plim__range *axis)
{
    if (n->accumulates) return;
    for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++) {
        const plim__region *r = &region[n->out[j]];
        if (r->rank == 0 || plim__region_count(r) == 0) continue;
        for (uint32_t d = 0; d < r->rank; d++) {
            const int a = n->axes.out[j][d];
            if (a < 0) continue;
            axis[a].lo = plim__min(axis[a].lo, r->dim[d].lo);
            axis[a].hi = plim__max(axis[a].hi, r->dim[d].hi);
        }
    }
}

/* What is read back is what was spilled: that has to hold what the readers of both ask for. */
static void demand_for_readers_back(const plim__pass *p, const plim__pnode *n, plim__region *region)
{
    for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++)
        for (uint32_t v = p->value[n->out[j]].back; v != PLIM__NONE; v = p->value[v].back)
            if (plim__region_count(&region[v]) > 0) demand(&region[n->out[j]], &region[v]);
}

static void give_readers_back(const plim__pass *p, const plim__pnode *n, plim__region *region)
{
    for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++)
        for (uint32_t v = p->value[n->out[j]].back; v != PLIM__NONE; v = p->value[v].back) region[v] = region[n->out[j]];
}

void plim__pass_regions(const plim_graph *g, const plim__pass *p, const plim__range *loop, plim__ranges *out)
{
    PLIM_ASSERT(!out->place && out->axis0 == 0); /* of the whole pass */
    for (uint32_t i = 0; i < p->n_values; i++) clear_region(&out->region[i], g->value[p->value[i].value].shape.rank);
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const plim__pnode *n = &p->node[i];
        plim__range *axis = &out->axis[n->axis0];
        bool demanded = true;
        demand_for_readers_back(p, n, out->region);
        if (n->root) {
            root_ranges(p, n, loop, axis);
            widen(n, out->region, axis);
        } else {
            demanded = demanded_ranges(n, out, axis);
        }
        push_demands(g, p, n, axis, demanded, out);
        give_readers_back(p, n, out->region);
    }
}

bool plim__leaves_stage(const plim__pass *p, const plim__pnode *n)
{
    for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++)
        if (p->value[n->out[j]].role != PLIM__ROLE_PRIVATE) return true;
    return false;
}

static int split_axis(const plim__pnode *n, int split)
{
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (n->bind[a] == split) return (int)a;
    return -1;
}

uint32_t plim__stage_blocks(const plim__pass *p, const plim__stage *s, const plim__ranges *tile)
{
    PLIM_ASSERT(s->split < (int)p->n_loops && s->blocks >= 1 && !(s->pool && s->split >= 0)); /* a pool node uses the threads itself */
    if (s->split < 0) return 1;
    int64_t most = s->blocks;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const int a = plim__leaves_stage(p, n) ? split_axis(n, s->split) : -1;
        if (a >= 0) most = plim__min(most, plim__range_len(tile->axis[n->axis0 + (uint32_t)a]));
    }
    return most < 1 ? 1 : (uint32_t)most;
}

void plim__stage_regions(const plim_graph *g, const plim__pass *p, const plim__stage *s, const plim__ranges *tile, uint32_t block,
                         uint32_t blocks, plim__ranges *out)
{
    PLIM_ASSERT(block < blocks && s->first + s->count <= p->n_nodes);
    PLIM_ASSERT(s->split >= 0 || blocks == 1); /* without a loop to split there is one block */
    /* only what the stage touches is set */
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &g->node[n->node];
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t v = p->operand[n->in0 + k];
            clear_region(plim__region_of(out, v), tile->region[v].rank);
        }
        for (uint32_t j = 0; j < node->n_out; j++) clear_region(plim__region_of(out, n->out[j]), tile->region[n->out[j]].rank);
    }
    for (uint32_t i = s->first + s->count; i-- > s->first;) {
        const plim__pnode *n = &p->node[i];
        plim__range *axis = plim__axes_of(out, n);
        bool demanded = true;
        if (plim__leaves_stage(p, n)) {
            for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = tile->axis[n->axis0 + a];
            const int a = s->split < 0 ? -1 : split_axis(n, s->split);
            if (a >= 0) {
                const plim__range whole = axis[a];
                const int64_t len = plim__range_len(whole);
                axis[a].lo = whole.lo + len * block / blocks;
                axis[a].hi = whole.lo + len * (block + 1) / blocks;
            }
            for (uint32_t x = 0; x < n->axes.n; x++) demanded &= axis[x].hi > axis[x].lo; /* a part without iterations needs nothing inside the stage */
        } else {
            demanded = demanded_ranges(n, out, axis);
        }
        push_demands(g, p, n, axis, demanded, out);
    }
}

void plim__acc_region(const plim_graph *g, const plim__pass *p, const plim__pnode *n, uint32_t out, const plim__range *loop, plim__region *box)
{
    plim__range axis[PLIM__MAX_AXES];
    PLIM_ASSERT(n->accumulates && n->acc_depth <= n->depth && !n->post); /* complete outside of the loops that it runs in */
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const int l = n->bind[a];
        const int64_t extent = n->axes.axis[a].extent;
        axis[a] = l < 0 || l >= n->acc_depth ? (plim__range){0, extent} : share(loop[l], p->loop[l].extent, extent);
    }
    plim__region_writes(g, &g->node[n->node], &n->axes, out, axis, box);
}
