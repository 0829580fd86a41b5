/* See transfers.h. Asks the plan's slots and steps; that reads and writes which share memory or a file do not meet follows from I2, I3 and I10.
 * Allocates the lists, which the caller frees. No state; any thread. */
#include "plan/transfers.h"
#include "plan/cost.h"

#include <stdlib.h>

#define FURTHEST 256 /* steps */
#define EARLIER 3    /* times as long before it is needed as reading takes: others are under way, too */

/* The step of its group, the first or a later one, from which on what READ step `step` reads is in its file, and the same value was not just read: it may have
 * been written by this pass, and the same value may have been read before.
 * @param from  no earlier step is looked at */
static uint32_t ready_from(const plim__pass *p, uint32_t step, uint32_t from)
{
    const plim__pvalue *read = &p->value[p->step[step].index];
    PLIM_ASSERT(from <= step && p->step[step].kind == PLIM__STEP_READ);
    for (uint32_t t = step; t-- > from;) {
        const plim__step *s = &p->step[t];
        if (plim__step_group(p, t) != plim__step_group(p, step)) return t + 1;
        if (s->kind == PLIM__STEP_READ && s->index == p->step[step].index) return t + 1;
        if (s->kind == PLIM__STEP_WAIT && p->value[s->index].file == read->file && p->value[s->index].value == read->value) return t + 1;
    }
    return from;
}

/* The steps of a pass that stand in a group. */
typedef struct span {
    uint32_t begin, end;
} span;

/* The steps inside the loops deeper than `depth`, where there are such. */
static span steps_inside(const plim__pass *p, uint32_t depth)
{
    span s = {UINT32_MAX, 0};
    for (uint32_t t = 0; t < p->n_steps; t++) {
        if (p->step[t].depth <= depth) continue;
        if (s.begin == UINT32_MAX) s.begin = t;
        PLIM_ASSERT(s.end == 0 || s.end == t); /* they stand together */
        s.end = t + 1;
    }
    return s;
}

bool plim__read_is_early(const plim__pass *p, uint32_t step, const plim__slot *slot, uint32_t time0)
{
    const plim__step *s = &p->step[step];
    PLIM_ASSERT(s->kind == PLIM__STEP_READ);
    if (p->value[s->index].ahead) return true;
    if (!s->post || slot->copies > 1 || slot->first >= time0 + step) return false;
    for (uint32_t t = step; t-- > 0 && time0 + t >= slot->first;)
        if (plim__step_group(p, t) != plim__step_group(p, step)) return true;
    return false;
}

/* In the tile that was measured last. */
static double step_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__step *s)
{
    return s->kind == PLIM__STEP_STAGE ? plim__stage_seconds(m, plan, p, &p->stage[s->index]) : 0;
}

/* Lets READ step t, whose slot lives from the beginning of its group on, begin while the loops inside turn, if there is
 * room as long as they do. What this trip itself has put into a spill file is not there before.
 * @param inside  the steps of these loops */
static void advance_over_loops(plim__measure *m, const plim__pass *p, uint32_t t, span inside)
{
    const plim__step *step = &p->step[t];
    const plim__pvalue *v = &p->value[step->index];
    plim__slot *s = &m->slot[v->slot];
    if (!step->post || v->flat || v->streamed || inside.end == 0 || s->first != inside.end) return;
    if (m->peak_step >= inside.begin && m->peak_step < inside.end) return; /* there is no room where the peak is */
    for (uint32_t i = inside.begin; i < inside.end; i++)
        if (m->live[i] + s->bytes > m->peak) return;
    for (uint32_t i = inside.begin; i < inside.end; i++) m->live[i] += s->bytes;
    s->first = inside.begin;
}

void plim__transfers_advance(plim__measure *m, const plim_plan *plan, const plim__pass *p)
{
    span inside[PLIM__MAX_LOOPS + 1]; /* the loops deeper than the index */
    for (uint32_t d = 0; d <= p->n_cut; d++) inside[d] = steps_inside(p, d);
    for (uint32_t t = 0; t < p->n_steps; t++) {
        if (p->step[t].kind != PLIM__STEP_READ) continue;
        plim__slot *s = &m->slot[p->value[p->step[t].index].slot];
        if (s->first != t || s->copies > 1) continue;
        PLIM_ASSERT(s->last >= t && m->live[t] <= m->peak);
        const uint64_t bytes = s->bytes;
        const uint32_t ready = ready_from(p, t, t > FURTHEST ? t - FURTHEST : 0);
        double left = EARLIER * plim__file_seconds(plan, bytes, false);
        for (; s->first > ready && left > 0 && m->live[s->first - 1] + bytes <= m->peak; s->first--) {
            m->live[s->first - 1] += bytes;
            left -= step_seconds(m, plan, p, &p->step[s->first - 1]);
        }
        if (left > 0) advance_over_loops(m, p, t, inside[p->step[t].depth]);
    }
}

/* ----------------------------------------------------------------------------------------------------- the schedule */

static bool share_memory(const plim__slot *a, const plim__slot *b)
{
    return a->offset < b->offset + b->bytes * b->copies && b->offset < a->offset + a->bytes * a->copies;
}

/* A step of the plan's time line, as one of the pass. */
static uint32_t in_pass(const plim__pass *p, uint64_t time) { return time > p->time0 ? (uint32_t)(time - p->time0) : 0; }

/* The step from which on nobody else is in the memory of slot `s`. */
static uint32_t free_from(const plim_plan *plan, const plim__pass *p, uint32_t s)
{
    uint64_t from = 0;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *other = &plan->slot[i];
        if (i == s || other->last >= plan->slot[s].first || !share_memory(other, &plan->slot[s])) continue;
        if (other->last + UINT64_C(1) > from) from = other->last + UINT64_C(1);
    }
    return in_pass(p, from);
}

static plim__transfer early_read(const plim_plan *plan, const plim__pass *p, uint32_t step)
{
    const uint32_t value = p->step[step].index, free = free_from(plan, p, p->value[value].slot), ready = ready_from(p, step, 0);
    PLIM_ASSERT(p->step[step].kind == PLIM__STEP_READ && plan->slot[p->value[value].slot].copies == 1);
    PLIM_ASSERT(free <= step && ready <= step); /* I2, I10: at its own step at the latest its memory is free, and its bytes are there */
    return (plim__transfer){.value = value, .step = step, .at = free > ready ? free : ready};
}

/* Where WAIT step `step` has to be done: before somebody else is in its memory, or reads its bytes, and before its group ends. */
static plim__transfer late_wait(const plim__transfers *o, const plim_plan *plan, const plim__pass *p, uint32_t step)
{
    const plim__pvalue *written = &p->value[p->step[step].index];
    const plim__slot *slot = &plan->slot[written->slot];
    const plim__transfer_group *g = &o->group[plim__step_group(p, step)];
    PLIM_ASSERT(written->producer != PLIM__NONE && written->file != PLIM__NONE && !written->stored && slot->copies == 1);
    uint32_t due = p->n_cut > 0 ? g->end - 1 : p->n_steps;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *other = &plan->slot[i];
        if (i == written->slot || other->first <= slot->last || other->first < p->time0 || !share_memory(other, slot)) continue;
        if (in_pass(p, other->first) < due) due = in_pass(p, other->first);
    }
    for (uint32_t i = g->read; i < o->n_reads && o->read[i].step < g->end; i++) {
        const plim__pvalue *read = &p->value[o->read[i].value];
        const bool touches = (read->file == written->file && read->value == written->value) || share_memory(&plan->slot[read->slot], slot);
        if (o->read[i].step > step && touches && o->read[i].at < due) due = o->read[i].at;
    }
    return (plim__transfer){.value = p->step[step].index, .step = step, .at = due > step ? due : step};
}

static int earlier(const void *a, const void *b)
{
    const plim__transfer *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

static const plim__slot *slot_of(const plim_plan *plan, const plim__pass *p, uint32_t step)
{
    return &plan->slot[p->value[p->step[step].index].slot];
}

/* The steps of each group stand together. */
static void find_groups(plim__transfers *o, const plim__pass *p)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        plim__transfer_group *g = &o->group[plim__step_group(p, t)];
        if (g->end == 0) *g = (plim__transfer_group){.begin = t};
        PLIM_ASSERT(g->end == 0 || g->end == t);
        g->end = t + 1;
    }
}

/* Reads that begin early and writes that are waited for, group by group. */
static void list_transfers(plim__transfers *o, const plim_plan *plan, const plim__pass *p)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        plim__transfer_group *g = &o->group[plim__step_group(p, t)];
        if (t == g->begin) g->read = o->n_reads;
        if (p->step[t].kind != PLIM__STEP_READ || plim__is_ring(&p->value[p->step[t].index], slot_of(plan, p, t))) continue;
        if (!plim__read_is_early(p, t, slot_of(plan, p, t), p->time0)) o->read[o->n_reads++] = early_read(plan, p, t);
    }
    for (uint32_t t = 0; t < p->n_steps; t++) {
        plim__transfer_group *g = &o->group[plim__step_group(p, t)];
        if (t == g->begin) g->wait = o->n_waits;
        if (p->step[t].kind == PLIM__STEP_WAIT) o->wait[o->n_waits++] = late_wait(o, plan, p, t);
    }
    if (o->n_waits > 0) qsort(o->wait, o->n_waits, sizeof *o->wait, earlier);
}

/* Reads that begin while inner loops turn, by the depth of their steps; what this trip needs first. Nobody else is in their memory meanwhile: I2. */
static void list_early(plim__transfers *o, const plim_plan *plan, const plim__pass *p)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < PLIM__MAX_LOOPS; d++) {
        o->early0[d] = n;
        for (int next = 0; next < 2 && d < p->n_cut; next++)
            for (uint32_t t = 0; t < p->n_steps; t++) {
                if (p->step[t].kind != PLIM__STEP_READ || p->step[t].depth != d || p->value[p->step[t].index].ahead != next) continue;
                if (plim__read_is_early(p, t, slot_of(plan, p, t), p->time0)) o->early[n++] = (plim__transfer){.value = p->step[t].index, .step = t};
            }
    }
    o->early0[PLIM__MAX_LOOPS] = n;
}

static void list_rings(plim__transfers *o, const plim_plan *plan, const plim__pass *p)
{
    o->ahead = 1;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        if (p->step[t].kind != PLIM__STEP_READ || !plim__is_ring(&p->value[p->step[t].index], slot_of(plan, p, t))) continue;
        o->ring[o->n_rings++] = p->step[t].index; /* it is read once in every trip: I4 */
        if (slot_of(plan, p, t)->copies > o->ahead) o->ahead = slot_of(plan, p, t)->copies;
    }
}

static uint32_t steps_of(const plim__pass *p, plim__step_kind kind)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->n_steps; t++) n += p->step[t].kind == kind;
    return n;
}

uint64_t plim__transfers_bytes(const plim__pass *p)
{
    const uint64_t reads = steps_of(p, PLIM__STEP_READ), waits = steps_of(p, PLIM__STEP_WAIT);
    return (2 * reads + waits) * sizeof(plim__transfer) + reads * (sizeof(uint32_t) + sizeof(int64_t)); /* the runner counts trips of early reads */
}

plim_status plim__transfers_new(plim__transfers *out, const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    const uint32_t reads = steps_of(p, PLIM__STEP_READ), waits = steps_of(p, PLIM__STEP_WAIT);
    *out = (plim__transfers){0};
    out->read = plim__new(&plan->alloc, reads, sizeof *out->read, err);
    out->wait = plim__new(&plan->alloc, waits, sizeof *out->wait, err);
    out->ring = plim__new(&plan->alloc, reads, sizeof *out->ring, err);
    out->early = plim__new(&plan->alloc, reads, sizeof *out->early, err);
    if (!out->read || !out->wait || !out->ring || !out->early) return PLIM_E_NOMEM;
    find_groups(out, p);
    list_early(out, plan, p);
    list_transfers(out, plan, p);
    list_rings(out, plan, p);
    PLIM_ASSERT(out->n_waits == waits && out->n_reads + out->n_rings + out->early0[PLIM__MAX_LOOPS] == reads);
    return PLIM_OK;
}

void plim__transfers_free(plim__transfers *o, const plim__alloc *a)
{
    plim__free(a, o->read);
    plim__free(a, o->wait);
    plim__free(a, o->ring);
    plim__free(a, o->early);
    *o = (plim__transfers){0};
}
