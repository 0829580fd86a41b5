/* One pass, from a set of cut loops.
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

#include <string.h>

#define HEAVY_COPY (1u << 20) /* bytes of accumulators above which another copy per thread is avoided */

typedef enum state { STATE_OUT, STATE_IN, STATE_POST } state;

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
    bool *root, *keep;  /* [n_nodes] */
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

static void classify_node(builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    plim__axes axes = {0};
    plim__op_row_of(n->op)->axes(b->g, n, &axes);
    const uint32_t moved = moves(b, i, &axes, false), reduced = moves(b, i, &axes, true);
    uint32_t post = UINT32_MAX; /* the shallowest depth at which all inputs are complete */
    uint32_t deepest = 0;       /* loops that its inputs inside the pass move with */
    for (uint32_t k = 0; k < n->n_in; k++) {
        const uint32_t v = n->in[k];
        if (at_home(b, v)) {
            /* a large array that this pass's loops do not move would have to be read whole: it gets a pass of its own */
            if (b->n_cut > 0 && moved == 0 && b->plan->home[v].kind == PLIM__HOME_FILE && b->g->value[v].bytes > b->f->small) return;
            continue;
        }
        const uint32_t by = b->g->value[v].node;
        if (b->state[by] == STATE_OUT) return;
        if (b->state[by] == STATE_POST || b->accumulates[by]) post = post < b->depth[by] ? post : b->depth[by];
        else {
            plim__axes x = {0};
            plim__op_row_of(b->g->node[by].op)->axes(b->g, &b->g->node[by], &x);
            deepest |= moves(b, by, &x, false);
        }
    }
    if (post != UINT32_MAX) {
        const uint32_t outside = (1u << post) - 1;
        if ((moved & ~outside) || (deepest & ~outside) || reduced) return;
        b->state[i] = STATE_POST;
        b->depth[i] = (uint8_t)post;
        return;
    }
    b->state[i] = STATE_IN;
    b->accumulates[i] = reduced != 0;
    if (reduced) b->depth[i] = (uint8_t)__builtin_ctz(reduced);
}

/* ---------------------------------------------------------------------------------------------- 2. roots */

static bool is_output(const plim_graph *g, uint32_t v)
{
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->output[i].value == v) return true;
    return false;
}

/* Is node i worth keeping for later passes, or is it cheaper to make it again? */
static bool worth_keeping(const builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    if (b->accumulates[i] || b->state[i] == STATE_POST || !(plim__op_row_of(n->op)->flags & PLIM__OP_CHEAP)) return true;
    uint64_t bytes = 0;
    for (uint32_t j = 0; j < n->n_out; j++) bytes += b->g->value[n->out[j]].bytes;
    return bytes <= b->f->small;
}

static void choose_roots(builder *b)
{
    const plim_graph *g = b->g;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!b->f->active[i] || b->state[i] == STATE_OUT) continue;
        for (uint32_t j = 0; j < g->node[i].n_out; j++)
            if (is_output(g, g->node[i].out[j])) b->root[i] = true;
        if (b->accumulates[i]) b->root[i] = true;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) { /* what nodes of later passes read */
        if (!b->f->active[i] || b->state[i] != STATE_OUT) continue;
        for (uint32_t k = 0; k < g->node[i].n_in; k++) {
            const uint32_t by = g->value[g->node[i].in[k]].node;
            if (by == PLIM__NONE || at_home(b, g->node[i].in[k]) || b->state[by] == STATE_OUT) continue;
            if (worth_keeping(b, by)) b->root[by] = true;
        }
    }
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
        b->p->value[b->p->n_values++] = (plim__pvalue){.value = v, .slot = PLIM__NONE, .file = PLIM__NONE, .producer = PLIM__NONE};
    }
    return b->pvalue[v];
}

static plim_status allocate_tables(builder *b)
{
    const plim_graph *g = b->g;
    plim__pass *p = b->p;
    uint32_t nodes = 0, operands = 0, values = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!b->keep[i]) continue;
        nodes++;
        operands += g->node[i].n_in;
        values += g->node[i].n_in + g->node[i].n_out;
    }
    const plim__alloc *a = &b->plan->alloc;
    p->node = plim__new(a, nodes, sizeof *p->node, b->err);
    p->value = plim__new(a, values, sizeof *p->value, b->err);
    p->operand = plim__new(a, operands, sizeof *p->operand, b->err);
    p->stage = plim__new(a, nodes, sizeof *p->stage, b->err);
    p->step = plim__new(a, (uint64_t)nodes * 3 + values * 2, sizeof *p->step, b->err);
    return p->node && p->value && p->operand && p->stage && p->step ? PLIM_OK : PLIM_E_NOMEM;
}

static void collect_node(builder *b, uint32_t i)
{
    const plim__node *n = &b->g->node[i];
    plim__pass *p = b->p;
    plim__pnode *x = &p->node[p->n_nodes];
    *x = (plim__pnode){.node = i, .root = b->root[i], .accumulates = b->accumulates[i], .post = b->state[i] == STATE_POST, .axis0 = p->n_axes,
                       .in0 = p->n_operands};
    plim__op_row_of(n->op)->axes(b->g, n, &x->axes);
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
            plim__index index[PLIM_MAX_RANK];
            plim__op_row_of(n->op)->reads(b->g, n, k, index);
            for (uint32_t d = 0; d < b->g->value[n->in[k]].shape.rank; d++)
                if (index[d].axis >= 0) dim_needs[v][d] |= x->needs[index[d].axis];
        }
    }
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
 * the same part again at every trip. */
static bool loops_are_sound(const plim__pass *p)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *x = &p->node[i];
        uint32_t needs = 0;
        for (uint32_t a = 0; a < x->axes.n; a++) needs |= x->needs[a];
        moved |= needs;
        for (uint32_t l = x->acc_depth; l < x->depth && x->accumulates; l++)
            if (!(needs & (1u << l))) return false;
    }
    return moved == (1u << p->n_cut) - 1;
}

/* Joins uses of one file whose dimensions move with the same loops: one box, the hull, serves them all. */
static void join_reads(builder *b, uint8_t (*dim_needs)[PLIM_MAX_RANK], uint32_t *to)
{
    plim__pass *p = b->p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        to[i] = PLIM__NONE;
        for (uint32_t j = 0; j < i && to[i] == PLIM__NONE && p->value[i].producer == PLIM__NONE; j++)
            if (p->value[to[j]].value == p->value[i].value && p->value[to[j]].producer == PLIM__NONE &&
                memcmp(dim_needs[to[j]], dim_needs[i], sizeof *dim_needs) == 0)
                to[i] = to[j];
        if (to[i] != PLIM__NONE) continue;
        memcpy(dim_needs[n], dim_needs[i], sizeof *dim_needs);
        p->value[n] = p->value[i];
        to[i] = n++;
    }
    p->n_values = n;
    for (uint32_t i = 0; i < p->n_operands; i++) p->operand[i] = to[p->operand[i]];
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && p->node[i].out[j] != PLIM__NONE; j++) p->node[i].out[j] = to[p->node[i].out[j]];
}

/* --------------------------------------------------------------------------------------------- 5. stages */

static bool binds(const plim__pnode *x, int loop)
{
    for (uint32_t a = 0; a < x->axes.n; a++)
        if (x->bind[a] == loop) return true;
    return false;
}

static plim__axis_kind kind_on(const plim__pnode *x, int loop)
{
    for (uint32_t a = 0; a < x->axes.n; a++)
        if (x->bind[a] == loop) return x->axes.axis[a].kind;
    return PLIM__WHOLE;
}

static bool reads_from_stage(const builder *b, const plim__pnode *x, uint32_t first, uint32_t end, uint32_t *which)
{
    for (uint32_t k = 0; k < b->g->node[x->node].n_in; k++) {
        const uint32_t by = b->p->value[b->p->operand[x->in0 + k]].producer;
        if (by != PLIM__NONE && by >= first && by < end) {
            *which = by;
            return true;
        }
    }
    return false;
}

/* Loops along which the nodes [first, end) may be cut into independent blocks: every node has it; none that reduces or scans along it is read
 * inside the stage; a scan is not cut at all. */
static uint32_t splittable(const builder *b, uint32_t first, uint32_t end)
{
    const plim__pass *p = b->p;
    uint32_t set = (1u << p->n_loops) - 1;
    for (uint32_t i = first; i < end; i++)
        for (uint32_t l = 0; l < p->n_loops; l++) {
            const plim__pnode *x = &p->node[i];
            if (!binds(x, (int)l) || kind_on(x, (int)l) == PLIM__SCAN) set &= ~(1u << l);
        }
    for (uint32_t i = first; i < end; i++)
        for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in; k++) {
            const uint32_t by = p->value[p->operand[p->node[i].in0 + k]].producer;
            if (by == PLIM__NONE || by < first) continue;
            for (uint32_t l = 0; l < p->n_loops; l++)
                if (plim__axis_reduces(kind_on(&p->node[by], (int)l))) set &= ~(1u << l);
        }
    return set;
}

static bool is_pool(const builder *b, const plim__pnode *x)
{
    return plim__op_row_of(b->g->node[x->node].op)->flags & PLIM__OP_POOL;
}

/* Two nodes of one stage: same depth, and an accumulator is read only after its loops. */
static bool may_join(const builder *b, const plim__stage *s, uint32_t i)
{
    const plim__pnode *x = &b->p->node[i];
    if (s->pool || is_pool(b, x) || x->depth != s->depth || x->post != s->post) return false;
    for (uint32_t k = 0; k < b->g->node[x->node].n_in; k++) {
        const uint32_t by = b->p->value[b->p->operand[x->in0 + k]].producer;
        if (by != PLIM__NONE && by >= s->first && b->p->node[by].accumulates) return false;
    }
    return splittable(b, s->first, i + 1) != 0;
}

static void form_stages(builder *b, const bool *wall)
{
    plim__pass *p = b->p;
    p->n_stages = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__stage *s = p->n_stages ? &p->stage[p->n_stages - 1] : NULL;
        if (!s || wall[i] || !may_join(b, s, i)) {
            s = &p->stage[p->n_stages++];
            *s = (plim__stage){.first = i, .depth = p->node[i].depth, .post = p->node[i].post, .pool = is_pool(b, &p->node[i]), .split = -1,
                               .blocks = 1, .slot = PLIM__NONE};
        }
        s->count++;
        p->node[i].stage = p->n_stages - 1;
    }
}

/* Which loops the stage may be cut along, and which of them make private copies of large accumulators. measure.c picks one, when it knows
 * the tiles. */
static void find_splits(builder *b, plim__stage *s)
{
    if (s->pool) return;
    s->split_set = (uint8_t)splittable(b, s->first, s->first + s->count);
    for (uint32_t l = 0; l < b->p->n_loops; l++) {
        uint64_t copies = 0;
        for (uint32_t i = s->first; i < s->first + s->count; i++) {
            const plim__pnode *x = &b->p->node[i];
            if (!plim__axis_reduces(kind_on(x, (int)l))) continue;
            for (uint32_t j = 0; j < b->g->node[x->node].n_out; j++) copies += b->g->value[b->g->node[x->node].out[j]].bytes;
        }
        if (copies > HEAVY_COPY) s->split_heavy |= (uint8_t)(1u << l);
    }
}

/* ------------------------------------------------------------------------------------- 6. roles and steps */

static bool used_outside_stage(const builder *b, uint32_t v, uint32_t stage)
{
    const plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in; k++)
            if (p->operand[p->node[i].in0 + k] == v && p->node[i].stage != stage) return true;
    return false;
}

static bool used_later(const builder *b, uint32_t graph_value)
{
    for (uint32_t i = 0; i < b->g->n_nodes; i++) {
        if (!b->f->active[i] || b->pnode[i] != PLIM__NONE) continue;
        for (uint32_t k = 0; k < b->g->node[i].n_in; k++)
            if (b->g->node[i].in[k] == graph_value) return true;
    }
    return false;
}

/* An output that nobody reads, of a node that reduces along a loop: threads may have to combine it all the same, so it has a slot. */
static bool combined_for_nobody(const builder *b, uint32_t v, const plim__pnode *x)
{
    const plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_operands; i++)
        if (p->operand[i] == v) return false;
    for (uint32_t a = 0; a < x->axes.n; a++)
        if (x->bind[a] >= 0 && plim__axis_reduces(x->axes.axis[a].kind)) return true;
    return false;
}

/* The file that a value is written to, or PLIM__NONE. */
static uint32_t output_file(const plim_plan *plan, uint32_t v)
{
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plan->file[i].kind != PLIM__FILE_INPUT && plan->file[i].value == v) return i;
    return PLIM__NONE;
}

static void role_of(builder *b, uint32_t i)
{
    plim__pass *p = b->p;
    plim__pvalue *v = &p->value[i];
    const plim__home *home = &b->plan->home[v->value];
    if (v->producer == PLIM__NONE) {
        v->role = home->kind == PLIM__HOME_CONST ? PLIM__ROLE_CONST : home->kind == PLIM__HOME_ARENA ? PLIM__ROLE_WHOLE : PLIM__ROLE_READ;
        v->file = v->role == PLIM__ROLE_READ ? home->file : PLIM__NONE;
        v->slot = v->role == PLIM__ROLE_WHOLE ? home->slot : PLIM__NONE;
        return;
    }
    const plim__pnode *x = &p->node[v->producer];
    const bool later = used_later(b, v->value);
    const bool combined = plim__out_accumulates(x, b->g->value[v->value].out, b->g->value[v->value].shape.rank);
    const bool scanned = x->accumulates && !combined;
    const bool moved = v->depth > 0 && !x->post;
    v->file = output_file(b->plan, v->value);
    if (v->file != PLIM__NONE) v->role = combined ? PLIM__ROLE_ACC : PLIM__ROLE_WRITE;
    else if (later && moved && !combined && b->g->value[v->value].bytes > b->f->spill_above) {
        v->role = PLIM__ROLE_WRITE;
        v->spill = true;
    } else if (is_output(b->g, v->value) || scanned || (x->root && later)) v->role = PLIM__ROLE_WHOLE;
    else if (combined) v->role = PLIM__ROLE_ACC;
    else if (used_outside_stage(b, i, x->stage) || combined_for_nobody(b, i, x)) v->role = PLIM__ROLE_TILE;
    else v->role = PLIM__ROLE_PRIVATE;
    /* What outlives the pass is there whole, even an accumulator that goes to a file as well. */
    if (v->file != PLIM__NONE && later && b->g->value[v->value].bytes <= b->f->small) v->role = PLIM__ROLE_WHOLE;
}

/* A value that leaves its stage is written by block; a reader inside the same stage that wants more than the block's own part would read what
 * another thread is writing. Such a reader starts a new stage. */
static bool find_wall(builder *b, bool *wall)
{
    const plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__stage *s = &p->stage[p->node[i].stage];
        uint32_t by;
        if (wall[i] || !reads_from_stage(b, &p->node[i], s->first, i, &by)) continue;
        for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in; k++) {
            const plim__pvalue *v = &p->value[p->operand[p->node[i].in0 + k]];
            if (v->producer != PLIM__NONE && v->producer >= s->first && v->producer < i && v->role != PLIM__ROLE_PRIVATE) {
                wall[i] = true;
                return true;
            }
        }
    }
    return false;
}

static void add_step(plim__pass *p, plim__step_kind kind, uint32_t index, uint32_t depth, bool post)
{
    p->step[p->n_steps++] = (plim__step){.kind = kind, .index = index, .depth = (uint8_t)depth, .post = post};
}

static bool written(const plim__pvalue *v)
{
    return v->file != PLIM__NONE || v->spill;
}

/* WRITE steps of a node's outputs: those that are complete with each tile, or those that are complete after the loops. */
static void add_writes(builder *b, const plim__pnode *x, uint32_t depth, bool post)
{
    plim__pass *p = b->p;
    for (uint32_t j = 0; j < PLIM__MAX_OUT && x->out[j] != PLIM__NONE; j++) {
        const plim__pvalue *v = &p->value[x->out[j]];
        const bool late = x->post || v->role == PLIM__ROLE_WHOLE || plim__out_accumulates(x, j, b->g->value[v->value].shape.rank);
        if (written(v) && late == post) add_step(p, PLIM__STEP_WRITE, x->out[j], v->role == PLIM__ROLE_WHOLE ? 0 : depth, post);
    }
}

static void add_body_steps(builder *b, uint32_t d)
{
    plim__pass *p = b->p;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->value[v].role == PLIM__ROLE_READ && p->value[v].depth == d) add_step(p, PLIM__STEP_READ, v, d, false);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].accumulates && p->node[i].acc_depth == d) add_step(p, PLIM__STEP_INIT, i, d, false);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const plim__stage *stage = &p->stage[s];
        if (stage->post || stage->depth != d) continue;
        add_step(p, PLIM__STEP_STAGE, s, d, false);
        for (uint32_t i = stage->first; i < stage->first + stage->count; i++) add_writes(b, &p->node[i], d, false);
    }
}

static void add_post_steps(builder *b, uint32_t d)
{
    plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *x = &p->node[i];
        if (x->post) continue;
        if (x->accumulates && x->acc_depth == d) add_step(p, PLIM__STEP_MERGE, i, d, true);
        if (x->accumulates ? x->acc_depth == d : d == 0) add_writes(b, x, d, true);
    }
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const plim__stage *stage = &p->stage[s];
        if (!stage->post || stage->depth != d) continue;
        add_step(p, PLIM__STEP_STAGE, s, d, true);
        for (uint32_t i = stage->first; i < stage->first + stage->count; i++) add_writes(b, &p->node[i], d, true);
    }
}

static void add_steps(builder *b)
{
    for (uint32_t d = 0; d <= b->n_cut; d++) add_body_steps(b, d);
    for (uint32_t d = b->n_cut + 1; d-- > 0;) add_post_steps(b, d);
}

/* ------------------------------------------------------------------------------------------------ the whole */

static plim_status new_builder(builder *b)
{
    const plim__alloc *a = &b->plan->alloc;
    const uint32_t n = b->g->n_nodes;
    b->state = plim__new(a, n, sizeof *b->state, b->err);
    b->depth = plim__new(a, n, sizeof *b->depth, b->err);
    b->accumulates = plim__new(a, n, sizeof *b->accumulates, b->err);
    b->root = plim__new(a, n, sizeof *b->root, b->err);
    b->keep = plim__new(a, n, sizeof *b->keep, b->err);
    b->pnode = plim__new(a, n, sizeof *b->pnode, b->err);
    b->pvalue = plim__new(a, b->g->n_values, sizeof *b->pvalue, b->err);
    if (!b->state || !b->depth || !b->accumulates || !b->root || !b->keep || !b->pnode || !b->pvalue) return PLIM_E_NOMEM;
    memset(b->pnode, 0xff, n * sizeof *b->pnode);
    memset(b->pvalue, 0xff, b->g->n_values * sizeof *b->pvalue);
    return PLIM_OK;
}

static void free_builder(builder *b)
{
    const plim__alloc *a = &b->plan->alloc;
    plim__free(a, b->state);
    plim__free(a, b->depth);
    plim__free(a, b->accumulates);
    plim__free(a, b->root);
    plim__free(a, b->keep);
    plim__free(a, b->pnode);
    plim__free(a, b->pvalue);
}

static void set_loops(builder *b, uint32_t cut, const uint8_t *order)
{
    plim__pass *p = b->p;
    p->n_loops = b->labels->n;
    b->n_cut = (uint32_t)__builtin_popcount(cut);
    for (uint32_t l = 0; l < p->n_loops; l++) {
        p->loop[l] = (plim__loop){b->labels->extent[order[l]], b->labels->extent[order[l]]};
        b->place[order[l]] = (int8_t)l;
    }
    p->n_cut = b->n_cut;
}

static plim_status find_depths_of(builder *b)
{
    const plim__alloc *a = &b->plan->alloc;
    uint8_t(*needs)[PLIM_MAX_RANK] = plim__new(a, b->p->n_values, sizeof *needs, b->err);
    uint32_t *to = plim__new(a, b->p->n_values, sizeof *to, b->err);
    if (needs && to) {
        find_depths(b, needs);
        join_reads(b, needs, to);
    }
    const plim_status status = needs && to ? PLIM_OK : PLIM_E_NOMEM;
    plim__free(a, needs);
    plim__free(a, to);
    return status;
}

static plim_status stages_and_roles(builder *b)
{
    bool *wall = plim__new(&b->plan->alloc, b->p->n_nodes, sizeof *wall, b->err);
    if (!wall) return PLIM_E_NOMEM;
    do {
        form_stages(b, wall);
        for (uint32_t i = 0; i < b->p->n_values; i++) role_of(b, i);
    } while (find_wall(b, wall));
    plim__free(&b->plan->alloc, wall);
    for (uint32_t s = 0; s < b->p->n_stages; s++) find_splits(b, &b->p->stage[s]);
    return PLIM_OK;
}

plim_status plim__pass_build(plim__pass *out, const plim_plan *plan, const plim__frontier *f, const plim__labels *labels, uint32_t cut,
                             const uint8_t *order, plim_error *err)
{
    *out = (plim__pass){0};
    builder b = {.plan = plan, .g = plan->graph, .f = f, .labels = labels, .p = out, .err = err};
    plim_status status = new_builder(&b);
    if (status != PLIM_OK) goto done;
    set_loops(&b, cut, order);
    for (uint32_t i = 0; i < b.g->n_nodes; i++)
        if (f->active[i]) classify_node(&b, i);
    choose_roots(&b);
    PLIM_TRY_DONE(allocate_tables(&b));
    collect(&b);
    if (out->n_nodes == 0) {
        status = PLIM_E_PLAN;
        goto done;
    }
    PLIM_TRY_DONE(find_depths_of(&b));
    if (!loops_are_sound(out)) {
        status = PLIM_E_PLAN;
        goto done;
    }
    PLIM_TRY_DONE(stages_and_roles(&b));
    add_steps(&b);
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
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const plim__value *v = &g->value[g->output[i].value];
        if (plan->home[g->output[i].value].kind == PLIM__HOME_NOWHERE) f->active[v->node] = true;
    }
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
        f->on_file[v] = plan->home[v].kind == PLIM__HOME_FILE || output_file(plan, v) != PLIM__NONE;
    return PLIM_OK;
}

/* A file of our own for a value that later passes read again. */
static plim_status add_spill(plim_plan *plan, uint32_t value, uint32_t *file, plim_error *err)
{
    PLIM_TRY(plim__grow(&plan->alloc, (void **)&plan->file, &plan->cap_files, plan->n_files + 1, sizeof *plan->file, err));
    plim__file f = {.kind = PLIM__FILE_SPILL, .value = value, .path = plan->set.spill_dir, .bytes = plan->graph->value[value].bytes};
    plim__file_describe(&f.io, plan->graph, value, 0);
    f.io.path = plan->set.spill_dir;
    f.io.writable = true;
    *file = plan->n_files;
    plan->file[plan->n_files++] = f;
    return PLIM_OK;
}

plim_status plim__pass_settle(plim_plan *plan, plim__frontier *f, plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        plim__pvalue *v = &p->value[i];
        plim__home *home = &plan->home[v->value];
        if (v->producer == PLIM__NONE) continue;
        if (v->spill) PLIM_TRY(add_spill(plan, v->value, &v->file, err));
        if (v->role == PLIM__ROLE_WHOLE) *home = (plim__home){.kind = PLIM__HOME_ARENA, .slot = v->slot, .file = v->file};
        else if (v->file != PLIM__NONE) *home = (plim__home){.kind = PLIM__HOME_FILE, .slot = PLIM__NONE, .file = v->file};
    }
    return plim__frontier_update(plan, f);
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
