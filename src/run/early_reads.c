#include "run/early_reads.h"

/* The step, counted in the whole plan, from which on nobody else is in the memory of slot `s`. */
static uint64_t free_from(const plim_plan *plan, uint32_t s)
{
    const plim__slot *slot = &plan->slot[s];
    const uint64_t lo = slot->offset, hi = lo + slot->bytes * slot->copies;
    uint64_t from = 0;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *other = &plan->slot[i];
        if (i == s || other->last >= slot->first || other->offset >= hi || other->offset + other->bytes * other->copies <= lo) continue;
        if (other->last + 1u > from) from = other->last + 1u;
    }
    return from;
}

/* What is read may have been written by this pass, and the same value may have been read before. */
static uint32_t ready_from(const plim__pass *p, uint32_t step)
{
    const plim__pvalue *read = &p->value[p->step[step].index];
    for (uint32_t t = step; t-- > 0;) {
        const plim__step *s = &p->step[t];
        if (s->kind == PLIM__STEP_READ && s->index == p->step[step].index) return t + 1;
        if (s->kind == PLIM__STEP_WAIT && p->value[s->index].file == read->file) return t + 1;
    }
    return 0;
}

plim_status plim__early_reads_new(plim__early_read **out, uint32_t *n, const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    uint32_t reads = 0;
    *n = 0;
    for (uint32_t t = 0; t < p->n_steps && p->n_cut == 0; t++) reads += p->step[t].kind == PLIM__STEP_READ;
    *out = plim__new(&plan->alloc, reads, sizeof **out, err);
    if (!*out) return PLIM_E_NOMEM;
    for (uint32_t t = 0; t < p->n_steps && reads > 0; t++) {
        if (p->step[t].kind != PLIM__STEP_READ) continue;
        const uint64_t free = free_from(plan, p->value[p->step[t].index].slot);
        const uint32_t local = free > p->time0 ? (uint32_t)(free - p->time0) : 0, ready = ready_from(p, t);
        (*out)[(*n)++] = (plim__early_read){.value = p->step[t].index, .step = t, .from = local > ready ? local : ready};
    }
    return PLIM_OK;
}
