/* Runs a plan. After the arena is mapped and touched nothing that holds tensor data is allocated; every box is checked against the slot that was
 * planned for it, so a wrong plan is an error and never a stray write.
 *
 * Once:         plim__run
 * Many times:   plim__run_open, plim__run_put for what stays, then plim__run_go as often as is wanted; plim__run_finish where there are output files;
 *               plim__run_drop. What a program carries from run to run (its states) stays where the plan has it: in the arena or in a file of our own. */
#ifndef PLIM_RUN_RUN_H
#define PLIM_RUN_RUN_H

#include "plan/plan.h"

/** Runs it. Outputs are renamed into place only when everything has succeeded. plan->run holds the arena afterwards. */
plim_status plim__run(plim_plan *plan, plim_run_facts *facts, plim_error *err);

/** Opens files, maps and touches the arena. On failure nothing is left open. */
plim_status plim__run_open(plim_plan *plan, plim_error *err);
/** The same in memory of the caller's, so that several plans can take turns in one block. @param arena  plan->arena_bytes, aligned to PLIM__IO_ALIGN, good
 *  until plim__run_drop; NULL: a block of its own */
plim_status plim__run_open_in(plim_plan *plan, void *arena, plim_error *err);
/** All passes once. After a failure only dropping is possible. */
plim_status plim__run_go(plim_plan *plan, plim_error *err);
/** Instead of plim__run_go, for a program of one pass with a node that the caller computes (PLIM__OP_CALLER): goes on up to its next part, which the
 *  caller then computes. The first call begins. @param part  valid until the next call @param stopped  false: everything is done */
plim_status plim__run_next(plim_plan *plan, plim__call *part, bool *stopped, plim_error *err);
/** Gives outputs their names, if no input has changed. */
plim_status plim__run_finish(plim_plan *plan, plim_error *err);
/** Closes everything but the arena: results in memory stay. @param facts  may be NULL */
void plim__run_close(plim_plan *plan, plim_run_facts *facts);
/** Lets go of the last run's arena too. */
void plim__run_drop(plim_plan *plan);

/** The memory of a value that the last run left in the arena, or of one that stays there from run to run; NULL for others. */
const void *plim__run_result(const plim_plan *plan, uint32_t value);
/** The shape of an output after the run: its value's, with the first dimension counted where the output says so. */
void plim__run_shape(const plim_plan *plan, const plim__output *o, plim_shape *shape);

/* ---- stays.c: inputs that stay from run to run, between plim__run_open and plim__run_close */
/** Writes bytes [offset, offset + n) of an input that is held in the arena or lies in a file of our own. */
plim_status plim__run_put(plim_plan *plan, uint32_t value, uint64_t offset, const void *bytes, uint64_t n, plim_error *err);
plim_status plim__run_get(plim_plan *plan, uint32_t value, uint64_t offset, void *bytes, uint64_t n, plim_error *err);
/** The largest piece of the arena, of up to `wanted` bytes, that nothing lies in between runs. Valid until the next run. @param got  its bytes */
void *plim__run_spare(const plim_plan *plan, uint64_t wanted, uint64_t *got);
/** Says which rows of its file an input with picked rows has in the next run: as many as its dimension 0. Read while it runs. */
void plim__run_pick(plim_plan *plan, uint32_t value, const int64_t *row);

#endif
