/* Which of the many ways to run a program is best inside a budget.
 *
 * A recipe says how a plan is made, and does not depend on the budget: what is kept in memory at some limit (keep.c), one pass with loops, several passes
 * inside some arena (search.c). A budget's plan is the fastest recipe that fits. More memory only ever adds recipes, so a larger budget is never slower,
 * and what fits in one fits in every larger one.
 *
 * That takes many searches. A plan that is not `thorough` has one, inside the budget: for programs of a few nodes, of which a plan is wanted in
 * milliseconds. */
#ifndef PLIM_PLAN_PORTFOLIO_H
#define PLIM_PLAN_PORTFOLIO_H

#include "plan/plan.h"

typedef struct plim__portfolio plim__portfolio;

plim_status plim__portfolio_new(plim__portfolio **out, plim_plan *plan, plim_error *err);
void plim__portfolio_free(plim__portfolio **portfolio);
/** The smallest arena with a plan. First of all. */
plim_status plim__portfolio_floor(plim__portfolio *f, uint64_t *arena);
/** Makes the plan with the best recipe for an arena of at most `arena_max` bytes. `*fits` is always true from the floor on. */
plim_status plim__portfolio_plan(plim__portfolio *f, uint64_t arena_max, bool *fits);

#endif
