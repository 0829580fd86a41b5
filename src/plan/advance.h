/* Reads of a pass without loops that begin before they are needed. */
#ifndef PLIM_PLAN_ADVANCE_H
#define PLIM_PLAN_ADVANCE_H

#include "plan/measure.h"

/** Lets the slots of what is read live from earlier on, as far as the pass's peak stays what it is: so that reading can go on while something is computed. */
void plim__advance_reads(plim__measure *m, const plim_plan *plan, const plim__pass *p);
/** The step from which on what READ step `step` reads is in its file, and the same value was not just read. */
uint32_t plim__read_ready(const plim__pass *p, uint32_t step);

#endif
