/* The verifier's part on values that lie on each other: who shares memory with whom (I16), and that nobody reads what
 * has been overwritten (I17).
 *
 * I16 is a matter of the tables. For I17 everything that comes from the overwritten value is followed forwards through
 * the stage that overwrites it: each node that touches it must be one of element for element whose result stays inside
 * the stage, or the one that overwrites it. So a block reads no other elements than it overwrites, however the stage is
 * cut. That the boxes are the same ones is looked at in tiles and blocks (plim__check_tile_shares,
 * plim__check_block_shares).
 *
 * Linear in nodes and operands, and in those of a stage for each value of it that lies on another. Reads the plan;
 * allocates tables as long as the pass or as the plan has slots; any thread. */
#include "plan/check.h"
#include "core/dtype.h"

#include <string.h>

typedef struct sharer {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    uint32_t *owner;    /* per slot of the plan: the value that has it, or PLIM__NONE */
    uint32_t *groups;   /* per value: set of groups of steps that touch it */
    uint32_t *last_use; /* per value: the last node that makes or reads it */
    bool *written;      /* per value: it goes to a file, or is copied */
    bool *comes_from;   /* per value: scratch, false between calls */
    plim_error *err;
} sharer;

static const char *name_of(const sharer *k, uint32_t v)
{
    return k->g->value[k->p->value[v].value].name;
}

static bool is_private(const sharer *k, uint32_t v)
{
    return k->p->value[v].role == PLIM__ROLE_PRIVATE;
}

/* ------------------------------------------------------------------------------------------------------ I16: who */

static plim_status own(sharer *k, uint32_t slot, uint32_t by)
{
    if (slot >= k->plan->n_slots) return PLIM_OK; /* I3 says so */
    PLIM_FAIL_IF(k->owner[slot] != PLIM__NONE, k->err, PLIM_E_PLAN, "I16: slot %u has two owners", slot);
    k->owner[slot] = by;
    return PLIM_OK;
}

/* A slot belongs to one value, to one stage or to the accumulators of one node. */
static plim_status check_owners(sharer *k)
{
    const plim__pass *p = k->p;
    memset(k->owner, 0xff, k->plan->n_slots * sizeof *k->owner);
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const bool has_slot = v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE && !v->foreign;
        if (has_slot && v->alias_of == PLIM__NONE) PLIM_TRY(own(k, v->slot, i));
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].copies_slot != PLIM__NONE) PLIM_TRY(own(k, p->node[i].copies_slot, i));
    for (uint32_t i = 0; i < p->n_stages; i++)
        if (p->stage[i].slot != PLIM__NONE) PLIM_TRY(own(k, p->stage[i].slot, i));
    return PLIM_OK;
}

/* May a value be written from where another one was read to? Not from a ring that turns with every tile: what is read ahead into it would meet what is being
 * written. Who reads for the next trip, or while inner loops turn, looks for what is written from there. */
static bool may_be_written_from(const sharer *k, const plim__pvalue *x, const plim__pvalue *y)
{
    if (k->p->n_cut == 0) return true;
    while (y->alias_of != PLIM__NONE) y = &k->p->value[y->alias_of];
    if (x->beside != (y->ahead || y->beside)) return false;
    return y->ahead || (y->slot < k->plan->n_slots && k->plan->slot[y->slot].copies == 1);
}

/* Value v lies on `in`: both are of a kind that may. */
static plim_status check_kinds(const sharer *k, uint32_t v, uint32_t in)
{
    const plim__pvalue *x = &k->p->value[v], *y = &k->p->value[in];
    const bool inside = is_private(k, v) && is_private(k, in);
    const bool writes = x->role == PLIM__ROLE_WRITE && may_be_written_from(k, x, y);
    const bool tiles = (x->role == PLIM__ROLE_TILE || writes) && (y->role == PLIM__ROLE_TILE || y->role == PLIM__ROLE_READ);
    PLIM_FAIL_IF((!inside && !tiles) || x->foreign || y->foreign || x->stored, k->err, PLIM_E_PLAN,
                 "I16: '%s' may not lie on '%s'", name_of(k, v), name_of(k, in));
    PLIM_FAIL_IF(plim_dtype_bytes(k->g->value[x->value].dtype) != plim_dtype_bytes(k->g->value[y->value].dtype), k->err,
                 PLIM_E_PLAN, "I16: '%s' lies on '%s', whose elements have another size", name_of(k, v),
                 name_of(k, in));
    const bool same_place = inside ? x->private_offset == y->private_offset : x->slot == y->slot;
    PLIM_FAIL_IF(!same_place, k->err, PLIM_E_PLAN, "I16: '%s' lies on '%s', but in another place", name_of(k, v),
                 name_of(k, in));
    return PLIM_OK;
}

/* Chains: each value lies on one that was there before it, and no two on the same. @param over  per value: the one that lies on it, PLIM__NONE; scratch */
static plim_status check_chains(const sharer *k, uint32_t *over)
{
    const plim__pass *p = k->p;
    static_assert(PLIM__NONE == UINT32_MAX, "tables are filled with 0xff");
    memset(over, 0xff, p->n_values * sizeof *over);
    for (uint32_t i = 0; i < p->n_values; i++) {
        const uint32_t in = p->value[i].alias_of;
        if (in == PLIM__NONE) continue;
        PLIM_FAIL_IF(in >= p->n_values || in == i || p->value[i].producer == PLIM__NONE, k->err, PLIM_E_PLAN,
                     "I16: '%s' lies on something that does not exist", name_of(k, i));
        PLIM_FAIL_IF(p->value[in].producer != PLIM__NONE && p->value[in].producer >= p->value[i].producer, k->err,
                     PLIM_E_PLAN, "I16: '%s' lies on '%s', which is made behind it", name_of(k, i), name_of(k, in));
        PLIM_FAIL_IF(over[in] != PLIM__NONE, k->err, PLIM_E_PLAN, "I16: '%s' and '%s' lie on the same value",
                     name_of(k, i), name_of(k, over[in]));
        over[in] = i;
        PLIM_TRY(check_kinds(k, i, in));
    }
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------- I17: when */

static void find_uses(sharer *k)
{
    const plim__pass *p = k->p;
    memset(k->last_use, 0, p->n_values * sizeof *k->last_use);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__node *node = &k->g->node[p->node[i].node];
        const uint32_t group = 1u << plim__group_of(p, p->node[i].depth, p->node[i].post);
        for (uint32_t j = 0; j < node->n_out + node->n_in; j++) {
            const uint32_t v = j < node->n_out ? p->node[i].out[j] : p->operand[p->node[i].in0 + j - node->n_out];
            k->groups[v] |= group;
            k->last_use[v] = i;
        }
    }
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const plim__step *s = &p->step[t];
        if (s->kind != PLIM__STEP_READ && s->kind != PLIM__STEP_WRITE && s->kind != PLIM__STEP_WAIT) continue;
        k->groups[s->index] |= 1u << plim__group_of(p, s->depth, s->post);
        k->written[s->index] |= s->kind != PLIM__STEP_READ;
    }
}

/* Is value v of the pass what it lies on, in another shape: the same elements in the same order? */
static bool is_reshaped(const plim_graph *g, const plim__pass *p, uint32_t v)
{
    const plim__pnode *n = &p->node[p->value[v].producer];
    PLIM_ASSERT(p->value[v].alias_of != PLIM__NONE); /* I16 has looked at the chains */
    return plim__op_row_of(g->node[n->node].op)->flags & PLIM__OP_SAME_ORDER && p->operand[n->in0] == p->value[v].alias_of;
}

/* Does node n read one element of its input `in` for the same element of its output j, and nothing else of it? */
static bool is_by_element(const sharer *k, const plim__pnode *n, uint32_t in, uint32_t j, bool may_be_whole)
{
    const plim__node *node = &k->g->node[n->node];
    const plim_shape *x = &k->g->value[node->in[in]].shape, *y = &k->g->value[node->out[j]].shape;
    plim__index index[PLIM_MAX_RANK];
    plim__op_row_of(node->op)->reads(k->g, node, in, index);
    if (!plim__shape_equal(x, y)) return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        const bool one = index[d].stride == 1 && index[d].div == 1 && index[d].offset == 0 && index[d].window == 1;
        if (!one || index[d].axis < 0 || index[d].axis != n->axes.out[j][d]) return false;
    }
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const plim__axis_kind kind = n->axes.axis[a].kind;
        if (kind != PLIM__PARALLEL && !(may_be_whole && kind == PLIM__WHOLE)) return false;
    }
    return true;
}

/* The node that makes v reads `in` itself: its row says that it may. */
static bool may_overwrite(const sharer *k, const plim__node *node, uint32_t v, uint32_t in)
{
    const uint32_t flags = plim__op_row_of(node->op)->flags;
    if (flags & PLIM__OP_INPLACE && node->n_out == 1) return true;
    for (uint32_t s = 0; s < k->g->n_states && flags & PLIM__OP_UPDATE; s++)
        if (k->g->state[s].out == k->p->value[v].value && k->g->state[s].in == k->p->value[in].value) return true;
    return false;
}

/* Node i of the stage that makes v on `in`: what it reads of `in`, or of what comes from it, it reads by element. */
static plim_status follow(const sharer *k, uint32_t v, uint32_t in, uint32_t i)
{
    const plim__pnode *n = &k->p->node[i];
    const plim__node *node = &k->g->node[n->node];
    const uint32_t maker = k->p->value[v].producer;
    PLIM_ASSERT(n->stage == k->p->node[maker].stage && k->comes_from[in]);
    for (uint32_t o = 0; o < node->n_in; o++) {
        const uint32_t x = k->p->operand[n->in0 + o];
        if (!k->comes_from[x]) continue;
        PLIM_FAIL_IF(i > maker, k->err, PLIM_E_PLAN, "I17: node %u reads '%s' behind what overwrites it", n->node,
                     name_of(k, in));
        const uint32_t out = i == maker ? k->g->value[k->p->value[v].value].out : 0;
        PLIM_FAIL_IF(!is_by_element(k, n, o, out, i == maker), k->err, PLIM_E_PLAN,
                     "I17: node %u reads other elements of '%s' than '%s' overwrites", n->node, name_of(k, in),
                     name_of(k, v));
        PLIM_FAIL_IF(i == maker && x == in && !may_overwrite(k, node, v, in), k->err, PLIM_E_PLAN,
                     "I17: node %u cannot write over '%s' while it reads it", n->node, name_of(k, in));
        if (i == maker) continue;
        PLIM_FAIL_IF(node->n_out != 1 || !is_private(k, n->out[0]), k->err, PLIM_E_PLAN,
                     "I17: node %u reads '%s' for another value than the one that overwrites it", n->node,
                     name_of(k, in));
        k->comes_from[n->out[0]] = true;
    }
    return PLIM_OK;
}

/* Do v and `in` belong to one trip of the loops around them? All their steps stand in one group; or `in` is read once at the beginning of the trip, and v is made
 * at its end, when the loops inside have turned. */
static bool is_in_one_trip(const sharer *k, uint32_t v, uint32_t in)
{
    const plim__pnode *maker = &k->p->node[k->p->value[v].producer];
    const uint32_t both = k->groups[v] | k->groups[in], depth = maker->depth;
    if ((both & (both - 1)) == 0) return true;
    if (!maker->post || k->p->value[in].role != PLIM__ROLE_READ) return false;
    for (uint32_t t = 0; t < k->p->n_steps; t++) {
        const plim__step *s = &k->p->step[t];
        const bool reads = s->kind == PLIM__STEP_READ && s->index == in;
        const bool writes = (s->kind == PLIM__STEP_WRITE || s->kind == PLIM__STEP_WAIT) && s->index == v;
        if (reads && s->depth != depth) return false;
        if (writes && (s->depth != depth || !s->post)) return false;
    }
    for (uint32_t g = 0; g <= 2 * k->p->n_cut; g++)
        if (both & 1u << g && (g < depth || g > 2 * k->p->n_cut - depth)) return false;
    return k->groups[v] == 1u << (2 * k->p->n_cut - depth);
}

/* Value v overwrites `in`, which nobody needs from then on: not in its stage, and not behind it. */
static plim_status check_overwritten(const sharer *k, uint32_t v, uint32_t in)
{
    const plim__pvalue *x = &k->p->value[v], *y = &k->p->value[in];
    const plim__stage *s = &k->p->stage[k->p->node[x->producer].stage];
    PLIM_ASSERT(x->alias_of == in && s->count > 0);
    const uint32_t end = s->first + s->count;
    PLIM_FAIL_IF(k->last_use[in] >= end, k->err, PLIM_E_PLAN, "I17: node %u reads '%s', which '%s' has overwritten",
                 k->p->node[k->last_use[in]].node, name_of(k, in), name_of(k, v));
    PLIM_FAIL_IF(!is_in_one_trip(k, v, in), k->err, PLIM_E_PLAN,
                 "I17: '%s' lies on '%s', and loops turn between their steps", name_of(k, v), name_of(k, in));
    PLIM_FAIL_IF(k->written[in], k->err, PLIM_E_PLAN, "I17: '%s' overwrites '%s', which goes to a file", name_of(k, v),
                 name_of(k, in));
    PLIM_FAIL_IF(is_private(k, v) ? k->last_use[in] != x->producer || y->producer < s->first
                                  : y->producer != PLIM__NONE && y->producer >= s->first,
                 k->err, PLIM_E_PLAN, "I17: '%s' overwrites '%s', which another stage has", name_of(k, v),
                 name_of(k, in));
    plim_status status = PLIM_OK;
    if (is_reshaped(k->g, k->p, v) && !is_private(k, v)) return PLIM_OK; /* no element changes */
    k->comes_from[in] = true;
    for (uint32_t i = s->first; i < end && status == PLIM_OK; i++) status = follow(k, v, in, i);
    k->comes_from[in] = false;
    for (uint32_t i = s->first; i < end; i++)
        for (uint32_t j = 0; j < k->g->node[k->p->node[i].node].n_out; j++) k->comes_from[k->p->node[i].out[j]] = false;
    return status;
}

static plim_status check_all(sharer *k)
{
    PLIM_TRY(check_owners(k));
    find_uses(k);
    for (uint32_t i = 0; i < k->p->n_values; i++)
        if (k->p->value[i].alias_of != PLIM__NONE) PLIM_TRY(check_overwritten(k, i, k->p->value[i].alias_of));
    return PLIM_OK;
}

plim_status plim__check_shares(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    sharer k = {.plan = plan, .g = plan->graph, .p = p, .err = err};
    k.owner = plim__new(a, plan->n_slots, sizeof *k.owner, err);
    k.groups = plim__new(a, p->n_values, sizeof *k.groups, err);
    k.last_use = plim__new(a, p->n_values, sizeof *k.last_use, err);
    k.written = plim__new(a, p->n_values, sizeof *k.written, err);
    k.comes_from = plim__new(a, p->n_values, sizeof *k.comes_from, err);
    const bool ok = k.owner && k.groups && k.last_use && k.written && k.comes_from;
    const plim_status status = ok ? check_all(&k) : PLIM_E_NOMEM;
    void *tables[] = {k.owner, k.groups, k.last_use, k.written, k.comes_from};
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) plim__free(a, tables[i]);
    return status;
}

plim_status plim__check_chains(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    uint32_t *over = plim__new(&plan->alloc, p->n_values, sizeof *over, err);
    const sharer k = {.plan = plan, .g = plan->graph, .p = p, .err = err};
    const plim_status status = over ? check_chains(&k, over) : PLIM_E_NOMEM;
    plim__free(&plan->alloc, over);
    return status;
}

/* ------------------------------------------------------------------------------------------- I17: the same elements */

static bool is_same_box(const plim__region *a, const plim__region *b)
{
    return plim__box_is_inside(a, b) && plim__box_is_inside(b, a);
}

/* Does the box of a value lie in its slot element behind element? @param first  the byte where it begins */
static bool lies_densely(const plim_plan *plan, const plim__pvalue *v, const plim__region *box, uint64_t *first)
{
    plim__io_layout layout;
    int64_t stride = 1;
    PLIM_ASSERT(v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE && box->rank <= PLIM_MAX_RANK);
    *first = 0;
    if (v->file == PLIM__NONE || v->flat) return true;
    plim__io_layout_of(&plan->file[v->file].io, box, v->role != PLIM__ROLE_READ, &layout);
    *first = layout.first;
    for (uint32_t d = box->rank; d-- > 0;) {
        if (plim__range_len(box->dim[d]) > 1 && layout.stride[d] != stride) return false;
        stride *= plim__range_len(box->dim[d]);
    }
    return true;
}

static bool is_all(const plim_graph *g, const plim__pass *p, uint32_t v, const plim__region *region)
{
    const plim__region whole = plim__region_whole(&g->value[p->value[v].value].shape);
    return is_same_box(&whole, &region[v]);
}

/* Value v lies on value `in` in a tile: element on element, and densely, as it would in a slot of its own. */
static plim_status check_same_place(const plim_plan *plan, const plim__pass *p, uint32_t v, const plim__region *region,
                                    plim_error *err)
{
    const uint32_t in = p->value[v].alias_of;
    uint32_t root = v;
    uint64_t mine, other;
    if (plim__region_count(&region[v]) == 0) return PLIM_OK; /* nothing is made */
    while (p->value[root].alias_of != PLIM__NONE) root = p->value[root].alias_of;
    PLIM_ASSERT(p->value[root].producer == PLIM__NONE || p->value[root].producer < p->value[v].producer);
    const bool same = is_reshaped(plan->graph, p, v)
                          ? is_all(plan->graph, p, v, region) && is_all(plan->graph, p, in, region)
                          : region[v].rank == region[in].rank && is_same_box(&region[v], &region[in]);
    PLIM_FAIL_IF(!same, err, PLIM_E_PLAN, "I17: the box of '%s' is not the one that it overwrites",
                 plan->graph->value[p->value[v].value].name);
    const bool alike = lies_densely(plan, &p->value[v], &region[v], &mine) &&
                       lies_densely(plan, &p->value[root], &region[root], &other) &&
                       (p->value[v].role == PLIM__ROLE_TILE || mine == other);
    PLIM_FAIL_IF(!alike, err, PLIM_E_PLAN, "I17: '%s' lies in its slot in another way than what it overwrites",
                 plan->graph->value[p->value[v].value].name);
    return PLIM_OK;
}

plim_status plim__check_tile_shares(const plim_plan *plan, const plim__pass *p, const plim__ranges *tile, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->value[i].alias_of != PLIM__NONE && p->value[i].role != PLIM__ROLE_PRIVATE)
            PLIM_TRY(check_same_place(plan, p, i, tile->region, err));
    return PLIM_OK;
}

/* In a block, what the stage reads of an overwritten value is the part that the block makes of the other one. */
static plim_status check_block_share(const plim_plan *plan, const plim__pass *p, uint32_t v, const plim__ranges *block,
                                     plim_error *err)
{
    const plim_graph *g = plan->graph;
    const uint32_t in = p->value[v].alias_of;
    const plim__pnode *n = &p->node[p->value[v].producer];
    plim__region made;
    if (is_reshaped(g, p, v)) return PLIM_OK; /* no element changes */
    plim__region_writes(g, &g->node[n->node], &n->axes, g->value[p->value[v].value].out, &block->axis[n->axis0], &made);
    const bool is_read = plim__region_count(&block->region[in]) > 0;
    PLIM_FAIL_IF(is_read && !is_same_box(&made, &block->region[in]), err, PLIM_E_PLAN,
                 "I17: a block reads another part of '%s' than it overwrites", g->value[p->value[in].value].name);
    return PLIM_OK;
}

plim_status plim__check_block_shares(const plim_plan *plan, const plim__pass *p, const plim__stage *s,
                                     const plim__ranges *block, plim_error *err)
{
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && p->node[i].out[j] != PLIM__NONE; j++)
            if (p->value[p->node[i].out[j]].alias_of != PLIM__NONE)
                PLIM_TRY(check_block_share(plan, p, p->node[i].out[j], block, err));
    return PLIM_OK;
}
