/* The verifier. It takes the finished tables as claims and tests each against docs/invariants.md, by brute force where that is possible. Of the planner's
 * code it uses the region functions that planning and running share, and tests what they say against the graph (check_boxes.c). Its tests corrupt plans and
 * demand detection. Reads only; allocates some arrays as long as the graph or a pass. */
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
        PLIM_FAIL_IF(__builtin_mul_overflow(s->bytes, (uint64_t)s->copies, &bytes) || __builtin_add_overflow(s->offset, bytes, &end), err, PLIM_E_PLAN,
                     "I1: slot %u overflows", i);
        PLIM_FAIL_IF(s->offset < plan->io_bytes || end > plan->arena_bytes, err, PLIM_E_PLAN, "I1: slot %u lies outside the arena", i);
        PLIM_FAIL_IF(s->offset % 4096 != 0, err, PLIM_E_PLAN, "I1: slot %u is not aligned", i);
        PLIM_FAIL_IF(s->first > s->last || s->last >= plan->n_steps, err, PLIM_E_PLAN, "I1: slot %u lives from step %u to %u of %u", i, s->first, s->last,
                     plan->n_steps);
    }
    return PLIM_OK;
}

/* I2: a slot shares no byte with one that was there before it and lives on. I1 has bounded the sums. */
static plim_status check_newcomer(const plim_plan *plan, uint32_t i, uint32_t *alive, uint32_t *n, plim_error *err)
{
    const plim__slot *a = &plan->slot[i];
    uint32_t left = 0;
    for (uint32_t k = 0; k < *n; k++) {
        const plim__slot *b = &plan->slot[alive[k]];
        if (b->last < a->first) continue;
        const bool share = a->offset < b->offset + b->bytes * b->copies && b->offset < a->offset + a->bytes * a->copies;
        PLIM_FAIL_IF(share, err, PLIM_E_PLAN, "I2: slots %u and %u overlap while both live", alive[k], i);
        alive[left++] = alive[k];
    }
    alive[left++] = i;
    *n = left;
    return PLIM_OK;
}

/* I2: two slots alive at the same step share no byte: in the order in which they come to life, each against all that are alive then. */
static plim_status check_overlap(const plim_plan *plan, plim_error *err)
{
    const uint32_t steps = plan->n_steps;
    uint32_t *first = plim__new(&plan->alloc, (uint64_t)steps + 1, sizeof *first, err), n = 0; /* chains of slots by the step at which they come to life */
    uint32_t *next = plim__new(&plan->alloc, plan->n_slots, sizeof *next, err), *alive = plim__new(&plan->alloc, plan->n_slots, sizeof *alive, err);
    plim_status status = first && next && alive ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) memset(first, 0xff, ((uint64_t)steps + 1) * sizeof *first);
    for (uint32_t i = 0; i < plan->n_slots && status == PLIM_OK; i++) {
        next[i] = first[plan->slot[i].first];
        first[plan->slot[i].first] = i;
    }
    for (uint32_t t = 0; t < steps && status == PLIM_OK; t++)
        for (uint32_t i = first[t]; i != PLIM__NONE && status == PLIM_OK; i = next[i]) status = check_newcomer(plan, i, alive, &n, err);
    plim__free(&plan->alloc, first);
    plim__free(&plan->alloc, next);
    plim__free(&plan->alloc, alive);
    return status;
}

static plim_status alive_at(const plim_plan *plan, uint32_t slot, uint32_t step, plim_error *err)
{
    PLIM_FAIL_IF(slot >= plan->n_slots, err, PLIM_E_PLAN, "I3: step %u uses slot %u, which does not exist", step, slot);
    const plim__slot *s = &plan->slot[slot];
    PLIM_FAIL_IF(step < s->first || step > s->last, err, PLIM_E_PLAN, "I3: step %u uses slot %u, which lives from %u to %u", step, slot, s->first, s->last);
    return PLIM_OK;
}

static bool has_slot(const plim__pvalue *v)
{
    return v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE;
}

/* How deep in the loops a value is used, over all steps of a pass. */
typedef struct span {
    uint8_t shallowest, deepest;
    bool used;
} span;

static plim_status use_value(const plim_plan *plan, const plim__pass *p, uint32_t v, uint32_t t, span *spans, plim_error *err)
{
    const uint8_t depth = p->step[t].depth;
    span *s = &spans[v];
    if (!has_slot(&p->value[v])) return PLIM_OK;
    s->shallowest = s->used && s->shallowest < depth ? s->shallowest : depth;
    s->deepest = s->deepest > depth ? s->deepest : depth;
    s->used = true;
    return alive_at(plan, p->value[v].slot, p->time0 + t, err);
}

/* I3: what a step uses is alive then. */
static plim_status check_node_slots(const plim_plan *plan, const plim__pass *p, const plim__pnode *n, bool inputs, uint32_t t, span *spans, plim_error *err)
{
    const plim__node *node = &plan->graph->node[n->node];
    for (uint32_t k = 0; k < node->n_in && inputs; k++) PLIM_TRY(use_value(plan, p, p->operand[n->in0 + k], t, spans, err));
    for (uint32_t j = 0; j < node->n_out; j++) {
        const bool scanned = plim__out_is_scanned(&n->axes, j, plan->graph->value[node->out[j]].shape.rank);
        if (inputs || !scanned) PLIM_TRY(use_value(plan, p, n->out[j], t, spans, err)); /* of a scan only the carry is set up, and merged */
    }
    return n->copies_slot == PLIM__NONE ? PLIM_OK : alive_at(plan, n->copies_slot, p->time0 + t, err);
}

static plim_status check_step_slots(const plim_plan *plan, const plim__pass *p, uint32_t t, span *spans, plim_error *err)
{
    const plim__step *s = &p->step[t];
    if (s->kind == PLIM__STEP_INIT || s->kind == PLIM__STEP_MERGE) return check_node_slots(plan, p, &p->node[s->index], false, t, spans, err);
    if (s->kind != PLIM__STEP_STAGE) return use_value(plan, p, s->index, t, spans, err);
    const plim__stage *stage = &p->stage[s->index];
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) PLIM_TRY(check_node_slots(plan, p, &p->node[i], true, t, spans, err));
    return stage->slot == PLIM__NONE ? PLIM_OK : alive_at(plan, stage->slot, p->time0 + t, err);
}

/* I3: what is being written to a file stays where it is until that was waited for: by a WAIT step, at the end of the pass, or, in a ring of slots, which lives
 * as long as the pass, before the slot is filled again. */
static plim_status check_written(const plim_plan *plan, const plim__pass *p, uint32_t t, plim_error *err)
{
    const plim__pvalue *v = &p->value[p->step[t].index];
    const plim__slot *s = &plan->slot[v->slot];
    bool waited = v->stored || s->copies > 1 || s->last >= p->time0 + p->n_steps - 1;
    for (uint32_t w = t + 1; w < p->n_steps && !waited; w++) waited = p->step[w].kind == PLIM__STEP_WAIT && p->step[w].index == p->step[t].index;
    PLIM_FAIL_IF(!waited, err, PLIM_E_PLAN, "I3: '%s' is written from slot %u, and nobody waits for that while the slot lives",
                 plan->graph->value[v->value].name, v->slot);
    return PLIM_OK;
}

/* I3: and while loops turn between one use and the next. */
static plim_status check_carried(const plim_plan *plan, const plim__pass *p, const plim__pvalue *v, const span *s, plim_error *err)
{
    const plim__slot *slot = &plan->slot[v->slot];
    const bool whole_pass = p->n_cut > 0 && ((v->role == PLIM__ROLE_WHOLE && v->producer != PLIM__NONE) || slot->copies > 1);
    PLIM_FAIL_IF(whole_pass && (slot->first > p->time0 || slot->last < p->time0 + p->n_steps - 1), err, PLIM_E_PLAN,
                 "I3: slot %u is carried through the loops of a pass but does not live as long", v->slot);
    PLIM_FAIL_IF(p->n_cut > 0 && slot->copies > 1 && s->used && s->shallowest < p->n_cut, err, PLIM_E_PLAN,
                 "I3: slot %u takes turns with every tile, and is used outside of the loops", v->slot);
    for (uint32_t t = 0; t < p->n_steps && s->used && s->deepest > s->shallowest; t++) {
        const uint32_t now = p->time0 + t;
        PLIM_FAIL_IF(p->step[t].depth > s->shallowest && (now < slot->first || now > slot->last), err, PLIM_E_PLAN,
                     "I3: slot %u is used while loops turn, but does not live as long as they do", v->slot);
    }
    return PLIM_OK;
}

static plim_status check_lifetimes(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    span *spans = plim__new(&plan->alloc, p->n_values, sizeof *spans, err);
    plim_status status = spans ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t t = 0; t < p->n_steps && status == PLIM_OK; t++) {
        status = check_step_slots(plan, p, t, spans, err);
        if (status == PLIM_OK && p->step[t].kind == PLIM__STEP_WRITE) status = check_written(plan, p, t, err);
    }
    for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++)
        if (has_slot(&p->value[i])) status = check_carried(plan, p, &p->value[i], &spans[i], err);
    plim__free(&plan->alloc, spans);
    return status;
}

/* I4: steps come in an order in which everything is there when it is used. */
static plim_status check_order(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t k = 0; k < plan->graph->node[n->node].n_in; k++) {
            const plim__pvalue *v = &p->value[p->operand[n->in0 + k]];
            PLIM_FAIL_IF(v->value != plan->graph->node[n->node].in[k], err, PLIM_E_PLAN, "I4: node %u reads another value than the graph says", n->node);
            PLIM_FAIL_IF(v->producer != PLIM__NONE && v->producer >= i, err, PLIM_E_PLAN, "I4: node %u runs before what it reads", n->node);
            if (v->producer == PLIM__NONE) {
                PLIM_FAIL_IF(plan->home[v->value].kind == PLIM__HOME_NOWHERE && !v->flat, err, PLIM_E_PLAN, "I4: node %u reads a value that is nowhere", n->node);
                continue;
            }
            const plim__pnode *by = &p->node[v->producer];
            PLIM_FAIL_IF(by->accumulates && !(n->post && n->depth <= by->acc_depth), err, PLIM_E_PLAN,
                         "I5: node %u reads a sum before its loops have ended", n->node);
            PLIM_FAIL_IF(by->accumulates && v->role != PLIM__ROLE_ACC && v->role != PLIM__ROLE_WHOLE, err, PLIM_E_PLAN,
                         "I5: node %u reads behind its loops what is there in parts only while they turn", n->node);
            PLIM_FAIL_IF(v->role == PLIM__ROLE_PRIVATE && by->stage != n->stage, err, PLIM_E_PLAN, "I4: node %u reads a private value of another stage",
                         n->node);
        }
    }
    return PLIM_OK;
}

/* I6: what is written, or kept for others than the nodes of its pass, is made by a root: all of it, not just what nodes of the pass ask for. */
static plim_status check_roots(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const bool goes_out = (v->role == PLIM__ROLE_WRITE || v->role == PLIM__ROLE_WHOLE || v->file != PLIM__NONE) && !v->flat;
        PLIM_FAIL_IF(v->producer != PLIM__NONE && goes_out && !p->node[v->producer].root, err, PLIM_E_PLAN,
                     "I6: '%s' is kept or written, but only parts of it are sure to be made", plan->graph->value[v->value].name);
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
            PLIM_FAIL_IF(l >= (int)p->n_loops, err, PLIM_E_PLAN, "I6: node %u is moved by a loop that does not exist", n->node);
            PLIM_FAIL_IF(l >= 0 && (uint32_t)l < p->n_cut && n->axes.axis[a].kind == PLIM__WHOLE, err, PLIM_E_PLAN,
                         "I6: an axis of node %u that cannot be cut is cut", n->node);
        }
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t l = n->acc_depth; l < n->depth && n->accumulates; l++)
            PLIM_FAIL_IF(!is_moved_by(n, l), err, PLIM_E_PLAN, "I6: node %u adds the same part again at every trip of loop %u", n->node, l);
    }
    for (uint32_t l = 0; l < p->n_loops; l++)
        PLIM_FAIL_IF(p->loop[l].tile < 1 || p->loop[l].extent < 1 || (l >= p->n_cut && p->loop[l].tile < p->loop[l].extent), err, PLIM_E_PLAN,
                     "I6: loop %u has tiles of %lld in %lld", l, (long long)p->loop[l].tile, (long long)p->loop[l].extent);
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
        if (times[i] > 1 && cut[i]) status = plim__fail(err, PLIM_E_PLAN, "I14: node %u is made %u times, and its sums are cut", i, times[i]);
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

/* I6: what takes the place of a state is made once: every loop around it moves it. */
static plim_status check_updates(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    const plim_graph *g = plan->graph;
    uint32_t *state = index_states(plan, err);
    plim_status status = state ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t i = 0; i < p->n_nodes && status == PLIM_OK; i++) {
        const plim__pnode *n = &p->node[i];
        bool updates = false;
        for (uint32_t j = 0; j < g->node[n->node].n_out; j++) updates |= state[g->node[n->node].out[j]] != PLIM__NONE;
        for (uint32_t l = 0; l < n->depth && updates && status == PLIM_OK; l++)
            if (!is_moved_by(n, l)) status = plim__fail(err, PLIM_E_PLAN, "I6: node %u updates a state again at every trip of loop %u", n->node, l);
    }
    plim__free(&plan->alloc, state);
    return status;
}

/* I9: node i reads `in`, a state that `writer` overwrites in the same pass. */
static plim_status check_state_reader(const plim_plan *plan, const plim__pass *p, uint32_t i, uint32_t k, uint32_t writer, uint32_t out, const plim__ranges *claim,
                                      plim_error *err)
{
    const plim_graph *g = plan->graph;
    const plim__pnode *w = &p->node[writer], *r = &p->node[i];
    plim__region written, need;
    plim__region_writes(g, &g->node[w->node], &w->axes, out, &claim->axis[w->axis0], &written);
    plim__region_reads(g, &g->node[r->node], k, &claim->axis[r->axis0], &need);
    const bool behind = i < writer && (p->n_cut == 0 || w->post);
    const bool alone = p->n_cut == 0 || w->depth == 0 || plim__box_is_inside(&need, &written);
    PLIM_FAIL_IF(!behind || !alone, err, PLIM_E_PLAN, "I9: node %u reads the state '%s' that node %u overwrites", r->node, g->value[g->node[r->node].in[k]].name,
                 w->node);
    return PLIM_OK;
}

/* I9: a state is overwritten when nobody needs it any more: inside one pass, by a node that runs after its readers and, where the loops turn on, overwrites
 * no other part than they read in the same trip. */
plim_status plim__check_tile_states(const plim_plan *plan, const plim__pass *p, const plim__ranges *claim, plim_error *err)
{
    const plim_graph *g = plan->graph;
    uint32_t *replaces = index_states(plan, err), *writer = plim__new(&plan->alloc, g->n_values, sizeof *writer, err); /* of a state, by its value */
    plim_status status = replaces && writer ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) memset(writer, 0xff, g->n_values * sizeof *writer);
    for (uint32_t i = 0; i < p->n_nodes && status == PLIM_OK; i++)
        for (uint32_t j = 0; j < g->node[p->node[i].node].n_out; j++) {
            const uint32_t state = replaces[g->node[p->node[i].node].out[j]];
            if (state != PLIM__NONE) writer[g->state[state].in] = i;
        }
    for (uint32_t i = 0; i < p->n_nodes && status == PLIM_OK; i++) {
        const plim__node *node = &g->node[p->node[i].node];
        for (uint32_t k = 0; k < node->n_in && status == PLIM_OK; k++) {
            const uint32_t w = writer[node->in[k]];
            if (w == PLIM__NONE || w == i) continue;
            uint32_t out = 0;
            while (replaces[g->node[p->node[w].node].out[out]] == PLIM__NONE || g->state[replaces[g->node[p->node[w].node].out[out]]].in != node->in[k]) out++;
            status = check_state_reader(plan, p, i, k, w, out, claim, err);
        }
    }
    plim__free(&plan->alloc, replaces);
    plim__free(&plan->alloc, writer);
    return status;
}

/* I9: and in no later pass. */
static plim_status check_states_after(const plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    bool *gone = plim__new(&plan->alloc, g->n_values, sizeof *gone, err);
    uint32_t *replaces = index_states(plan, err);
    plim_status status = gone && replaces ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t q = 0; q < plan->n_passes && status == PLIM_OK; q++) {
        const plim__pass *p = &plan->pass[q];
        for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++)
            if (p->value[i].producer == PLIM__NONE && gone[p->value[i].value])
                status = plim__fail(err, PLIM_E_PLAN, "I9: pass %u reads the state '%s' that an earlier one overwrote", q, g->value[p->value[i].value].name);
        for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++) {
            const uint32_t state = p->value[i].producer == PLIM__NONE ? PLIM__NONE : replaces[p->value[i].value];
            if (state != PLIM__NONE) gone[g->state[state].in] = true;
        }
    }
    plim__free(&plan->alloc, gone);
    plim__free(&plan->alloc, replaces);
    return status;
}

/* Step t of a pass reads from file f of our own, or waits for what is written there.
 * @param there  per file: what may be read, 1 + the group of steps for what a pass spills for itself, UINT32_MAX for what later passes read */
static plim_status check_spill(const plim_plan *plan, const plim__pass *p, uint32_t t, uint32_t f, uint32_t *there, plim_error *err)
{
    const plim__pvalue *v = &p->value[p->step[t].index];
    const uint32_t group = plim__group_of(p, p->step[t].depth, p->step[t].post);
    PLIM_FAIL_IF(f >= plan->n_files, err, PLIM_E_PLAN, "I10: step %u reads or waits for a file that does not exist", p->time0 + t);
    if (p->step[t].kind == PLIM__STEP_WAIT) {
        if (v->flat) there[f] = 1 + group;
        return PLIM_OK;
    }
    PLIM_FAIL_IF(plan->file[f].kind == PLIM__FILE_SPILL && there[f] != (v->flat ? 1 + group : UINT32_MAX), err, PLIM_E_PLAN,
                 "I10: step %u reads '%s' back before it is written", p->time0 + t, plan->graph->value[v->value].name);
    return PLIM_OK;
}

/* I10: what is read from a file of our own has been written there, and that has been waited for: in an earlier pass, or by an earlier step of the same trip. */
static plim_status check_spills(const plim_plan *plan, plim_error *err)
{
    uint32_t *there = plim__new(&plan->alloc, plan->n_files, sizeof *there, err);
    if (!there) return PLIM_E_NOMEM;
    plim_status status = PLIM_OK;
    for (uint32_t q = 0; q < plan->n_passes && status == PLIM_OK; q++) {
        const plim__pass *p = &plan->pass[q];
        for (uint32_t t = 0; t < p->n_steps && status == PLIM_OK; t++)
            if (p->step[t].kind == PLIM__STEP_READ || p->step[t].kind == PLIM__STEP_WAIT)
                status = check_spill(plan, p, t, p->value[p->step[t].index].file, there, err);
        for (uint32_t t = 0; t < p->n_steps && status == PLIM_OK; t++) {
            const plim__pvalue *v = &p->value[p->step[t].index];
            if (p->step[t].kind == PLIM__STEP_WRITE && v->file < plan->n_files && !v->flat) there[v->file] = UINT32_MAX;
        }
    }
    plim__free(&plan->alloc, there);
    return status;
}

/* I11: what lies in a slot of another pass lies in the one that its value has: its own, or that of the state whose place it takes. Only a node that may
 * update in place makes it there, and no other node of its stage reads the state. */
static plim_status check_foreign(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    const plim_graph *g = plan->graph;
    uint32_t *replaces = index_states(plan, err);
    plim_status status = replaces ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++) {
        const plim__pvalue *v = &p->value[i];
        if (!v->foreign && !v->stored) continue;
        const uint32_t state = replaces[v->value], in = v->producer == PLIM__NONE ? v->value : state == PLIM__NONE ? PLIM__NONE : g->state[state].in;
        if (in == PLIM__NONE || plan->home[in].kind != PLIM__HOME_ARENA || (v->producer != PLIM__NONE && !plan->held[in]))
            status = plim__fail(err, PLIM_E_PLAN, "I11: '%s' takes a place that is not there", g->value[v->value].name);
        else if (v->foreign && v->slot != plan->home[in].slot)
            status = plim__fail(err, PLIM_E_PLAN, "I11: '%s' lies in slot %u, its place is slot %u", g->value[v->value].name, v->slot, plan->home[in].slot);
        if (status != PLIM_OK || v->producer == PLIM__NONE || v->stored) continue;
        const plim__pnode *by = &p->node[v->producer];
        if (!(plim__op_row_of(g->node[by->node].op)->flags & PLIM__OP_UPDATE))
            status = plim__fail(err, PLIM_E_PLAN, "I11: node %u writes over what it reads", by->node);
        for (uint32_t n = 0; n < p->n_nodes && status == PLIM_OK; n++)
            for (uint32_t k = 0; k < g->node[p->node[n].node].n_in; k++)
                if (n != v->producer && p->node[n].stage == by->stage && g->node[p->node[n].node].in[k] == in)
                    status = plim__fail(err, PLIM_E_PLAN, "I11: node %u reads '%s' while it is overwritten", p->node[n].node, g->value[in].name);
    }
    plim__free(&plan->alloc, replaces);
    return status;
}

/* I8: every output of the program is made and goes where it was asked to go; so does what takes the place of a state. */
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
        if (o->path && writes[o->value] != 1) status = plim__fail(err, PLIM_E_PLAN, "I8: output '%s' is written by %u steps", o->name, writes[o->value]);
        else if (!o->path && plan->home[o->value].kind != PLIM__HOME_ARENA) status = plim__fail(err, PLIM_E_PLAN, "I8: output '%s' is not kept", o->name);
    }
    for (uint32_t q = 0; q < plan->n_passes; q++) /* made in the state's own place */
        for (uint32_t i = 0; i < plan->pass[q].n_values; i++) writes[plan->pass[q].value[i].value] += plan->pass[q].value[i].foreign && plan->pass[q].value[i].producer != PLIM__NONE;
    for (uint32_t i = 0; i < g->n_states && status == PLIM_OK; i++)
        if (writes[g->state[i].out] != 1)
            status = plim__fail(err, PLIM_E_PLAN, "I8: what takes the place of '%s' is written by %u steps", g->value[g->state[i].in].name, writes[g->state[i].out]);
    plim__free(&plan->alloc, writes);
    return status;
}

plim_status plim__plan_check(const plim_plan *plan, plim_error *err)
{
    PLIM_TRY(check_bounds(plan, err));
    PLIM_TRY(check_overlap(plan, err));
    PLIM_TRY(check_same_bits(plan, err));
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        const plim__pass *p = &plan->pass[i];
        PLIM_TRY(check_order(plan, p, err));
        PLIM_TRY(check_lifetimes(plan, p, err));
        PLIM_TRY(check_roots(plan, p, err));
        PLIM_TRY(check_partition(p, err));
        PLIM_TRY(check_updates(plan, p, err));
        PLIM_TRY(check_foreign(plan, p, err));
        PLIM_TRY(plim__check_boxes(plan, p, err));
    }
    PLIM_TRY(check_states_after(plan, err));
    PLIM_TRY(check_spills(plan, err));
    return check_outputs(plan, err);
}
