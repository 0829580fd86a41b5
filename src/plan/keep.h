/* What is kept in memory, what is dropped and made again, and what goes to a file and comes back, for an uncut pass inside a limit. */
#ifndef PLIM_PLAN_KEEP_H
#define PLIM_PLAN_KEEP_H

#include "plan/schedule.h"
#include "plan/tasks.h"

/** Runs the tasks in `order`, and whenever memory would exceed `limit` lets go of what costs least for the room it makes and the time it makes it for.
 *  @param order  all tasks, each after what it reads
 *  @param fits   false: not inside this limit; then `out` is empty */
plim_status plim__keep(plim__schedule *out, bool *fits, const plim_plan *plan, const plim__tasks *u, const uint32_t *order, uint64_t limit,
                       plim_error *err);

#endif
