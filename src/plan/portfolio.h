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
/** The least plim__plan_need of all recipes. First of all. */
plim_status plim__portfolio_floor(plim__portfolio *f, uint64_t *need);
/** Makes the plan with the best recipe whose need is at most `most` bytes. `*fits` is always true from the floor on. May be called again. */
plim_status plim__portfolio_plan(plim__portfolio *f, uint64_t most, bool *fits, plim_error *err);

#endif
