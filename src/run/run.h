/* Runs a plan. After the arena is mapped and touched nothing that holds tensor data is allocated; every box is checked against the slot that was
 * planned for it, so a wrong plan is an error and never a stray write. */
#ifndef PLIM_RUN_RUN_H
#define PLIM_RUN_RUN_H

#include "plan/plan.h"

/** Runs it. Outputs are renamed into place only when everything has succeeded. plan->run holds the arena afterwards. */
plim_status plim__run(plim_plan *plan, plim_run_facts *facts, plim_error *err);
/** Lets go of the last run's arena: results in memory are gone. */
void plim__run_drop(plim_plan *plan);
/** The memory of a value that the last run left in the arena. */
const void *plim__run_result(const plim_plan *plan, uint32_t value);
/** The shape of an output after the run: its value's, with the first dimension counted where the output says so. */
void plim__run_shape(const plim_plan *plan, const plim__output *o, plim_shape *shape);

#endif
