/* The verifier. It takes the finished tables as claims and tests each against docs/invariants.md. It shares no code
 * with the planner but the region functions that planning and running have in common, and it tests what they say
 * against the graph (check_boxes.c) and against a second way of finding it (check_bounds.c). Its tests corrupt plans of
 * every kind and demand that the right invariant is named.
 *
 *     check.c          memory by time: I1, I2; the graph's order and sums: I4, I5, I6, I14; states and outputs: I8, I9, I11
 *     check_steps.c    the table of steps: I3, I4, I5, I10
 *     check_share.c    values that lie on each other: I16, I17
 *     check_boxes.c    boxes of tiles and blocks: I6, I7, I9, I12, I13
 *     check_bounds.c   every tile and every block, however many: I12, I15
 *
 * Time is linear in the tables but for sorting slots by offset. Reads only; allocates arrays as long as the graph or a
 * pass and frees them; any thread. */
#include "plan/check.h"
#include "core/dtype.h"

#include <string.h>

/* I1: a slot lies inside the arena, behind the engine's buffers, on a page. */
static plim_status check_bounds(const plim_plan *plan, plim_error *err)
{
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *s = &plan->slot[i];
        uint64_t bytes, end;
        PLIM_FAIL_IF(s->copies == 0, err, PLIM_E_PLAN, "I1: slot %u has no copies", i);
        PLIM_FAIL_IF(__builtin_mul_overflow(s->bytes, (uint64_t)s->copies, &bytes) ||
                         __builtin_add_overflow(s->offset, bytes, &end),
                     err, PLIM_E_PLAN, "I1: slot %u overflows", i);
        PLIM_FAIL_IF(s->offset < plan->io_bytes || end > plan->arena_bytes, err, PLIM_E_PLAN,
                     "I1: slot %u lies outside the arena", i);
        PLIM_FAIL_IF(s->offset % 4096 != 0, err, PLIM_E_PLAN, "I1: slot %u is not aligned", i);
        PLIM_FAIL_IF(s->first > s->last || s->last >= plan->n_steps, err, PLIM_E_PLAN,
                     "I1: slot %u lives from step %u to %u of %u", i, s->first, s->last, plan->n_steps);
    }
    return PLIM_OK;
}

/* Slots that are alive at a step, by falling offset; they share no byte, so only neighbours could. */
typedef struct living {
    const plim_plan *plan;
    uint32_t *slot;
    uint32_t n;
} living;

/* Where a slot of this offset stands, or would stand. */
static uint32_t place_among(const living *x, uint32_t slot)
{
    uint32_t lo = 0, hi = x->n;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (x->plan->slot[x->slot[mid]].offset > x->plan->slot[slot].offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool share_memory(const plim__slot *a, const plim__slot *b)
{
    return a->offset < b->offset + b->bytes * b->copies && b->offset < a->offset + a->bytes * a->copies;
}

/* I2: a slot that comes to life shares no byte with one that is alive. I1 has bounded the sums. */
static plim_status enter(living *x, uint32_t slot, plim_error *err)
{
    const plim__slot *s = x->plan->slot;
    if (s[slot].bytes == 0) return PLIM_OK; /* no memory, whoever is there */
    const uint32_t at = place_among(x, slot);
    PLIM_ASSERT(x->n < x->plan->n_slots && at <= x->n); /* I1: each slot comes to life once */
    PLIM_FAIL_IF(at > 0 && share_memory(&s[x->slot[at - 1]], &s[slot]), err, PLIM_E_PLAN,
                 "I2: slots %u and %u overlap while both live", x->slot[at - 1], slot);
    PLIM_FAIL_IF(at < x->n && share_memory(&s[x->slot[at]], &s[slot]), err, PLIM_E_PLAN,
                 "I2: slots %u and %u overlap while both live", x->slot[at], slot);
    memmove(&x->slot[at + 1], &x->slot[at], (x->n - at) * sizeof *x->slot);
    x->slot[at] = slot;
    x->n++;
    return PLIM_OK;
}

static void leave(living *x, uint32_t slot)
{
    if (x->plan->slot[slot].bytes == 0) return;
    const uint32_t at = place_among(x, slot);
    PLIM_ASSERT(at < x->n && x->slot[at] == slot);
    memmove(&x->slot[at], &x->slot[at + 1], (x->n - at - 1) * sizeof *x->slot);
    x->n--;
}

/* Chains of slots by a step. @param first  one per step; @param next  one per slot */
static void chain(uint32_t *first, uint32_t *next, uint32_t step, uint32_t slot)
{
    next[slot] = first[step];
    first[step] = slot;
}

/* I2: in the order of time, each slot against its neighbours among those that are alive. */
static plim_status check_overlap(const plim_plan *plan, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    const uint64_t steps = plan->n_steps, slots = plan->n_slots;
    uint32_t *first = plim__new(a, 2 * steps, sizeof *first, err),
             *next = plim__new(a, 2 * slots, sizeof *next, err); /* born, and dying */
    living x = {.plan = plan, .slot = plim__new(a, slots + 1, sizeof *x.slot, err)};
    plim_status status = first && next && x.slot ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) memset(first, 0xff, 2 * steps * sizeof *first);
    for (uint32_t i = 0; i < slots && status == PLIM_OK; i++) {
        chain(first, next, plan->slot[i].first, i);
        chain(first + steps, next + slots, plan->slot[i].last, i);
    }
    for (uint32_t t = 0; t < steps && status == PLIM_OK; t++) {
        for (uint32_t i = first[t]; i != PLIM__NONE && status == PLIM_OK; i = next[i]) status = enter(&x, i, err);
        for (uint32_t i = first[steps + t]; i != PLIM__NONE && status == PLIM_OK; i = next[slots + i]) leave(&x, i);
    }
    PLIM_ASSERT(status != PLIM_OK || x.n == 0); /* I1: each slot dies before the plan ends */
    plim__free(a, first);
    plim__free(a, next);
    plim__free(a, x.slot);
    return status;
}

/* I4: a node finds what the graph says, from a node before it or from where it is at home; I5: a sum is read when it is
 * complete. */
static plim_status check_order(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t k = 0; k < plan->graph->node[n->node].n_in; k++) {
            const plim__pvalue *v = &p->value[p->operand[n->in0 + k]];
            PLIM_FAIL_IF(v->value != plan->graph->node[n->node].in[k], err, PLIM_E_PLAN,
                         "I4: node %u reads another value than the graph says", n->node);
            PLIM_FAIL_IF(v->producer != PLIM__NONE && v->producer >= i, err, PLIM_E_PLAN,
                         "I4: node %u runs before what it reads", n->node);
            if (v->producer == PLIM__NONE) {
                PLIM_FAIL_IF(plan->home[v->value].kind == PLIM__HOME_NOWHERE && !v->flat, err, PLIM_E_PLAN,
                             "I4: node %u reads a value that is nowhere", n->node);
                continue;
            }
            const plim__pnode *by = &p->node[v->producer];
            PLIM_FAIL_IF(by->post && !(n->post && n->depth <= by->depth), err, PLIM_E_PLAN,
                         "I4: node %u reads what is made when its loops have ended", n->node);
            PLIM_FAIL_IF(by->accumulates && !(n->post && n->depth <= by->acc_depth), err, PLIM_E_PLAN,
                         "I5: node %u reads a sum before its loops have ended", n->node);
            PLIM_FAIL_IF(by->accumulates && v->role != PLIM__ROLE_ACC && v->role != PLIM__ROLE_WHOLE, err, PLIM_E_PLAN,
                         "I5: node %u reads behind its loops what is there in parts only while they turn", n->node);
            PLIM_FAIL_IF(v->role == PLIM__ROLE_PRIVATE && by->stage != n->stage, err, PLIM_E_PLAN,
                         "I4: node %u reads a private value of another stage", n->node);
        }
    }
    return PLIM_OK;
}

/* I6: what is written, or kept for others than the nodes of its pass, is made by a root: all of it, not just what nodes
 * of the pass ask for. */
static plim_status check_roots(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const bool goes_out = (v->role == PLIM__ROLE_WRITE || v->role == PLIM__ROLE_WHOLE || v->file != PLIM__NONE) && !v->flat;
        PLIM_FAIL_IF(v->producer != PLIM__NONE && goes_out && !p->node[v->producer].root, err, PLIM_E_PLAN,
                     "I6: '%s' is kept or written, but only parts of it are sure to be made",
                     plan->graph->value[v->value].name);
    }
    return PLIM_OK;
}

static bool is_moved_by(const plim__pnode *n, uint32_t loop)
{
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (n->bind[a] == (int)loop) return true;
    return false;
}

/* I6: the tiles partition every axis that a loop moves: each iteration is done once. */
static plim_status check_partition(const plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t a = 0; a < n->axes.n && n->root; a++) {
            const int l = n->bind[a];
            for (uint32_t b = 0; b < a && l >= 0; b++)
                PLIM_FAIL_IF(n->bind[b] == l, err, PLIM_E_PLAN, "I6: a loop moves two axes of node %u", n->node);
            PLIM_FAIL_IF(l >= (int)p->n_loops, err, PLIM_E_PLAN, "I6: node %u is moved by a loop that does not exist",
                         n->node);
            PLIM_FAIL_IF(l >= 0 && (uint32_t)l < p->n_cut && n->axes.axis[a].kind == PLIM__WHOLE, err, PLIM_E_PLAN,
                         "I6: an axis of node %u that cannot be cut is cut", n->node);
        }
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t l = n->acc_depth; l < n->depth && n->accumulates; l++)
            PLIM_FAIL_IF(!is_moved_by(n, l), err, PLIM_E_PLAN,
                         "I6: node %u adds the same part again at every trip of loop %u", n->node, l);
    }
    for (uint32_t l = 0; l < p->n_loops; l++)
        PLIM_FAIL_IF(p->loop[l].tile < 1 || p->loop[l].extent < 1 ||
                         (l >= p->n_cut && p->loop[l].tile < p->loop[l].extent),
                     err, PLIM_E_PLAN, "I6: loop %u has tiles of %lld in %lld", l, (long long)p->loop[l].tile,
                     (long long)p->loop[l].extent);
    return PLIM_OK;
}

/* Is a sum of node n cut, by a loop or into the blocks of its stage? */
static bool cuts_sum(const plim__pass *p, const plim__pnode *n)
{
    const plim__stage *s = &p->stage[n->stage];
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const bool by_blocks = !s->pool && s->blocks > 1 && n->bind[a] == s->split;
        const bool by_loop = n->accumulates && n->bind[a] >= 0 && (uint32_t)n->bind[a] < p->n_cut;
        if (n->bind[a] >= 0 && plim__axis_rounds(n->axes.axis[a].kind) && (by_blocks || by_loop)) return true;
    }
    return false;
}

/* I14: a node that is made more than once has the same bits each time. */
static plim_status check_same_bits(const plim_plan *plan, plim_error *err)
{
    const uint32_t nodes = plan->graph->n_nodes;
    uint32_t *times = plim__new(&plan->alloc, nodes, sizeof *times, err);
    bool *cut = plim__new(&plan->alloc, nodes, sizeof *cut, err);
    plim_status status = times && cut ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t q = 0; q < plan->n_passes && status == PLIM_OK; q++)
        for (uint32_t i = 0; i < plan->pass[q].n_nodes; i++) {
            const plim__pnode *n = &plan->pass[q].node[i];
            times[n->node]++;
            cut[n->node] |= cuts_sum(&plan->pass[q], n);
        }
    for (uint32_t i = 0; i < nodes && status == PLIM_OK; i++)
        if (times[i] > 1 && cut[i])
            status = plim__fail(err, PLIM_E_PLAN, "I14: node %u is made %u times, and its sums are cut", i, times[i]);
    plim__free(&plan->alloc, times);
    plim__free(&plan->alloc, cut);
    return status;
}

/* Per value: the state whose place it takes, or PLIM__NONE. */
static uint32_t *index_states(const plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    uint32_t *state = plim__new(&plan->alloc, g->n_values, sizeof *state, err);
    if (!state) return NULL;
    memset(state, 0xff, g->n_values * sizeof *state);
    for (uint32_t i = 0; i < g->n_states; i++) state[g->state[i].out] = i;
    return state;
}

/* Does node n make what takes the place of a state? */
static bool updates(const plim_graph *g, const uint32_t *replaces, uint32_t n)
{
    for (uint32_t j = 0; j < g->node[n].n_out; j++)
        if (replaces[g->node[n].out[j]] != PLIM__NONE) return true;
    return false;
}

/* I6: what takes the place of a state is made once: every loop around it moves it. */
static plim_status check_updates(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        if (!updates(plan->graph, replaces, n->node)) continue;
        for (uint32_t l = 0; l < n->depth; l++)
            PLIM_FAIL_IF(!is_moved_by(n, l), err, PLIM_E_PLAN,
                         "I6: node %u updates a state again at every trip of loop %u", n->node, l);
    }
    return PLIM_OK;
}

/* Is what is read of a state in a trip inside the part that the trip overwrites? Where a trip has no part of a dimension, its nodes ask for the first element of
 * the next part, which only a later trip overwrites. */
static bool is_of_the_part(const plim__region *need, const plim__region *written)
{
    if (need->rank != written->rank) return false;
    for (uint32_t d = 0; d < need->rank; d++) {
        const plim__range n = need->dim[d], w = written->dim[d];
        const bool next = plim__range_len(w) == 0 && n.lo == w.lo && n.hi == w.lo + 1;
        if (!next && (n.lo < w.lo || n.hi > w.hi)) return false;
    }
    return true;
}

/* I9: node `reader` reads as its input k a state that output `out` of node `writer` overwrites in the same pass. */
static plim_status check_state_reader(const plim_plan *plan, const plim__pass *p, const plim__state_use *x,
                                      const plim__ranges *tile, plim_error *err)
{
    const plim_graph *g = plan->graph;
    const plim__pnode *w = &p->node[x->writer], *r = &p->node[x->reader];
    plim__region written, need;
    PLIM_ASSERT(x->reader != x->writer && x->in < g->node[r->node].n_in && x->out < g->node[w->node].n_out);
    const bool behind = x->reader < x->writer && (p->n_cut == 0 || w->post);
    plim__region_writes(g, &g->node[w->node], &w->axes, x->out, &tile->axis[w->axis0], &written);
    plim__region_reads(g, &g->node[r->node], x->in, &tile->axis[r->axis0], &need);
    const bool alone = p->n_cut == 0 || w->depth == 0 || plim__is_idle(r, &tile->axis[r->axis0]) || is_of_the_part(&need, &written);
    PLIM_FAIL_IF(!behind || !alone, err, PLIM_E_PLAN, "I9: node %u reads the state '%s' that node %u overwrites",
                 r->node, g->value[g->node[r->node].in[x->in]].name, w->node);
    return PLIM_OK;
}

/* I9: a state is overwritten when nobody needs it any more: inside one pass, by a node that runs after its readers and,
 * where the loops turn on, overwrites no other part than they read in the same trip. */
plim_status plim__check_tile_states(const plim_plan *plan, const plim__pass *p, const plim__state_uses *uses,
                                    const plim__ranges *tile, plim_error *err)
{
    PLIM_ASSERT(!tile->place && tile->axis0 == 0); /* of the whole pass */
    for (uint32_t i = 0; i < uses->n; i++) PLIM_TRY(check_state_reader(plan, p, &uses->use[i], tile, err));
    return PLIM_OK;
}

static uint32_t output_that_replaces(const plim_graph *g, const uint32_t *replaces, uint32_t node, uint32_t state)
{
    uint32_t j = 0;
    while (replaces[g->node[node].out[j]] == PLIM__NONE || g->state[replaces[g->node[node].out[j]]].in != state) j++;
    PLIM_ASSERT(j < g->node[node].n_out);
    return j;
}

/* @param writer  per value of the graph, if it is a state: the node of the pass that overwrites it; scratch, all
 * PLIM__NONE */
static plim_status find_state_uses(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces,
                                   uint32_t *writer, plim__state_uses *out, plim_error *err)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t j = 0; j < g->node[p->node[i].node].n_out; j++) {
            const uint32_t state = replaces[g->node[p->node[i].node].out[j]];
            if (state != PLIM__NONE && !p->value[p->node[i].out[j]].again) writer[g->state[state].in] = i;
        }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__node *node = &g->node[p->node[i].node];
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t w = writer[node->in[k]];
            if (w == PLIM__NONE || w == i) continue;
            PLIM_TRY(plim__grow(&plan->alloc, (void **)&out->use, &out->cap, out->n + 1, sizeof *out->use, err));
            out->use[out->n++] =
                (plim__state_use){.reader = i,
                                  .in = k,
                                  .writer = w,
                                  .out = output_that_replaces(g, replaces, p->node[w].node, node->in[k])};
        }
    }
    return PLIM_OK;
}

plim_status plim__find_state_uses(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces,
                                  plim__state_uses *out, plim_error *err)
{
    *out = (plim__state_uses){0};
    if (plan->graph->n_states == 0) return PLIM_OK;
    uint32_t *writer = plim__new(&plan->alloc, plan->graph->n_values, sizeof *writer, err);
    if (!writer) return PLIM_E_NOMEM;
    memset(writer, 0xff, plan->graph->n_values * sizeof *writer);
    const plim_status status = find_state_uses(plan, p, replaces, writer, out, err);
    plim__free(&plan->alloc, writer);
    return status;
}

/* I9: and in no later pass. */
static plim_status check_states_after(const plim_plan *plan, const uint32_t *replaces, plim_error *err)
{
    const plim_graph *g = plan->graph;
    bool *gone = plim__new(&plan->alloc, g->n_values, sizeof *gone, err);
    plim_status status = gone ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t q = 0; q < plan->n_passes && status == PLIM_OK; q++) {
        const plim__pass *p = &plan->pass[q];
        for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++)
            if (p->value[i].producer == PLIM__NONE && gone[p->value[i].value])
                status = plim__fail(err, PLIM_E_PLAN, "I9: pass %u reads the state '%s' that an earlier one overwrote",
                                    q, g->value[p->value[i].value].name);
        for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++) {
            const uint32_t state = p->value[i].producer == PLIM__NONE ? PLIM__NONE : replaces[p->value[i].value];
            if (state != PLIM__NONE) gone[g->state[state].in] = true;
        }
    }
    plim__free(&plan->alloc, gone);
    return status;
}

/* I11: node `by` makes its value on the state `in`: it may do so, and no other node of its stage reads the state. */
static plim_status check_in_place(const plim_plan *plan, const plim__pass *p, uint32_t by, uint32_t in, plim_error *err)
{
    const plim_graph *g = plan->graph;
    const plim__stage *s = &p->stage[p->node[by].stage];
    PLIM_FAIL_IF(!(plim__op_row_of(g->node[p->node[by].node].op)->flags & PLIM__OP_UPDATE), err, PLIM_E_PLAN,
                 "I11: node %u writes over what it reads", p->node[by].node);
    for (uint32_t n = s->first; n < s->first + s->count; n++)
        for (uint32_t k = 0; k < g->node[p->node[n].node].n_in; k++)
            PLIM_FAIL_IF(n != by && g->node[p->node[n].node].in[k] == in, err, PLIM_E_PLAN,
                         "I11: node %u reads '%s' while it is overwritten", p->node[n].node, g->value[in].name);
    return PLIM_OK;
}

/* I11: what lies in a slot of another pass lies in the one that its value has: its own, or that of the state whose
 * place it takes. */
static plim_status check_foreign(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces, plim_error *err)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const bool made = v->producer != PLIM__NONE;
        PLIM_FAIL_IF(v->role == PLIM__ROLE_WHOLE && !made && !v->foreign, err, PLIM_E_PLAN,
                     "I11: '%s' is there whole, and nobody makes it", g->value[v->value].name);
        if (!v->foreign && !v->stored) continue;
        PLIM_FAIL_IF(v->foreign && v->stored, err, PLIM_E_PLAN, "I11: '%s' is made in its place and copied there",
                     g->value[v->value].name);
        const uint32_t state = replaces[v->value], in = !made                 ? v->value
                                                        : state == PLIM__NONE ? PLIM__NONE
                                                                              : g->state[state].in;
        PLIM_FAIL_IF(v->role != PLIM__ROLE_WHOLE || in == PLIM__NONE || plan->home[in].kind != PLIM__HOME_ARENA ||
                         (made && !plan->held[in]),
                     err, PLIM_E_PLAN, "I11: '%s' replaces a state that is not held", g->value[v->value].name);
        PLIM_FAIL_IF(v->foreign && v->slot != plan->home[in].slot, err, PLIM_E_PLAN,
                     "I11: '%s' lies in slot %u, its place is slot %u", g->value[v->value].name, v->slot,
                     plan->home[in].slot);
        if (made && v->foreign) PLIM_TRY(check_in_place(plan, p, v->producer, in, err));
    }
    return PLIM_OK;
}

/* I8: every output of the program is made and goes where it was asked to go; so does what takes the place of a state.
 */
static plim_status check_outputs(const plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    uint32_t *writes = plim__new(&plan->alloc, g->n_values, sizeof *writes, err);
    if (!writes) return PLIM_E_NOMEM;
    for (uint32_t q = 0; q < plan->n_passes; q++)
        for (uint32_t t = 0; t < plan->pass[q].n_steps; t++) {
            const plim__step *s = &plan->pass[q].step[t];
            if (s->kind == PLIM__STEP_WRITE) writes[plan->pass[q].value[s->index].value]++;
        }
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < g->n_outputs && status == PLIM_OK; i++) {
        const plim__output *o = &g->output[i];
        if (o->path && writes[o->value] != 1)
            status = plim__fail(err, PLIM_E_PLAN, "I8: output '%s' is written by %u steps", o->name, writes[o->value]);
        else if (!o->path && plan->home[o->value].kind != PLIM__HOME_ARENA)
            status = plim__fail(err, PLIM_E_PLAN, "I8: output '%s' is not kept", o->name);
    }
    for (uint32_t q = 0; q < plan->n_passes; q++) /* made in the state's own place */
        for (uint32_t i = 0; i < plan->pass[q].n_values; i++)
            writes[plan->pass[q].value[i].value] +=
                plan->pass[q].value[i].foreign && plan->pass[q].value[i].producer != PLIM__NONE;
    for (uint32_t i = 0; i < g->n_states && status == PLIM_OK; i++)
        if (writes[g->state[i].out] != 1)
            status = plim__fail(err, PLIM_E_PLAN, "I8: what takes the place of '%s' is written by %u steps",
                                g->value[g->state[i].in].name, writes[g->state[i].out]);
    plim__free(&plan->alloc, writes);
    return status;
}

static plim_status check_pass(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces, plim_error *err)
{
    PLIM_TRY(check_order(plan, p, err));
    PLIM_TRY(plim__check_steps(plan, p, err));
    PLIM_TRY(check_roots(plan, p, err));
    PLIM_TRY(check_partition(p, err));
    PLIM_TRY(check_updates(plan, p, replaces, err));
    PLIM_TRY(check_foreign(plan, p, replaces, err));
    PLIM_TRY(plim__check_chains(plan, p, err));
    PLIM_TRY(plim__check_boxes(plan, p, replaces, err));
    return plim__check_shares(plan, p, err);
}

static plim_status check_plan(const plim_plan *plan, const uint32_t *replaces, plim_error *err)
{
    PLIM_TRY(check_bounds(plan, err));
    PLIM_TRY(check_overlap(plan, err));
    PLIM_TRY(check_same_bits(plan, err));
    for (uint32_t i = 0; i < plan->n_passes; i++) PLIM_TRY(check_pass(plan, &plan->pass[i], replaces, err));
    PLIM_TRY(check_states_after(plan, replaces, err));
    PLIM_TRY(plim__check_spills(plan, err));
    return check_outputs(plan, err);
}

plim_status plim__plan_check(const plim_plan *plan, plim_error *err)
{
    uint32_t *replaces = index_states(plan, err);
    const plim_status status = replaces ? check_plan(plan, replaces, err) : PLIM_E_NOMEM;
    plim__free(&plan->alloc, replaces);
    return status;
}
