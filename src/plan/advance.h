/* Reads that begin before they are needed, inside the group of steps that they belong to. */
#ifndef PLIM_PLAN_ADVANCE_H
#define PLIM_PLAN_ADVANCE_H

#include "plan/measure.h"

/** Lets the slots of what is read live from earlier on, as far as the pass's peak stays what it is: so that reading can go on while something is computed. */
void plim__advance_reads(plim__measure *m, const plim_plan *plan, const plim__pass *p);
/** The step of its group, the first or a later one, from which on what READ step `step` reads is in its file, and the same value was not just read.
 *  @param from  no earlier step is looked at */
uint32_t plim__read_ready(const plim__pass *p, uint32_t step, uint32_t from);

/** Does a read of this value begin when its memory is free, inside its group? The others fill rings, or are done at their step. */
static inline bool plim__read_is_early(const plim__pass *p, const plim__pvalue *v) { return v->role == PLIM__ROLE_READ && (p->n_cut == 0 || v->streamed); }

static inline uint32_t plim__step_group(const plim__pass *p, uint32_t step) { return plim__group_of(p, p->step[step].depth, p->step[step].post); }

#endif
