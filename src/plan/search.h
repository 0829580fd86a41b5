/* Finds the passes of a plan. */
#ifndef PLIM_PLAN_SEARCH_H
#define PLIM_PLAN_SEARCH_H

#include "plan/plan.h"

/** Looks for the fastest plan whose arena has at most `arena_max` bytes. `*fits` is false, and the plan empty or partial, where there is none. */
plim_status plim__plan_search(plim_plan *plan, uint64_t arena_max, bool *fits, plim_error *err);
/** The smallest arena with a plan: plim__plan_search succeeds there and above. */
plim_status plim__plan_floor(plim_plan *plan, uint64_t *floor, plim_error *err);
/** Forgets passes, slots, spill files; homes are again those of the inputs. */
void plim__plan_clear(plim_plan *plan);
/** Sets the I/O engine's configuration: level 0 is comfortable, 2 the smallest. */
void plim__plan_io(plim_plan *plan, int level);

#endif
