/* What a measured pass will take, in seconds: a model with few constants, good enough to choose between plans. */
#ifndef PLIM_PLAN_COST_H
#define PLIM_PLAN_COST_H

#include "plan/measure.h"

#define PLIM__READ_RATE 3.0e9         /* bytes per second */
#define PLIM__WRITE_RATE 1.8e9
#define PLIM__REQUEST_SECONDS 15e-6   /* one read or write of its own, several in flight */
#define PLIM__REQUEST_WORK 5e-6       /* what it takes of the threads that compute */
#define PLIM__STEP_SECONDS 10e-6
#define PLIM__NODE_SECONDS 0.5e-6     /* for the boxes of a node in one tile */

/** Sets m->seconds, read_bytes, write_bytes, requests. m->tile holds the ranges of one in the middle, which sees its neighbours on all sides. */
void plim__pass_cost(plim__measure *m, const plim_plan *plan, const plim__pass *p);
/** Seconds for touching an arena for the first time: none for a program with inputs that stay from run to run, for it is run many times in the same one. */
double plim__touch_seconds(const plim_graph *g, uint64_t bytes);
/** Seconds that node `n` of a pass takes in a tile where its axes have these ranges, on all threads. */
double plim__pnode_seconds(const plim_plan *plan, const plim__pnode *n, const plim__range *axis);
/** Seconds that node `i` of the graph takes to compute, on all threads and with nothing in its way. */
double plim__node_seconds(const plim_plan *plan, uint32_t i);

#endif
