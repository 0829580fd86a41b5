/* Reads that begin earlier than their step: see advance.h. Works on the slots and the profile of the measure that has
 * just measured the pass, and makes nothing larger than its peak. Allocates nothing; one thread at a time for each measure. */
#include "plan/advance.h"
#include "plan/cost.h"

#define FURTHEST 256 /* steps */
#define EARLIER 3    /* times as long before it is needed as reading takes: others are under way, too */

/* What is read may have been written by this pass, and the same value may have been read before. */
uint32_t plim__read_ready(const plim__pass *p, uint32_t step, uint32_t from)
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

/* In the tile that was measured last. */
static double step_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__step *s)
{
    return s->kind == PLIM__STEP_STAGE ? plim__stage_seconds(m, plan, p, &p->stage[s->index]) : 0;
}

void plim__advance_reads(plim__measure *m, const plim_plan *plan, const plim__pass *p)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        if (p->step[t].kind != PLIM__STEP_READ || !plim__read_is_early(p, &p->value[p->step[t].index])) continue;
        plim__slot *s = &m->slot[p->value[p->step[t].index].slot];
        if (s->first != t) continue;
        PLIM_ASSERT(s->last >= t && m->live[t] <= m->peak);
        const uint64_t bytes = s->bytes * s->copies;
        const uint32_t ready = plim__read_ready(p, t, t > FURTHEST ? t - FURTHEST : 0);
        double left = EARLIER * plim__file_seconds(plan, bytes, false);
        for (; s->first > ready && left > 0 && m->live[s->first - 1] + bytes <= m->peak; s->first--) {
            m->live[s->first - 1] += bytes;
            left -= step_seconds(m, plan, p, &p->step[s->first - 1]);
        }
    }
}
