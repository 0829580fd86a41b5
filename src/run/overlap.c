/* Finds where the transfers of a pass begin and end, once, before it runs: see overlap.h.
 *
 * Asks the plan's slots and steps and changes nothing in them; that reads and writes which share memory or a file do not
 * meet follows from I2, I3 and I10. Allocates the two lists, which the caller frees; any thread. */
#include "run/overlap.h"
#include "plan/advance.h"

#include <stdlib.h>

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

static plim__overlap_step early_read(const plim_plan *plan, const plim__pass *p, uint32_t step)
{
    PLIM_ASSERT(p->step[step].kind == PLIM__STEP_READ && plim__read_is_early(p, &p->value[p->step[step].index]));
    const uint32_t value = p->step[step].index, free = free_from(plan, p, p->value[value].slot), ready = plim__read_ready(p, step, 0);
    PLIM_ASSERT(free <= step && ready <= step); /* I2, I10: at its own step at the latest its memory is free, and its bytes are there */
    return (plim__overlap_step){.value = value, .step = step, .at = free > ready ? free : ready};
}

/* Where WAIT step `step` has to be done: before somebody else is in its memory, or reads its bytes, and before its group ends. */
static plim__overlap_step late_wait(const plim__overlap *o, const plim_plan *plan, const plim__pass *p, uint32_t step)
{
    const plim__pvalue *written = &p->value[p->step[step].index];
    const plim__slot *slot = &plan->slot[written->slot];
    const plim__overlap_group *g = &o->group[plim__step_group(p, step)];
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
    return (plim__overlap_step){.value = p->step[step].index, .step = step, .at = due > step ? due : step};
}

static int earlier(const void *a, const void *b)
{
    const plim__overlap_step *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* The steps of each group stand together. */
static void find_groups(plim__overlap *o, const plim__pass *p)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        plim__overlap_group *g = &o->group[plim__step_group(p, t)];
        if (g->end == 0) *g = (plim__overlap_group){.begin = t};
        PLIM_ASSERT(g->end == 0 || g->end == t);
        g->end = t + 1;
    }
}

/* Reads that begin early and writes that are waited for, group by group. */
static void list_transfers(plim__overlap *o, const plim_plan *plan, const plim__pass *p)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        plim__overlap_group *g = &o->group[plim__step_group(p, t)];
        if (t == g->begin) g->read = o->n_reads;
        if (p->step[t].kind == PLIM__STEP_READ && plim__read_is_early(p, &p->value[p->step[t].index])) o->read[o->n_reads++] = early_read(plan, p, t);
    }
    for (uint32_t t = 0; t < p->n_steps; t++) {
        plim__overlap_group *g = &o->group[plim__step_group(p, t)];
        if (t == g->begin) g->wait = o->n_waits;
        if (p->step[t].kind == PLIM__STEP_WAIT) o->wait[o->n_waits++] = late_wait(o, plan, p, t);
    }
    if (o->n_waits > 0) qsort(o->wait, o->n_waits, sizeof *o->wait, earlier);
}

plim_status plim__overlap_new(plim__overlap *out, const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    uint32_t reads = 0, waits = 0;
    *out = (plim__overlap){0};
    for (uint32_t t = 0; t < p->n_steps; t++) {
        reads += p->step[t].kind == PLIM__STEP_READ;
        waits += p->step[t].kind == PLIM__STEP_WAIT;
    }
    out->read = plim__new(&plan->alloc, reads, sizeof *out->read, err);
    out->wait = plim__new(&plan->alloc, waits, sizeof *out->wait, err);
    if (!out->read || !out->wait) return PLIM_E_NOMEM;
    find_groups(out, p);
    list_transfers(out, plan, p);
    PLIM_ASSERT(out->n_waits == waits && out->n_reads <= reads); /* rings are read ahead instead */
    return PLIM_OK;
}

void plim__overlap_free(plim__overlap *o, const plim__alloc *a)
{
    plim__free(a, o->read);
    plim__free(a, o->wait);
    *o = (plim__overlap){0};
}
