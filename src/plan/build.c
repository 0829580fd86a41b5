/* One pass, from a set of cut loops: steps 1 to 4 of 6. Stages, roles and steps are in stages.c.
 *
 * 1. classify  forwards: a node is IN the pass if its inputs are there; POST if it needs something that is complete only when some loops
 *              have ended, and itself does not move with them; else OUT, for a later pass.
 * 2. choose    roots: outputs, accumulators, and what later passes need and is worth keeping. Everything else in the pass
 *              is there only to serve a root.
 * 3. collect   nodes and values into the pass's own dense tables.
 * 4. depth     backwards: which cut loops does each axis range depend on.
 * 5. stages    neighbours that can be run together, block by block.
 * 6. roles and steps.
 *
 * The planner's own memory comes from the plan's allocator and is freed before returning. */
#include "plan/build.h"
#include "core/size.h"
#include "plan/cost.h"

#include <math.h>
#include <string.h>

typedef enum state { STATE_OUT, STATE_IN, STATE_POST } state;

/* Per loop: where tiles are multiples of so many steps, a node's ranges are just the parts of a trip. 0: they never are. */
typedef struct steps {
    int64_t of[PLIM__MAX_LOOPS];
} steps;

typedef struct builder {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__frontier *f;
    const plim__labels *labels;
    int8_t place[PLIM__MAX_LOOPS]; /* label -> loop */
    uint32_t n_cut;
    state *state;       /* [n_nodes] */
    uint8_t *depth;     /* [n_nodes] POST: where it runs; accumulating: acc_depth */
    bool *accumulates;  /* [n_nodes] */
    uint8_t *within;    /* [n_nodes] cut loops that move it, or something that it is made from inside the pass */
    bool *root, *keep;  /* [n_nodes] */
    bool *later;        /* [n_nodes] a node of a later pass reads it */
    bool *remade;       /* [n_nodes] a later pass makes it again */
    bool *again;        /* [n_nodes] scratch */
    steps *exact;       /* [n_nodes of the pass] */
    double *price;      /* [n_nodes] seconds to recompute it in a later pass */
    bool *refused;      /* [n_nodes] an update that these loops would do more than once: it is left to a later pass */
    bool *reads_old;    /* [n_nodes] making it again in a later pass would read a state that this one overwrites */
    uint32_t *pnode, *pvalue; /* graph id -> pass index */
    plim__pass *p;
    plim_error *err;
} builder;

/* ------------------------------------------------------------------------------------------- 1. classify */

/* A value whose home can be read from any pass. */
static bool at_home(const builder *b, uint32_t v)
{
    return b->plan->home[v].kind != PLIM__HOME_NOWHERE;
}

static int loop_of_axis(const builder *b, uint32_t node, uint32_t axis)
{
    const int label = b->labels->axis[node][axis];
    return label < 0 ? -1 : b->place[label];
}

/* Cut loops that move the node. */
static uint32_t moves(const builder *b, uint32_t i, const plim__axes *axes, bool reducing_only)
{
    uint32_t set = 0;
    for (uint32_t a = 0; a < axes->n; a++) {
        const int l = loop_of_axis(b, i, a);
        const bool reduces = plim__axis_reduces(axes->axis[a].kind) || axes->axis[a].kind == PLIM__SCAN;
        if (l >= 0 && (uint32_t)l < b->n_cut && (!reducing_only || reduces)) set |= 1u << l;
    }
    return set;
}

int64_t plim__common_multiple(int64_t a, int64_t b, int64_t most)
{
    if (a == 0 || b == 0) return 0;
    const int64_t times = b / plim__gcd(a, b);
    return a > most / times ? 0 : a * times;
}

/* Steps of a loop of which every multiple falls between two of `n` equal parts of its extent. */
static int64_t steps_of_part(int64_t extent, int64_t n) { return extent / plim__gcd(extent, n); }

int64_t plim__covering_steps(const plim__index *index, int64_t n, int64_t dim, int64_t extent)
{
    if (index->axis < 0 || index->offset != 0) return 0;
    if (n == dim && index->stride == 1 && index->div == 1 && index->window == 1) return 1;
    const bool touches = index->div == 1 ? index->window == index->stride : index->stride == 1 && index->window == 1;
    int64_t read, there;
    if (!touches || __builtin_mul_overflow(index->stride, n, &read) || __builtin_mul_overflow(index->div, dim, &there) || read != there) return 0;
    return plim__common_multiple(steps_of_part(extent, n), steps_of_part(extent, dim), extent);
}

/* Is what an axis of this nest reads of a dimension just as long, and in the same order? */
static bool is_plain(const plim__index *x, const plim__axes *axes, int64_t dim)
{
    return x->axis >= 0 && axes->axis[x->axis].extent == dim && x->stride == 1 && x->offset == 0 && x->div == 1 && x->window == 1;
}

/* Does node u read of its input k, in every trip of the loops `outside`, just the part of that array which node `by` has as its output j there? Nobody widens
 * that part for u. */
static bool same_part(const builder *b, uint32_t u, uint32_t k, uint32_t by, uint32_t j, uint32_t outside)
{
    const plim_shape *shape = &b->g->value[b->g->node[u].in[k]].shape;
    const plim__axes *made = &b->labels->nest->axes[by], *axes = &b->labels->nest->axes[u];
    const plim__index *index = plim__nest_reads(b->labels->nest, u, k);
    for (uint32_t d = 0; d < shape->rank; d++) {
        const int loop = made->out[j][d] < 0 ? -1 : loop_of_axis(b, by, (uint32_t)made->out[j][d]);
        if (loop < 0 || !(outside & 1u << loop)) continue;
        if (!is_plain(&index[d], axes, shape->dim[d]) || loop_of_axis(b, u, (uint32_t)index[d].axis) != loop) return false;
    }
    return true;
}

/* May node i, which runs behind others inside the loops `outside`, put its output j in the place of a state that node u reads? In an earlier pass, or in this
 * one: before all loops have ended, or in each trip just the part that is overwritten there. Only a node behind everything in the body is behind u. */
static bool is_free_of(const builder *b, uint32_t i, uint32_t j, uint32_t u, uint32_t outside, bool behind)
{
    const uint32_t in = b->g->state[b->plan->replaces[b->g->node[i].out[j]]].in;
    if (u == i || !b->f->active[u]) return true;
    if (u > i || b->state[u] == STATE_OUT || !behind) return false;
    for (uint32_t k = 0; k < b->g->node[u].n_in; k++)
        if (b->g->node[u].in[k] == in && !same_part(b, u, k, i, j, outside)) return false;
    return true;
}

/* May node i put its outputs in the place of states now? */
static bool states_are_free(const builder *b, uint32_t i, uint32_t outside, bool behind)
{
    const plim__node *n = &b->g->node[i];
    for (uint32_t j = 0; j < n->n_out; j++) {
        if (b->plan->replaces[n->out[j]] == PLIM__NONE) continue;
        const uint32_t in = b->g->state[b->plan->replaces[n->out[j]]].in;
        for (uint32_t k = b->plan->use0[in]; k < b->plan->use0[in + 1]; k++)
            if (!is_free_of(b, i, j, b->plan->use[k], outside, behind)) return false;
    }
    return true;
}

/* Does node i put something in the place of a state? */
static bool updates_state(const builder *b, uint32_t i)
{
    for (uint32_t j = 0; j < b->g->node[i].n_out; j++)
        if (b->plan->replaces[b->g->node[i].out[j]] != PLIM__NONE) return true;
    return false;
}

/* Would node i, inside the loops `around`, put its outputs in the place of states at every trip of one that does not move it, once too often? */
static bool updates_again(const builder *b, uint32_t i, uint32_t around, uint32_t moved)
{
    return updates_state(b, i) && (around & ~moved);
}

/* Do all inputs of a node that runs inside the loops `outside` only, after others, come in parts that fit it? */
static bool parts_fit(const builder *b, uint32_t i, uint32_t outside)
{
    const plim__node *n = &b->g->node[i];
    for (uint32_t k = 0; k < n->n_in; k++) {
        const uint32_t by = at_home(b, n->in[k]) ? PLIM__NONE : b->g->value[n->in[k]].node;
        if (by == PLIM__NONE || (b->state[by] != STATE_POST && !b->accumulates[by])) continue;
        if (b->within[by] & ((1u << b->depth[by]) - 1) & ~outside) return false; /* there in parts of loops that have ended */
        if (!same_part(b, i, k, by, b->g->value[n->in[k]].out, outside)) return false;
    }
    return true;
}

/* Is v scanned along a loop of this pass? A node that reads it runs when the loop has ended, and all of it has to be in memory then. */
static bool is_scanned_here(const builder *b, uint32_t v)
{
    const plim__value *x = &b->g->value[v];
    return b->accumulates[x->node] && plim__out_is_scanned(&b->labels->nest->axes[x->node], x->out, x->shape.rank);
}

/* Can a later pass read v from a file, and is it too large to be in memory whole? */
static bool is_better_on_file(const builder *b, uint32_t v)
{
    return b->g->value[v].bytes > b->f->small && (b->plan->write_file[v] != PLIM__NONE || b->f->spill_above != UINT64_MAX);
}

/* What node i reads of its input k, when nothing is cut. */
static uint64_t bytes_read(const builder *b, uint32_t i, uint32_t k)
{
    const plim__axes *axes = &b->labels->nest->axes[i];
    plim__range whole[PLIM__MAX_AXES];
    plim__region box;
    for (uint32_t a = 0; a < axes->n; a++) whole[a] = (plim__range){0, axes->axis[a].extent};
    plim__region_reads(b->g, &b->g->node[i], k, whole, &box);
    return plim__region_count(&box) * plim_dtype_bytes(b->g->value[b->g->node[i].in[k]].dtype);
}

/* Has an earlier pass made node i, with sums that this cut would round in another order? Who compares the two (where is x its own maximum?) would find them
 * different. */
static bool rounds_otherwise(const builder *b, uint32_t i)
{
    const plim__axes *axes = &b->labels->nest->axes[i];
    for (uint32_t a = 0; a < axes->n && b->f->made[i]; a++) {
        const int l = loop_of_axis(b, i, a);
        if (l >= 0 && (uint32_t)l < b->n_cut && plim__axis_rounds(axes->axis[a].kind)) return true;
    }
    return false;
}

/* Is node i left to a later pass on purpose: an update, or something that reads what one makes? */
static bool is_deferred(const builder *b, uint32_t i)
{
    if (!b->f->defer) return false;
    if (updates_state(b, i)) return true;
    for (uint32_t k = 0; k < b->g->node[i].n_in; k++) {
        const uint32_t by = b->g->value[b->g->node[i].in[k]].node;
        if (!at_home(b, b->g->node[i].in[k]) && b->state[by] == STATE_OUT) return true; /* deferred itself, or the pass is refused */
    }
    return false;
}

static void classify_node(builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    const plim__axes *axes = &b->labels->nest->axes[i];
    const uint32_t moved = moves(b, i, axes, false), reduced = moves(b, i, axes, true);
    uint32_t post = UINT32_MAX; /* the shallowest depth at which all inputs are complete */
    uint32_t deepest = 0;       /* loops that its inputs are made within */
    for (uint32_t k = 0; k < n->n_in; k++) {
        const uint32_t v = n->in[k];
        if (at_home(b, v)) {
            /* much of an array that this pass's loops do not move would have to be there all at once: it gets a pass of its own */
            if (b->n_cut > 0 && moved == 0 && b->plan->home[v].kind == PLIM__HOME_FILE && bytes_read(b, i, k) > b->f->small) return;
            continue;
        }
        const uint32_t by = b->g->value[v].node;
        if (b->state[by] == STATE_OUT || (is_scanned_here(b, v) && is_better_on_file(b, v))) return;
        if (b->state[by] == STATE_POST || b->accumulates[by]) post = post < b->depth[by] ? post : b->depth[by];
        else deepest |= b->within[by];
    }
    if (post != UINT32_MAX) {
        const uint32_t outside = (1u << post) - 1;
        if ((moved & ~outside) || (deepest & ~outside) || reduced || !parts_fit(b, i, outside) || !states_are_free(b, i, outside, true) ||
            updates_again(b, i, outside, moved))
            return;
        b->state[i] = STATE_POST;
        b->depth[i] = (uint8_t)post;
        b->within[i] = (uint8_t)(moved | deepest);
        return;
    }
    if (!states_are_free(b, i, 0, b->n_cut == 0) || rounds_otherwise(b, i)) return;
    b->state[i] = STATE_IN;
    b->within[i] = (uint8_t)(moved | deepest);
    b->accumulates[i] = reduced != 0;
    if (reduced) b->depth[i] = (uint8_t)__builtin_ctz(reduced);
}

/* ---------------------------------------------------------------------------------------------- 2. roots */

/* Seconds to recompute node i in a later pass, and with it what it reads and is not kept. Known for earlier nodes. */
static double recompute_seconds(const builder *b, uint32_t i)
{
    double seconds = b->f->work[i];
    for (uint32_t k = 0; k < b->g->node[i].n_in; k++) {
        const uint32_t v = b->g->node[i].in[k];
        if (!at_home(b, v) && !b->root[b->g->value[v].node]) seconds += b->price[b->g->value[v].node];
        else if (b->plan->home[v].kind == PLIM__HOME_FILE) seconds += plim__file_seconds(b->plan, b->g->value[v].bytes, false);
    }
    return seconds;
}

static uint64_t bytes_of(const builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    uint64_t bytes = 0;
    for (uint32_t j = 0; j < n->n_out; j++) bytes += b->g->value[n->out[j]].bytes;
    return bytes;
}

/* Seconds to write what node i makes, and to read it once. */
static double store_seconds(const builder *b, uint32_t i)
{
    const uint64_t bytes = bytes_of(b, i);
    return plim__file_seconds(b->plan, bytes, true) + plim__file_seconds(b->plan, bytes, false);
}

/* Do seconds decide whether node i is kept? */
static bool goes_by_price(const builder *b, uint32_t i)
{
    const uint64_t bytes = bytes_of(b, i);
    return b->f->work && !b->accumulates[i] && b->state[i] != STATE_POST && bytes > b->f->small && bytes > b->f->spill_above;
}

/* Is node i worth keeping for later passes, or is it cheaper to recompute it? */
static bool worth_keeping(const builder *b, uint32_t i)
{
    if (goes_by_price(b, i)) return store_seconds(b, i) < b->price[i];
    if (b->accumulates[i] || b->state[i] == STATE_POST || bytes_of(b, i) <= b->f->small) return true;
    return !(plim__op_row_of(b->g->node[i].op)->flags & PLIM__OP_CHEAP);
}

/* Does this pass put something in the place of the input v? */
static bool is_overwritten(const builder *b, uint32_t v)
{
    const uint32_t i = b->plan->state_of[v];
    if (i == PLIM__NONE) return false;
    const uint32_t by = b->g->value[b->g->state[i].out].node;
    return b->f->active[by] && b->state[by] != STATE_OUT;
}

/* Would making node i again in a later pass read a state that this one overwrites? Its inputs that are kept need not be made again. */
static bool reads_old_state(const builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    for (uint32_t k = 0; k < n->n_in; k++) {
        const uint32_t v = n->in[k];
        if (at_home(b, v) ? is_overwritten(b, v) : !b->root[b->g->value[v].node] && b->reads_old[b->g->value[v].node]) return true;
    }
    return false;
}

/* What nodes of later passes read. */
static void mark_later(builder *b)
{
    for (uint32_t i = 0; i < b->g->n_nodes; i++) {
        if (!b->f->active[i] || b->state[i] != STATE_OUT) continue;
        for (uint32_t k = 0; k < b->g->node[i].n_in; k++) {
            const uint32_t by = b->g->value[b->g->node[i].in[k]].node;
            if (!at_home(b, b->g->node[i].in[k]) && b->state[by] != STATE_OUT) b->later[by] = true;
        }
    }
}

/* What this pass makes and does not keep, though a later one needs it, itself or for something else that is not kept. */
static void mark_remade(builder *b)
{
    for (uint32_t i = b->g->n_nodes; i-- > 0;) {
        if (!b->f->active[i] || b->state[i] == STATE_OUT || b->root[i]) continue;
        b->remade[i] |= b->later[i];
        for (uint32_t k = 0; k < b->g->node[i].n_in && b->remade[i]; k++)
            if (!at_home(b, b->g->node[i].in[k])) b->remade[b->g->value[b->g->node[i].in[k]].node] = true;
    }
}

static bool is_result(const builder *b, uint32_t i)
{
    for (uint32_t j = 0; j < b->g->node[i].n_out; j++)
        if (b->plan->is_output[b->g->node[i].out[j]]) return true;
    return false;
}

/* Do later passes read v from its file anyway? */
static bool is_read_later(const builder *b, uint32_t v)
{
    for (uint32_t k = b->plan->use0[v]; k < b->plan->use0[v + 1]; k++) {
        const uint32_t u = b->plan->use[k];
        if (b->f->active[u] && (b->state[u] == STATE_OUT || b->remade[u])) return true;
    }
    return false;
}

/* Seconds by which later passes take longer if they make node i again, too, besides what they make again already. INFINITY: a state that this pass overwrites
 * would be read. @param again  set for those that they would make for it */
static double added_seconds(const builder *b, uint32_t i, bool *again)
{
    double seconds = 0;
    memset(again, 0, (i + 1) * sizeof *again);
    again[i] = true;
    for (uint32_t u = i + 1; u-- > 0;) {
        if (!again[u]) continue;
        seconds += b->f->work[u];
        for (uint32_t k = 0; k < b->g->node[u].n_in; k++) {
            const uint32_t v = b->g->node[u].in[k], by = b->g->value[v].node;
            if (!at_home(b, v)) again[by] |= !b->root[by] && !b->remade[by];
            else if (is_overwritten(b, v)) return INFINITY;
            else if (b->plan->home[v].kind == PLIM__HOME_FILE && !is_read_later(b, v)) seconds += plim__file_seconds(b->plan, b->g->value[v].bytes, false);
        }
    }
    return seconds;
}

/* The price of a node is what it takes alone. What later passes make again anyway costs those that are made from it nothing: they need not be kept, either. */
static void share_remade(builder *b)
{
    for (uint32_t i = 0; i < b->g->n_nodes; i++) {
        if (!b->root[i] || !b->later[i] || is_result(b, i) || !goes_by_price(b, i) || added_seconds(b, i, b->again) >= store_seconds(b, i)) continue;
        b->root[i] = false;
        for (uint32_t u = 0; u <= i; u++) b->remade[u] |= b->again[u];
    }
}

static void choose_roots(builder *b)
{
    const plim_graph *g = b->g;
    mark_later(b);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!b->f->active[i] || b->state[i] == STATE_OUT) continue;
        b->root[i] = is_result(b, i) || b->accumulates[i];
        b->reads_old[i] = reads_old_state(b, i);
        if (b->f->work) b->price[i] = recompute_seconds(b, i);
        if (b->later[i] && (worth_keeping(b, i) || b->reads_old[i])) b->root[i] = true;
    }
    mark_remade(b);
    if (b->f->work) share_remade(b);
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        if (b->root[i]) b->keep[i] = true;
        if (!b->keep[i]) continue;
        for (uint32_t k = 0; k < g->node[i].n_in; k++) {
            const uint32_t v = g->node[i].in[k];
            if (!at_home(b, v)) b->keep[g->value[v].node] = true;
        }
    }
}

/* -------------------------------------------------------------------------------------------- 3. collect */

/* Every use of an array in a file is a pass value of its own at first; uses that move with the same loops are joined when that is known
 * (join_reads). So x and x.T of one file are two boxes, not their hull. */
static uint32_t pass_value(builder *b, uint32_t v)
{
    if (b->pvalue[v] == PLIM__NONE || b->plan->home[v].kind == PLIM__HOME_FILE) {
        b->pvalue[v] = b->p->n_values;
        b->p->value[b->p->n_values++] = (plim__pvalue){.value = v, .slot = PLIM__NONE, .file = PLIM__NONE, .producer = PLIM__NONE, .back = PLIM__NONE, .alias_of = PLIM__NONE};
    }
    return b->pvalue[v];
}

static plim_status allocate_tables(builder *b, uint32_t nodes, uint32_t operands, uint32_t values)
{
    plim__pass *p = b->p;
    const plim__alloc *a = &b->plan->alloc;
    p->node = plim__new(a, nodes, sizeof *p->node, b->err);
    p->value = plim__new(a, values, sizeof *p->value, b->err);
    p->operand = plim__new(a, operands, sizeof *p->operand, b->err);
    p->stage = plim__new(a, nodes, sizeof *p->stage, b->err);
    p->step = plim__new(a, (uint64_t)nodes * 3 + values * 3, sizeof *p->step, b->err);
    return p->node && p->value && p->operand && p->stage && p->step ? PLIM_OK : PLIM_E_NOMEM;
}

static plim_status allocate_for_kept(builder *b)
{
    const plim_graph *g = b->g;
    uint32_t nodes = 0, operands = 0, values = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!b->keep[i]) continue;
        nodes++;
        operands += g->node[i].n_in;
        values += g->node[i].n_in + g->node[i].n_out;
    }
    return allocate_tables(b, nodes, operands, values);
}

static void collect_node(builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    plim__pass *p = b->p;
    plim__pnode *x = &p->node[p->n_nodes];
    *x = (plim__pnode){.node = i, .root = b->root[i], .accumulates = b->accumulates[i], .post = b->state[i] == STATE_POST, .axis0 = p->n_axes,
                       .in0 = p->n_operands, .remade = b->remade[i] && !b->root[i]};
    x->same_bits = x->remade || b->f->made[i];
    x->axes = b->labels->nest->axes[i];
    for (uint32_t a = 0; a < PLIM__MAX_AXES; a++) x->bind[a] = a < x->axes.n ? (int8_t)loop_of_axis(b, i, a) : -1;
    if (x->post) x->depth = b->depth[i];
    if (x->accumulates) x->acc_depth = b->depth[i];
    p->n_axes += x->axes.n;
    for (uint32_t k = 0; k < n->n_in; k++) p->operand[p->n_operands++] = pass_value(b, n->in[k]);
    for (uint32_t j = 0; j < PLIM__MAX_OUT; j++) {
        x->out[j] = j < n->n_out ? pass_value(b, n->out[j]) : PLIM__NONE;
        if (j < n->n_out) p->value[x->out[j]].producer = p->n_nodes;
    }
    b->pnode[i] = p->n_nodes++;
}

/* Body first, then post nodes by falling depth: the order in which they run. Both keep the graph's order, which is topological. */
static void collect(builder *b)
{
    for (uint32_t i = 0; i < b->g->n_nodes; i++)
        if (b->keep[i] && b->state[i] == STATE_IN) collect_node(b, i);
    for (int d = (int)b->n_cut; d >= 0; d--)
        for (uint32_t i = 0; i < b->g->n_nodes; i++)
            if (b->keep[i] && b->state[i] == STATE_POST && b->depth[i] == d) collect_node(b, i);
}

/* ---------------------------------------------------------------------------------------------- 4. depth */

static uint8_t depth_of(uint32_t needs)
{
    return needs ? (uint8_t)(32 - __builtin_clz(needs)) : 0;
}

/* Every loop that a range may depend on: the same walk as below without its exceptions, so it may find too many. */
static void find_movers(builder *b)
{
    plim__pass *p = b->p;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        plim__pnode *x = &p->node[i];
        const plim__node *n = &b->g->node[x->node];
        for (uint32_t a = 0; a < x->axes.n; a++) x->moved_by[a] = x->root && x->bind[a] >= 0 ? (uint8_t)(1u << x->bind[a]) : 0;
        for (uint32_t j = 0; j < n->n_out; j++)
            for (uint32_t d = 0; d < b->g->value[n->out[j]].shape.rank; d++) {
                if (x->axes.out[j][d] < 0) continue;
                for (uint32_t v = x->out[j]; v != PLIM__NONE; v = p->value[v].back) x->moved_by[x->axes.out[j][d]] |= p->value[v].moved_by[d];
            }
        for (uint32_t k = 0; k < n->n_in; k++) {
            const plim__index *index = plim__nest_reads(p->nest, x->node, k);
            for (uint32_t d = 0; d < b->g->value[n->in[k]].shape.rank; d++)
                if (index[d].axis >= 0) p->value[p->operand[x->in0 + k]].moved_by[d] |= x->moved_by[index[d].axis];
        }
        for (uint32_t j = 0; j < n->n_out; j++) /* a root writes what its own axes say; what is read back is what was spilled */
            for (uint32_t d = 0; d < b->g->value[n->out[j]].shape.rank; d++)
                for (uint32_t v = x->out[j]; v != PLIM__NONE && x->axes.out[j][d] >= 0; v = p->value[v].back)
                    p->value[v].moved_by[d] |= x->moved_by[x->axes.out[j][d]];
    }
}

/* Which cut loops does each dimension of each value depend on: the same walk as plim__pass_regions, with sets for ranges. */
static void find_depths(builder *b, uint8_t (*dim_needs)[PLIM_MAX_RANK])
{
    plim__pass *p = b->p;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        plim__pnode *x = &p->node[i];
        const plim__node *n = &b->g->node[x->node];
        uint32_t all = 0;
        for (uint32_t a = 0; a < x->axes.n; a++) {
            const int l = x->bind[a];
            uint32_t needs = x->root && l >= 0 && (uint32_t)l < b->n_cut ? 1u << l : 0;
            for (uint32_t j = 0; j < n->n_out && !x->accumulates; j++)
                for (uint32_t d = 0; d < b->g->value[n->out[j]].shape.rank; d++)
                    if (x->axes.out[j][d] == (int)a) needs |= dim_needs[x->out[j]][d];
            if (x->post) needs &= (1u << x->depth) - 1;
            x->needs[a] = (uint8_t)needs;
            all |= needs;
        }
        if (!x->post) x->depth = depth_of(all);
        for (uint32_t k = 0; k < n->n_in; k++) {
            const uint32_t v = p->operand[x->in0 + k];
            const plim__index *index = plim__nest_reads(b->labels->nest, x->node, k);
            for (uint32_t d = 0; d < b->g->value[n->in[k]].shape.rank; d++)
                if (index[d].axis >= 0) dim_needs[v][d] |= x->needs[index[d].axis];
        }
    }
    find_movers(b);
    for (uint32_t v = 0; v < p->n_values; v++) {
        uint32_t all = 0;
        for (uint32_t d = 0; d < PLIM_MAX_RANK; d++) all |= dim_needs[v][d];
        const uint32_t by = p->value[v].producer;
        if (by != PLIM__NONE) /* a root writes what its own axes say */
            for (uint32_t a = 0; a < p->node[by].axes.n; a++)
                if (!plim__axis_reduces(p->node[by].axes.axis[a].kind)) all |= p->node[by].needs[a];
        p->value[v].depth = depth_of(all);
    }
    /* A node runs no shallower than what it reads is there. Roots that are not moved by a loop their inputs need stay outside it. */
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pnode *x = &p->node[i];
        for (uint32_t k = 0; k < b->g->node[x->node].n_in && !x->post; k++) {
            const plim__pvalue *v = &p->value[p->operand[x->in0 + k]];
            if (v->producer != PLIM__NONE && !p->node[v->producer].post && !p->node[v->producer].accumulates && p->node[v->producer].depth > x->depth)
                x->depth = p->node[v->producer].depth;
        }
    }
}

/* A loop that moves nothing is not worth turning. One inside an accumulator's loops that does not move the accumulator would have it add
 * the same part again at every trip; one that does not move an update would have it done again.
 * @param again  set to an update for which the pass is unsound, and which a later pass can do as well; or PLIM__NONE */
static bool loops_are_sound(const builder *b, uint32_t *again)
{
    *again = PLIM__NONE;
    const plim__pass *p = b->p;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *x = &p->node[i];
        uint32_t needs = 0;
        for (uint32_t a = 0; a < x->axes.n; a++) needs |= x->needs[a];
        moved |= needs;
        for (uint32_t l = x->acc_depth; l < x->depth && x->accumulates; l++)
            if (!(needs & (1u << l))) return false;
        if (updates_again(b, x->node, (1u << x->depth) - 1, needs)) {
            *again = x->node;
            return false;
        }
    }
    return moved == (1u << p->n_cut) - 1;
}

/* Of how many steps does a trip have to be a multiple, so that what pass node i reads of its input k along dimension d is just the trip's part of it? 0: never. */
static int64_t reads_exactly(const builder *b, uint32_t i, uint32_t k, uint32_t d, int loop)
{
    const plim__pnode *x = &b->p->node[i];
    const plim__index *index = &plim__nest_reads(b->labels->nest, x->node, k)[d];
    const int64_t dim = b->g->value[b->g->node[x->node].in[k]].shape.dim[d], all = b->p->loop[loop].extent;
    if (index->axis < 0 || x->bind[index->axis] != loop) return 0;
    return plim__common_multiple(b->exact[i].of[loop], plim__covering_steps(index, x->axes.axis[index->axis].extent, dim, all), all);
}

/* Along which loops, and for which tiles, are the ranges of each node just the trip's parts: nobody who reads what it makes widens them. */
static void find_exact(builder *b)
{
    const plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t l = 0; l < PLIM__MAX_LOOPS; l++) b->exact[i].of[l] = 1;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const plim__node *n = &b->g->node[p->node[i].node];
        for (uint32_t k = 0; k < n->n_in; k++) {
            const plim__pvalue *v = &p->value[p->operand[p->node[i].in0 + k]];
            if (v->producer == PLIM__NONE) continue;
            const plim__pnode *by = &p->node[v->producer];
            PLIM_ASSERT(v->producer < i);
            for (uint32_t d = 0; d < b->g->value[v->value].shape.rank; d++) {
                const int a = by->axes.out[b->g->value[v->value].out][d], loop = a < 0 ? -1 : by->bind[a];
                if (loop < 0 || (uint32_t)loop >= b->n_cut) continue;
                int64_t *made = &b->exact[v->producer].of[loop];
                *made = plim__common_multiple(*made, reads_exactly(b, i, k, d, loop), p->loop[loop].extent);
            }
        }
    }
}

/* Does everybody in the pass who reads a state that node x overwrites inside loops read no more of it than their trip's part, with the tiles that the loops are
 * then told to have? Whether somebody widens what a reader makes is known only here. */
static bool overwrites_alone(const builder *b, const plim__pnode *x)
{
    const plim__node *n = &b->g->node[x->node];
    for (uint32_t j = 0; j < n->n_out; j++) {
        if (b->plan->replaces[n->out[j]] == PLIM__NONE) continue;
        const uint32_t in = b->g->state[b->plan->replaces[n->out[j]]].in;
        for (uint32_t k = b->plan->use0[in]; k < b->plan->use0[in + 1]; k++) {
            const uint32_t u = b->plan->use[k];
            for (uint32_t l = 0; l < x->depth && u != x->node && b->keep[u]; l++) {
                plim__loop *loop = &b->p->loop[l];
                const int64_t least = plim__common_multiple(loop->least, b->exact[b->pnode[u]].of[l], loop->extent - 1);
                if (least == 0) return false;
                loop->least = least;
            }
        }
    }
    return true;
}

/* @param again  set to an update that has to be left to a later pass; or PLIM__NONE */
static bool updates_are_sound(builder *b, uint32_t *again)
{
    *again = PLIM__NONE;
    bool any = false;
    for (uint32_t i = 0; i < b->p->n_nodes; i++) any |= b->p->node[i].depth > 0 && updates_state(b, b->p->node[i].node);
    if (!any) return true;
    find_exact(b);
    for (uint32_t i = 0; i < b->p->n_nodes; i++) {
        const plim__pnode *x = &b->p->node[i];
        if (x->depth == 0 || !updates_state(b, x->node) || overwrites_alone(b, x)) continue;
        *again = x->node;
        return false;
    }
    return true;
}

/* Joins uses of one file whose dimensions move with the same loops: one box, the hull, serves them all.
 * @param to, before  scratch, n_values each: where a value went; an earlier use of the same file, kept and seen from where it went */
static void join_reads(builder *b, uint8_t (*dim_needs)[PLIM_MAX_RANK], uint32_t *to, uint32_t *before)
{
    plim__pass *p = b->p;
    uint32_t n = 0;
    memset(b->pvalue, 0xff, b->g->n_values * sizeof *b->pvalue); /* from here on: the last use of a file that was kept */
    for (uint32_t i = 0; i < p->n_values; i++) {
        uint32_t *last = &b->pvalue[p->value[i].value], same = PLIM__NONE;
        if (p->value[i].producer == PLIM__NONE)
            for (same = *last; same != PLIM__NONE && memcmp(dim_needs[same], dim_needs[i], sizeof *dim_needs) != 0;) same = before[same];
        to[i] = same;
        for (uint32_t d = 0; d < PLIM_MAX_RANK && same != PLIM__NONE; d++) p->value[same].moved_by[d] |= p->value[i].moved_by[d];
        if (same != PLIM__NONE) continue;
        memcpy(dim_needs[n], dim_needs[i], sizeof *dim_needs);
        p->value[n] = p->value[i];
        before[n] = *last;
        if (p->value[n].producer == PLIM__NONE) *last = n;
        to[i] = n++;
    }
    p->n_values = n;
    for (uint32_t i = 0; i < p->n_operands; i++) p->operand[i] = to[p->operand[i]];
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && p->node[i].out[j] != PLIM__NONE; j++) p->node[i].out[j] = to[p->node[i].out[j]];
}

/* ------------------------------------------------------------------------------------------------ the whole */

static plim_status new_builder(builder *b)
{
    const plim__alloc *a = &b->plan->alloc;
    const uint32_t n = b->g->n_nodes;
    b->state = plim__new(a, n, sizeof *b->state, b->err);
    b->depth = plim__new(a, n, sizeof *b->depth, b->err);
    b->accumulates = plim__new(a, n, sizeof *b->accumulates, b->err);
    b->within = plim__new(a, n, sizeof *b->within, b->err);
    b->root = plim__new(a, n, sizeof *b->root, b->err);
    b->keep = plim__new(a, n, sizeof *b->keep, b->err);
    b->later = plim__new(a, n, sizeof *b->later, b->err);
    b->remade = plim__new(a, n, sizeof *b->remade, b->err);
    b->again = plim__new(a, n, sizeof *b->again, b->err);
    b->exact = plim__new(a, n, sizeof *b->exact, b->err);
    b->reads_old = plim__new(a, n, sizeof *b->reads_old, b->err);
    b->refused = plim__new(a, n, sizeof *b->refused, b->err);
    b->price = plim__new(a, n, sizeof *b->price, b->err);
    b->pnode = plim__new(a, n, sizeof *b->pnode, b->err);
    b->pvalue = plim__new(a, b->g->n_values, sizeof *b->pvalue, b->err);
    if (!b->state || !b->depth || !b->accumulates || !b->within || !b->root || !b->keep || !b->later || !b->remade ||
        !b->again || !b->exact || !b->reads_old || !b->refused || !b->price ||
        !b->pnode || !b->pvalue)
        return PLIM_E_NOMEM;
    memset(b->pnode, 0xff, n * sizeof *b->pnode);
    memset(b->pvalue, 0xff, b->g->n_values * sizeof *b->pvalue);
    return PLIM_OK;
}

/* Forgets everything but what was refused. */
static void reset_builder(builder *b)
{
    const uint32_t n = b->g->n_nodes;
    memset(b->state, 0, n * sizeof *b->state);
    memset(b->depth, 0, n * sizeof *b->depth);
    memset(b->accumulates, 0, n * sizeof *b->accumulates);
    memset(b->within, 0, n * sizeof *b->within);
    memset(b->root, 0, n * sizeof *b->root);
    memset(b->keep, 0, n * sizeof *b->keep);
    memset(b->later, 0, n * sizeof *b->later);
    memset(b->remade, 0, n * sizeof *b->remade);
    memset(b->reads_old, 0, n * sizeof *b->reads_old);
    memset(b->price, 0, n * sizeof *b->price);
    memset(b->pnode, 0xff, n * sizeof *b->pnode);
    memset(b->pvalue, 0xff, b->g->n_values * sizeof *b->pvalue);
    plim__pass_free(&b->plan->alloc, b->p);
    *b->p = (plim__pass){.nest = &b->plan->nest};
}

static void free_builder(builder *b)
{
    const plim__alloc *a = &b->plan->alloc;
    plim__free(a, b->state);
    plim__free(a, b->depth);
    plim__free(a, b->accumulates);
    plim__free(a, b->within);
    plim__free(a, b->root);
    plim__free(a, b->keep);
    plim__free(a, b->later);
    plim__free(a, b->remade);
    plim__free(a, b->again);
    plim__free(a, b->exact);
    plim__free(a, b->reads_old);
    plim__free(a, b->refused);
    plim__free(a, b->price);
    plim__free(a, b->pnode);
    plim__free(a, b->pvalue);
}

static void set_loops(builder *b, uint32_t cut, const uint8_t *order)
{
    plim__pass *p = b->p;
    p->n_loops = b->labels->n;
    b->n_cut = (uint32_t)__builtin_popcount(cut);
    for (uint32_t l = 0; l < p->n_loops; l++) {
        p->loop[l] = (plim__loop){.extent = b->labels->extent[order[l]], .tile = b->labels->extent[order[l]], .grain = b->labels->grain[order[l]], .least = 1};
        b->place[order[l]] = (int8_t)l;
    }
    p->n_cut = b->n_cut;
}

static plim_status find_depths_of(builder *b)
{
    const plim__alloc *a = &b->plan->alloc;
    uint8_t(*needs)[PLIM_MAX_RANK] = plim__new(a, b->p->n_values, sizeof *needs, b->err);
    uint32_t *to = plim__new(a, 2 * (uint64_t)b->p->n_values, sizeof *to, b->err);
    if (needs && to) {
        find_depths(b, needs);
        join_reads(b, needs, to, to + b->p->n_values);
    }
    const plim_status status = needs && to ? PLIM_OK : PLIM_E_NOMEM;
    plim__free(a, needs);
    plim__free(a, to);
    return status;
}

/* Steps 1 to 4. PLIM_E_PLAN, without a message, where there is no such pass.
 * @param again  as of loops_are_sound */
static plim_status build_nodes(builder *b, uint32_t cut, const uint8_t *order, uint32_t *again)
{
    *again = PLIM__NONE;
    set_loops(b, cut, order);
    for (uint32_t i = 0; i < b->g->n_nodes; i++) {
        if (!b->f->active[i]) continue;
        const bool deferred = i >= b->f->end || is_deferred(b, i);
        if (!deferred && !b->refused[i]) classify_node(b, i);
        if (b->state[i] == STATE_OUT && b->f->complete && !deferred) return PLIM_E_PLAN;
    }
    choose_roots(b);
    PLIM_TRY(allocate_for_kept(b));
    collect(b);
    if (b->p->n_nodes == 0) return PLIM_E_PLAN;
    PLIM_TRY(find_depths_of(b));
    return loops_are_sound(b, again) && updates_are_sound(b, again) ? PLIM_OK : PLIM_E_PLAN;
}

plim_status plim__pass_build(plim__pass *out, const plim_plan *plan, const plim__frontier *f, const plim__labels *labels, uint32_t cut,
                             const uint8_t *order, plim_error *err)
{
    *out = (plim__pass){.nest = &plan->nest};
    builder b = {.plan = plan, .g = plan->graph, .f = f, .labels = labels, .p = out, .err = err};
    uint32_t again;
    plim_status status = new_builder(&b);
    if (status != PLIM_OK) goto done;
    while ((status = build_nodes(&b, cut, order, &again)) == PLIM_E_PLAN && again != PLIM__NONE && !f->complete) {
        PLIM_ASSERT(!b.refused[again]); /* one more each time, so this ends */
        b.refused[again] = true;
        reset_builder(&b);
    }
    if (status != PLIM_OK) goto done;
    PLIM_TRY_DONE(plim__pass_stages(out, plan, f, b.pnode, err));
done:
    free_builder(&b);
    if (status != PLIM_OK) plim__pass_free(&plan->alloc, out);
    return status;
}

/* The instances of a schedule as the values of the pass. */
static void collect_instances(plim__pass *p, const plim__pass *t, const plim__schedule *s)
{
    for (uint32_t i = 0; i < s->n_instances; i++) {
        const plim__instance *x = &s->instance[i];
        plim__pvalue *v = &p->value[i];
        *v = t->value[x->value];
        memset(v->moved_by, 0, sizeof v->moved_by);
        v->slot = v->foreign && x->item == PLIM__NONE ? v->slot : PLIM__NONE;
        v->file = PLIM__NONE;
        v->producer = x->item;
        v->again = x->again;
        v->spill = x->spill || x->back_of != PLIM__NONE;
        v->flat = v->spill;
        v->streamed = x->streamed;
        v->ahead = v->beside = false;
        v->back = PLIM__NONE;
        PLIM_ASSERT(x->back_of == PLIM__NONE || (x->back_of < i && x->item == PLIM__NONE && s->instance[x->back_of].spill));
    }
    for (uint32_t i = s->n_instances; i-- > 0;) { /* what is read back, in a chain from what was spilled */
        const uint32_t of = s->instance[i].back_of;
        if (of == PLIM__NONE) continue;
        p->value[i].back = p->value[of].back;
        p->value[of].back = i;
    }
    p->n_values = s->n_instances;
}

/* Items are the pass's nodes. The template knows where in the loops each runs; what runs again makes what its readers ask for. */
static void collect_items(builder *b, const plim__pass *t, const plim__schedule *s)
{
    plim__pass *p = b->p;
    for (uint32_t i = 0; i < s->n_items; i++) {
        const plim__item *x = &s->item[i];
        plim__pnode *n = &p->node[i];
        *n = t->node[x->node];
        memset(n->moved_by, 0, sizeof n->moved_by);
        n->root = n->root && !p->value[x->out[0]].again;
        n->axis0 = p->n_axes;
        n->in0 = x->in0;
        memcpy(n->out, x->out, sizeof n->out);
        p->n_axes += n->axes.n;
        if (b->pnode[n->node] != PLIM__NONE) n->same_bits = p->node[b->pnode[n->node]].same_bits = true;
        if (!p->value[x->out[0]].again) b->pnode[n->node] = i;
    }
    memcpy(p->operand, s->operand, s->n_operands * sizeof *p->operand);
    p->n_nodes = s->n_items;
    p->n_operands = s->n_operands;
}

plim_status plim__pass_build_scheduled(plim__pass *out, const plim_plan *plan, const plim__frontier *f, const plim__pass *template,
                                       const plim__schedule *s, plim_error *err)
{
    *out = (plim__pass){.nest = &plan->nest, .n_loops = template->n_loops, .n_cut = template->n_cut};
    memcpy(out->loop, template->loop, sizeof out->loop);
    builder b = {.plan = plan, .g = plan->graph, .f = f, .p = out, .n_cut = template->n_cut, .err = err};
    plim_status status = new_builder(&b);
    if (status != PLIM_OK) goto done;
    PLIM_TRY_DONE(allocate_tables(&b, s->n_items, s->n_operands, s->n_instances));
    collect_instances(out, template, s);
    collect_items(&b, template, s);
    find_movers(&b);
    PLIM_TRY_DONE(plim__pass_stages(out, plan, f, b.pnode, err));
done:
    free_builder(&b);
    if (status != PLIM_OK) plim__pass_free(&plan->alloc, out);
    return status;
}

/* Nodes that some output still needs and whose values have no home. */
static void mark_active(const plim_plan *plan, plim__frontier *f)
{
    const plim_graph *g = plan->graph;
    memset(f->active, 0, g->n_nodes * sizeof *f->active);
    for (uint32_t v = 0; v < g->n_values; v++)
        if (plan->is_output[v] && plan->home[v].kind == PLIM__HOME_NOWHERE) f->active[g->value[v].node] = true;
    for (uint32_t i = g->n_nodes; i-- > 0;)
        for (uint32_t k = 0; f->active[i] && k < g->node[i].n_in; k++) {
            const uint32_t v = g->node[i].in[k];
            if (plan->home[v].kind == PLIM__HOME_NOWHERE) f->active[g->value[v].node] = true;
        }
}

plim_status plim__frontier_update(const plim_plan *plan, plim__frontier *f)
{
    const plim_graph *g = plan->graph;
    mark_active(plan, f);
    for (uint32_t v = 0; v < g->n_values; v++)
        f->on_file[v] = plan->home[v].kind == PLIM__HOME_FILE || plan->write_file[v] != PLIM__NONE;
    return PLIM_OK;
}

/* A file of our own for a value that later passes read, or for what a pass itself spills and reads back. */
static plim_status add_spill(plim_plan *plan, plim__pvalue *v, plim_error *err)
{
    PLIM_TRY(plim__grow(&plan->alloc, (void **)&plan->file, &plan->cap_files, plan->n_files + 1, sizeof *plan->file, err));
    plim__file f = {.kind = PLIM__FILE_SPILL, .value = v->value, .path = plan->set.spill_dir,
                    .bytes = v->flat ? plan->slot[v->slot].bytes : plan->graph->value[v->value].bytes};
    const uint64_t offset = plan->own_bytes;
    plim__file_take_room(plan, &f);
    if (v->flat) plim__file_describe_flat(&f.io, offset, f.bytes);
    else plan->write_file[v->value] = plan->n_files;
    v->file = plan->n_files;
    plan->file[plan->n_files++] = f;
    return PLIM_OK;
}

plim_status plim__pass_settle(plim_plan *plan, plim__frontier *f, plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        plim__pvalue *v = &p->value[i];
        plim__home *home = &plan->home[v->value];
        if (v->producer == PLIM__NONE) continue;
        if (v->spill) PLIM_TRY(add_spill(plan, v, err));
        for (uint32_t r = v->back; r != PLIM__NONE; r = p->value[r].back) p->value[r].file = v->file;
        if (v->role == PLIM__ROLE_WHOLE) *home = (plim__home){.kind = PLIM__HOME_ARENA, .slot = v->slot, .file = v->file};
        else if (v->file != PLIM__NONE && !v->flat) *home = (plim__home){.kind = PLIM__HOME_FILE, .slot = PLIM__NONE, .file = v->file};
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) f->made[p->node[i].node] = true;
    return plim__frontier_update(plan, f);
}

void plim__file_take_room(plim_plan *plan, plim__file *f)
{
    plim__file_describe(&f->io, plan->graph, f->value, plan->own_bytes);
    f->io.path = f->path;
    f->io.writable = true;
    plan->own_bytes = plim__round_up(plan->own_bytes + f->bytes, PLIM__IO_ALIGN);
}

void plim__file_describe_flat(plim__io_file *f, uint64_t offset, uint64_t bytes)
{
    f->offset = offset;
    f->limit = offset + bytes;
    f->element = 1;
    f->shape = (plim_shape){.rank = 1, .dim = {(int64_t)bytes}};
    f->stride[0] = 1;
}

void plim__file_describe(plim__io_file *f, const plim_graph *g, uint32_t value, uint64_t offset)
{
    const plim__value *v = &g->value[value];
    *f = (plim__io_file){.fd = -1, .offset = offset, .limit = offset + v->bytes, .element = (uint32_t)plim_dtype_bytes(v->dtype), .shape = v->shape};
    int64_t stride = 1;
    for (uint32_t d = v->shape.rank; d-- > 0;) {
        f->stride[d] = stride;
        stride *= v->shape.dim[d] ? v->shape.dim[d] : 1;
    }
}

void plim__pass_free(const plim__alloc *a, plim__pass *p)
{
    plim__free(a, p->node);
    plim__free(a, p->value);
    plim__free(a, p->operand);
    plim__free(a, p->stage);
    plim__free(a, p->step);
    *p = (plim__pass){0};
}
