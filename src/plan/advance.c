#include "plan/advance.h"
#include "plan/cost.h"

#define FURTHEST 256 /* steps */
#define EARLIER 3    /* times as long before it is needed as reading takes: others are under way, too */

/* What is read may have been written by this pass, and the same value may have been read before. */
uint32_t plim__read_ready(const plim__pass *p, uint32_t step)
{
    const plim__pvalue *read = &p->value[p->step[step].index];
    for (uint32_t t = step; t-- > 0;) {
        const plim__step *s = &p->step[t];
        if (s->kind == PLIM__STEP_READ && s->index == p->step[step].index) return t + 1;
        if (s->kind == PLIM__STEP_WAIT && p->value[s->index].file == read->file && p->value[s->index].value == read->value) return t + 1;
    }
    return 0;
}

static double step_seconds(const plim_plan *plan, const plim__pass *p, const plim__step *s)
{
    double seconds = 0;
    if (s->kind != PLIM__STEP_STAGE) return 0;
    const plim__stage *stage = &p->stage[s->index];
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) seconds += plim__node_seconds(plan, p->node[i].node);
    return seconds;
}

void plim__advance_reads(plim__measure *m, const plim_plan *plan, const plim__pass *p)
{
    for (uint32_t t = 0; t < p->n_steps; t++) {
        if (p->step[t].kind != PLIM__STEP_READ) continue;
        plim__slot *s = &m->slot[p->value[p->step[t].index].slot];
        if (s->first != t) continue;
        const uint64_t bytes = s->bytes * s->copies;
        const uint32_t ready = plim__read_ready(p, t);
        double left = EARLIER * plim__file_seconds(plan, bytes, false);
        for (; s->first > ready && t - s->first < FURTHEST && left > 0 && m->live[s->first - 1] + bytes <= m->peak; s->first--) {
            m->live[s->first - 1] += bytes;
            left -= step_seconds(plan, p, &p->step[s->first - 1]);
        }
    }
}
