/* The verifier's part that follows time: what a step uses is there (I4), alive (I3), and no transfer is under way where
 * it must not be (I3, I10).
 *
 * Steps of a pass run in the order of their table, those inside loops once for each trip. So it is enough to walk
 * through the table once with what is carried from trip to trip in mind: a slot that is used at several depths, or that
 * holds something that was there before the pass, lives as long as the loops turn. Linear in steps, nodes and operands.
 * Reads the plan; allocates flags as long as the pass, or as the plan has files; any thread. */
#include "plan/check.h"

static bool has_slot(const plim__pvalue *v)
{
    return v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE;
}

/* -------------------------------------------------------------------------------------------- I3: what is alive */

static plim_status alive_at(const plim_plan *plan, uint32_t slot, uint32_t step, plim_error *err)
{
    PLIM_FAIL_IF(slot >= plan->n_slots, err, PLIM_E_PLAN, "I3: step %u uses slot %u, which does not exist", step, slot);
    const plim__slot *s = &plan->slot[slot];
    PLIM_FAIL_IF(step < s->first || step > s->last, err, PLIM_E_PLAN,
                 "I3: step %u uses slot %u, which lives from %u to %u", step, slot, s->first, s->last);
    return PLIM_OK;
}

/* How deep in the loops a value is used, over all steps of a pass. */
typedef struct span {
    uint8_t shallowest, deepest;
    bool used;
} span;

static plim_status use_value(const plim_plan *plan, const plim__pass *p, uint32_t v, uint32_t t, span *spans,
                             plim_error *err)
{
    const uint8_t depth = p->step[t].depth;
    span *s = &spans[v];
    if (!has_slot(&p->value[v])) return PLIM_OK;
    s->shallowest = s->used && s->shallowest < depth ? s->shallowest : depth;
    s->deepest = s->deepest > depth ? s->deepest : depth;
    s->used = true;
    PLIM_ASSERT(s->shallowest <= s->deepest && s->deepest <= p->n_cut); /* I4 has looked at the depths of steps */
    return alive_at(plan, p->value[v].slot, p->time0 + t, err);
}

static plim_status check_node_slots(const plim_plan *plan, const plim__pass *p, const plim__pnode *n, bool inputs,
                                    uint32_t t, span *spans, plim_error *err)
{
    const plim__node *node = &plan->graph->node[n->node];
    for (uint32_t k = 0; k < node->n_in && inputs; k++)
        PLIM_TRY(use_value(plan, p, p->operand[n->in0 + k], t, spans, err));
    for (uint32_t j = 0; j < node->n_out; j++) {
        const bool scanned = plim__out_is_scanned(&n->axes, j, plan->graph->value[node->out[j]].shape.rank);
        if (inputs || !scanned)
            PLIM_TRY(use_value(plan, p, n->out[j], t, spans, err)); /* of a scan only the carry is set up, and merged */
    }
    return n->copies_slot == PLIM__NONE ? PLIM_OK : alive_at(plan, n->copies_slot, p->time0 + t, err);
}

static plim_status check_step_slots(const plim_plan *plan, const plim__pass *p, uint32_t t, span *spans,
                                    plim_error *err)
{
    const plim__step *s = &p->step[t];
    if (s->kind == PLIM__STEP_INIT || s->kind == PLIM__STEP_MERGE)
        return check_node_slots(plan, p, &p->node[s->index], false, t, spans, err);
    if (s->kind != PLIM__STEP_STAGE) return use_value(plan, p, s->index, t, spans, err);
    const plim__stage *stage = &p->stage[s->index];
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++)
        PLIM_TRY(check_node_slots(plan, p, &p->node[i], true, t, spans, err));
    return stage->slot == PLIM__NONE ? PLIM_OK : alive_at(plan, stage->slot, p->time0 + t, err);
}

/* A slot of several copies takes turns with the trips of so many loops: with every tile; or, where it is read in front of inner loops for the next trip, with
 * those around these. What lies on another value takes turns with it. */
static uint32_t turning_depth(const plim__pass *p, const plim__pvalue *v)
{
    while (v->alias_of != PLIM__NONE) v = &p->value[v->alias_of];
    return v->role == PLIM__ROLE_READ && v->ahead ? v->depth : p->n_cut;
}

/* While loops turn between one use and the next. @param loops  first and last step inside the loops deeper than the
 * index */
static plim_status check_carried(const plim_plan *plan, const plim__pass *p, const plim__pvalue *v, const span *s,
                                 uint32_t (*loops)[2], plim_error *err)
{
    PLIM_ASSERT(v->slot < plan->n_slots && p->n_steps > 0);
    const plim__slot *slot = &plan->slot[v->slot];
    const bool lives_on = slot->first <= p->time0 && slot->last >= p->time0 + p->n_steps - 1;
    PLIM_FAIL_IF(p->n_cut > 0 && (v->role == PLIM__ROLE_WHOLE || slot->copies > 1) && !lives_on, err, PLIM_E_PLAN,
                 "I3: slot %u is carried through the loops of a pass but does not live as long", v->slot);
    PLIM_FAIL_IF(p->n_cut > 0 && slot->copies > 1 && s->used && s->shallowest < turning_depth(p, v), err, PLIM_E_PLAN,
                 "I3: slot %u takes turns with trips of loops, and is used outside of them", v->slot);
    if (!s->used || s->deepest <= s->shallowest) return PLIM_OK;
    const uint32_t *turn = loops[s->shallowest];
    PLIM_ASSERT(turn[0] <= turn[1]); /* some step is deeper: that which uses it there */
    PLIM_FAIL_IF(slot->first > p->time0 + turn[0] || slot->last < p->time0 + turn[1], err, PLIM_E_PLAN,
                 "I3: slot %u is used while loops turn, but does not live as long as they do", v->slot);
    return PLIM_OK;
}

/* How many tiles of a pass are read ahead: as many as its largest ring of slots holds. */
static uint32_t tiles_ahead(const plim_plan *plan, const plim__pass *p)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        if (v->role == PLIM__ROLE_READ && !v->ahead && v->slot < plan->n_slots && plan->slot[v->slot].copies > most)
            most = plan->slot[v->slot].copies;
    }
    return most;
}

/* Tiles are read ahead into the copies of a ring in turn: one with fewer than are read ahead would be overwritten while
 * it is needed. */
static plim_status check_ring(const plim_plan *plan, const plim__pass *p, const plim__pvalue *v, uint32_t ahead,
                              plim_error *err)
{
    const plim__slot *s = &plan->slot[v->slot];
    PLIM_ASSERT(s->copies >= 1 && ahead >= 1); /* I1 */
    if (v->role != PLIM__ROLE_READ) return PLIM_OK;
    PLIM_FAIL_IF(v->ahead && (s->copies < 2 || v->depth == 0 || v->depth >= p->n_cut || v->streamed || v->flat), err, PLIM_E_PLAN,
                 "I3: what slot %u holds is read for the next trip, and has no place apart for that", v->slot);
    if (s->copies == 1 || v->ahead) return PLIM_OK;
    PLIM_FAIL_IF(p->n_cut == 0 || v->depth != p->n_cut || v->streamed, err, PLIM_E_PLAN,
                 "I3: slot %u is a ring, and nothing moves what is read into it", v->slot);
    PLIM_FAIL_IF(s->copies < ahead, err, PLIM_E_PLAN, "I3: slot %u has %u copies, %u tiles are read ahead", v->slot,
                 s->copies, ahead);
    return PLIM_OK;
}

/* What is being written to a file stays where it is until that was waited for: by a WAIT step in the same trip, at the
 * end of the pass, or, in a ring of slots, before the slot is filled again. @param wait  the WAIT step behind it, or
 * PLIM__NONE */
static plim_status check_written(const plim_plan *plan, const plim__pass *p, uint32_t t, uint32_t wait, plim_error *err)
{
    const plim__step *w = &p->step[t];
    const plim__pvalue *v = &p->value[w->index];
    const plim__slot *s = &plan->slot[v->slot];
    PLIM_ASSERT(w->kind == PLIM__STEP_WRITE && v->producer != PLIM__NONE && (wait == PLIM__NONE || wait > t));
    const bool to_the_end = s->last >= p->time0 + p->n_steps - 1, once = p->n_cut == 0 || (w->depth == 0 && w->post);
    if (v->stored || (to_the_end && (once || s->first <= p->time0))) return PLIM_OK;
    PLIM_FAIL_IF(wait == PLIM__NONE || p->step[wait].depth != w->depth || p->step[wait].post != w->post, err,
                 PLIM_E_PLAN, "I3: '%s' is written from slot %u, and nobody waits for that while the slot lives",
                 plan->graph->value[v->value].name, v->slot);
    return PLIM_OK;
}

/* @param wait  per value, the next WAIT step: scratch, all PLIM__NONE */
static plim_status check_writes(const plim_plan *plan, const plim__pass *p, uint32_t *wait, plim_error *err)
{
    for (uint32_t t = p->n_steps; t-- > 0;) {
        const plim__step *s = &p->step[t];
        if (s->kind == PLIM__STEP_WAIT) wait[s->index] = t;
        if (s->kind == PLIM__STEP_WRITE) PLIM_TRY(check_written(plan, p, t, wait[s->index], err));
    }
    return PLIM_OK;
}

static plim_status check_lifetimes(const plim_plan *plan, const plim__pass *p, span *spans, plim_error *err)
{
    uint32_t loops[PLIM__MAX_LOOPS + 1][2];
    for (uint32_t d = 0; d <= PLIM__MAX_LOOPS; d++) loops[d][0] = UINT32_MAX, loops[d][1] = 0;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        PLIM_TRY(check_step_slots(plan, p, t, spans, err));
        for (uint32_t d = 0; d < p->step[t].depth; d++) {
            if (loops[d][0] == UINT32_MAX) loops[d][0] = t;
            loops[d][1] = t;
        }
    }
    const uint32_t ahead = tiles_ahead(plan, p);
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (!has_slot(&p->value[i])) continue;
        PLIM_FAIL_IF(p->value[i].slot >= plan->n_slots, err, PLIM_E_PLAN,
                     "I3: a value lies in slot %u, which does not exist", p->value[i].slot);
        PLIM_TRY(check_carried(plan, p, &p->value[i], &spans[i], loops, err));
        PLIM_TRY(check_ring(plan, p, &p->value[i], ahead, err));
    }
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------- I4: what is there already */

/* How far a pass has come. */
typedef struct progress {
    bool *value_read, *written; /* per value of the pass */
    bool *init, *merged;        /* per node */
    bool *done;                 /* per stage */
} progress;

/* The table a step's index points into has such an entry; steps outside of loops come first, then those inside, then
 * those behind them. */
static plim_status check_step_place(const plim__pass *p, uint32_t t, plim_error *err)
{
    const plim__step *s = &p->step[t], *before = t > 0 ? &p->step[t - 1] : NULL;
    const bool of_node = s->kind == PLIM__STEP_INIT || s->kind == PLIM__STEP_MERGE;
    const uint32_t entries = s->kind == PLIM__STEP_STAGE ? p->n_stages : of_node ? p->n_nodes : p->n_values;
    PLIM_FAIL_IF(s->index >= entries || s->depth > p->n_cut, err, PLIM_E_PLAN,
                 "I4: step %u is of something that does not exist", t);
    const bool behind =
        !before ||
        (before->post == s->post ? (s->post ? before->depth >= s->depth : before->depth <= s->depth) : s->post);
    PLIM_FAIL_IF(!behind, err, PLIM_E_PLAN, "I4: step %u stands before steps of loops that it is outside of", t);
    return PLIM_OK;
}

/* Is what node n reads as its input k there when its stage runs? */
static plim_status check_input(const plim__pass *p, const progress *x, const plim__pnode *n, uint32_t k,
                               plim_error *err)
{
    const uint32_t v = p->operand[n->in0 + k], by = p->value[v].producer;
    PLIM_FAIL_IF(p->value[v].role == PLIM__ROLE_READ && !x->value_read[v], err, PLIM_E_PLAN,
                 "I4: node %u runs before what it needs is read", n->node);
    if (by == PLIM__NONE) return PLIM_OK;
    PLIM_FAIL_IF(p->node[by].stage != n->stage && !x->done[p->node[by].stage], err, PLIM_E_PLAN,
                 "I4: the stage of node %u runs before what it reads is made", n->node);
    PLIM_FAIL_IF(p->node[by].accumulates && !x->merged[by], err, PLIM_E_PLAN,
                 "I5: node %u reads a sum before its parts are merged", n->node);
    return PLIM_OK;
}

static plim_status check_stage_step(const plim_plan *plan, const plim__pass *p, const progress *x,
                                    const plim__step *step, plim_error *err)
{
    const plim__stage *s = &p->stage[step->index];
    PLIM_FAIL_IF(x->done[step->index], err, PLIM_E_PLAN, "I4: stage %u is run by two steps", step->index);
    PLIM_FAIL_IF(s->depth != step->depth || s->post != step->post, err, PLIM_E_PLAN,
                 "I4: stage %u is run at another depth than its own", step->index);
    PLIM_FAIL_IF(s->first > p->n_nodes || s->count > p->n_nodes - s->first, err, PLIM_E_PLAN,
                 "I4: stage %u has nodes that do not exist", step->index);
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        PLIM_FAIL_IF(n->stage != step->index || n->depth != s->depth || n->post != s->post, err, PLIM_E_PLAN,
                     "I4: node %u is not at the depth of its stage", n->node);
        PLIM_FAIL_IF(n->accumulates && !x->init[i], err, PLIM_E_PLAN, "I4: node %u adds to sums that are not set up",
                     n->node);
        for (uint32_t k = 0; k < plan->graph->node[n->node].n_in; k++) PLIM_TRY(check_input(p, x, n, k, err));
    }
    x->done[step->index] = true;
    return PLIM_OK;
}

/* A sum is set up before its loops and merged behind them. */
static plim_status check_sum_step(const plim__pass *p, const progress *x, const plim__step *step, plim_error *err)
{
    const plim__pnode *n = &p->node[step->index];
    const bool merge = step->kind == PLIM__STEP_MERGE;
    PLIM_FAIL_IF(!n->accumulates || step->depth != n->acc_depth || step->post != merge, err, PLIM_E_PLAN,
                 "I5: node %u is set up or merged at another depth than its sums have", n->node);
    PLIM_FAIL_IF(merge ? x->merged[step->index] || !x->done[n->stage] : x->init[step->index], err, PLIM_E_PLAN,
                 "I4: sums of node %u are set up twice or merged too early", n->node);
    (merge ? x->merged : x->init)[step->index] = true;
    return PLIM_OK;
}

/* A write begins where what it writes is complete, once for each part. */
static plim_status check_write_step(const plim_plan *plan, const plim__pass *p, const progress *x,
                                    const plim__step *step, plim_error *err)
{
    const plim__pvalue *v = &p->value[step->index];
    const plim__value *value = &plan->graph->value[v->value];
    PLIM_FAIL_IF(v->producer == PLIM__NONE || !x->done[p->node[v->producer].stage], err, PLIM_E_PLAN,
                 "I4: '%s' is written before it is made", value->name);
    PLIM_FAIL_IF(v->file >= plan->n_files && !v->stored, err, PLIM_E_PLAN,
                 "I8: '%s' is written to a file that does not exist", value->name);
    const plim__pnode *by = &p->node[v->producer];
    const bool sum = plim__out_accumulates(by, value->out, value->shape.rank), is_whole = v->role == PLIM__ROLE_WHOLE;
    PLIM_FAIL_IF(sum && !x->merged[v->producer], err, PLIM_E_PLAN, "I5: '%s' is written before its parts are merged",
                 value->name);
    const uint8_t depth = is_whole ? 0 : sum ? by->acc_depth : by->depth;
    const bool post = is_whole || sum || by->post;
    PLIM_FAIL_IF(step->depth != depth || step->post != post, err, PLIM_E_PLAN,
                 "I4: '%s' is written at depth %u, it is complete at %u", value->name, step->depth, depth);
    x->written[step->index] = true;
    return PLIM_OK;
}

static plim_status check_step(const plim_plan *plan, const plim__pass *p, const progress *x, uint32_t t,
                              plim_error *err)
{
    const plim__step *s = &p->step[t];
    switch (s->kind) {
    case PLIM__STEP_READ:
        PLIM_FAIL_IF(p->value[s->index].role != PLIM__ROLE_READ || x->value_read[s->index] ||
                         (s->depth != p->value[s->index].depth && !p->value[s->index].streamed),
                     err, PLIM_E_PLAN, "I4: step %u reads what is not read there", t);
        x->value_read[s->index] = true;
        return PLIM_OK;
    case PLIM__STEP_INIT:
    case PLIM__STEP_MERGE:
        return check_sum_step(p, x, s, err);
    case PLIM__STEP_STAGE:
        return check_stage_step(plan, p, x, s, err);
    case PLIM__STEP_WRITE:
        return check_write_step(plan, p, x, s, err);
    case PLIM__STEP_WAIT:
        PLIM_FAIL_IF(!x->written[s->index], err, PLIM_E_PLAN, "I4: step %u waits for what is not being written", t);
        return PLIM_OK;
    }
    return plim__fail(err, PLIM_E_PLAN, "I4: step %u is of no kind", t);
}

static plim_status walk_steps(const plim_plan *plan, const plim__pass *p, const progress *x, plim_error *err)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        PLIM_TRY(check_step_place(p, t, err));
        PLIM_TRY(check_step(plan, p, x, t, err));
    }
    uint64_t in_stages = 0;
    for (uint32_t i = 0; i < p->n_stages; i++) {
        PLIM_FAIL_IF(!x->done[i], err, PLIM_E_PLAN, "I4: stage %u is never run", i);
        in_stages += p->stage[i].count;
    }
    PLIM_FAIL_IF(in_stages != p->n_nodes, err, PLIM_E_PLAN, "I4: the stages have %llu nodes, the pass has %u",
                 (unsigned long long)in_stages, p->n_nodes);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        PLIM_FAIL_IF(p->node[i].stage >= p->n_stages || p->node[i].accumulates != x->merged[i], err, PLIM_E_PLAN,
                     "I4: node %u is in no stage, or never merged", p->node[i].node);
    return PLIM_OK;
}

plim_status plim__check_steps(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    progress x = {.value_read = plim__new(a, p->n_values, sizeof(bool), err),
                  .written = plim__new(a, p->n_values, sizeof(bool), err),
                  .init = plim__new(a, p->n_nodes, sizeof(bool), err),
                  .merged = plim__new(a, p->n_nodes, sizeof(bool), err),
                  .done = plim__new(a, p->n_stages, sizeof(bool), err)};
    span *spans = plim__new(a, p->n_values, sizeof *spans, err);
    uint32_t *wait = plim__new(a, p->n_values, sizeof *wait, err);
    plim_status status =
        x.value_read && x.written && x.init && x.merged && x.done && spans && wait ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) status = walk_steps(plan, p, &x, err);
    if (status == PLIM_OK) status = check_lifetimes(plan, p, spans, err);
    for (uint32_t i = 0; i < p->n_values && status == PLIM_OK; i++) wait[i] = PLIM__NONE;
    if (status == PLIM_OK) status = check_writes(plan, p, wait, err);
    plim__free(a, x.value_read);
    plim__free(a, x.written);
    plim__free(a, x.init);
    plim__free(a, x.merged);
    plim__free(a, x.done);
    plim__free(a, spans);
    plim__free(a, wait);
    return status;
}

/* ----------------------------------------------------------------------------------------- I10: our own file */

/* How far the file of a spilled value has come. */
typedef enum arrival { NOT_WRITTEN, BEING_WRITTEN, ARRIVED } arrival;

/* One step. What a pass spills for itself (`flat`) is read back in the same trip through the same group of steps. Of what
 * it spills for others only a part was written and waited for while loops turn: all of it has arrived when the pass has
 * ended. */
static plim_status check_transfer(const plim_plan *plan, const plim__pass *p, uint32_t t, uint8_t *file,
                                  uint8_t *arrived_in, plim_error *err)
{
    const plim__step *s = &p->step[t];
    if (s->kind != PLIM__STEP_READ && s->kind != PLIM__STEP_WRITE && s->kind != PLIM__STEP_WAIT) return PLIM_OK;
    PLIM_ASSERT(s->index < p->n_values && s->depth <= p->n_cut); /* I4 has looked */
    const plim__pvalue *v = &p->value[s->index];
    if (v->stored) return PLIM_OK;
    PLIM_FAIL_IF(v->file >= plan->n_files, err, PLIM_E_PLAN,
                 "I10: step %u reads, writes or waits for a file that does not exist", p->time0 + t);
    const bool spilled = plan->file[v->file].kind == PLIM__FILE_SPILL;
    PLIM_FAIL_IF(spilled && plan->file[v->file].value != v->value, err, PLIM_E_PLAN,
                 "I10: '%s' goes to the file of another value", plan->graph->value[v->value].name);
    PLIM_FAIL_IF(spilled && s->kind == PLIM__STEP_READ && file[v->file] != ARRIVED, err, PLIM_E_PLAN,
                 "I10: step %u reads '%s' back before it is written", p->time0 + t, plan->graph->value[v->value].name);
    const uint8_t group = (uint8_t)plim__group_of(p, s->depth, s->post);
    PLIM_ASSERT(group < PLIM__MAX_GROUPS && file[v->file] <= ARRIVED);
    PLIM_FAIL_IF(spilled && s->kind == PLIM__STEP_READ && v->flat && arrived_in[v->file] != group, err, PLIM_E_PLAN,
                 "I10: step %u reads '%s' back in another trip than it was spilled in", p->time0 + t,
                 plan->graph->value[v->value].name);
    if (s->kind == PLIM__STEP_WRITE) file[v->file] = BEING_WRITTEN;
    if (s->kind == PLIM__STEP_WAIT && (p->n_cut == 0 || v->flat) && file[v->file] == BEING_WRITTEN) {
        file[v->file] = ARRIVED;
        arrived_in[v->file] = group;
    }
    return PLIM_OK;
}

/* Whatever is read back in a pass is, in one chain, a value that the pass has spilled: its box is that value's. */
static plim_status check_chains(const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    uint32_t reads = 0, linked = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        reads += v->flat && v->producer == PLIM__NONE;
        if (!v->flat || v->producer == PLIM__NONE) continue;
        for (uint32_t r = v->back; r != PLIM__NONE && linked <= p->n_values; r = p->value[r].back, linked++)
            PLIM_FAIL_IF(r >= p->n_values || !p->value[r].flat || p->value[r].producer != PLIM__NONE ||
                             p->value[r].value != v->value || p->value[r].file != v->file,
                         err, PLIM_E_PLAN, "I10: '%s' is read back as something else",
                         plan->graph->value[v->value].name);
    }
    PLIM_FAIL_IF(reads != linked, err, PLIM_E_PLAN, "I10: %u values are read back, %u of them were spilled", reads,
                 linked);
    return PLIM_OK;
}

plim_status plim__check_spills(const plim_plan *plan, plim_error *err)
{
    uint8_t *file = plim__new(&plan->alloc, plan->n_files, sizeof *file, err);
    uint8_t *arrived_in = plim__new(&plan->alloc, plan->n_files, sizeof *arrived_in, err); /* group of steps */
    plim_status status = file && arrived_in ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t q = 0; q < plan->n_passes && status == PLIM_OK; q++) {
        status = check_chains(plan, &plan->pass[q], err);
        for (uint32_t t = 0; t < plan->pass[q].n_steps && status == PLIM_OK; t++)
            status = check_transfer(plan, &plan->pass[q], t, file, arrived_in, err);
        for (uint32_t i = 0; i < plan->n_files; i++)
            if (file[i] == BEING_WRITTEN) file[i] = ARRIVED; /* a pass ends when everything has arrived */
    }
    plim__free(&plan->alloc, file);
    plim__free(&plan->alloc, arrived_in);
    return status;
}
