/* What nodes, transfers and passes take, in seconds, on the machine that a plan was given (plan/machine.h). Pure but for the measure that plim__pass_cost fills. */
#ifndef PLIM_PLAN_COST_H
#define PLIM_PLAN_COST_H

#include "plan/measure.h"

/** What moving one box costs. */
typedef struct plim__box_cost {
    double seconds;  /* elapsed, with the engine's other requests in flight */
    double cpu;      /* seconds of a CPU */
    double latency;  /* until the first of its requests is done, with nothing else in flight */
    double requests; /* system calls; a block at the edge of a box counts as half of one */
} plim__box_cost;

/** The sum over the requests that the transfer engine makes for the box (io_requests.h). f->direct says how; neither direct nor drop: it lies in memory.
 *  @param c  the engine's
 *  @param boxes  of the same size that are written up to the one that completes a block at the edge of this one, itself included: 1 where the next one does */
plim__box_cost plim__box_seconds(const plim_machine *m, const plim__io_config *c, const plim__io_file *f, const plim__region *box, bool write, double boxes);
/** The same for value `v` of a pass that `m` has measured: the largest of its boxes. @param bytes  set to those of the box */
plim__box_cost plim__transfer_cost(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__pvalue *v, bool write, double *bytes);
/** The same, elapsed alone, for dense bytes of a file of the plan's own. */
double plim__file_seconds(const plim_plan *plan, uint64_t bytes, bool write);

/** Seconds that `kernel` takes for so many units, on all threads. */
double plim__work_seconds(const plim__speed *s, plim__work w, double points);
/** Seconds that node `n` of a measured pass takes in the tile that was looked at last, on all threads and by itself. */
double plim__pnode_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__pnode *n);
/** The same for a stage: one trip, calls included. */
double plim__stage_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__stage *s);
/** Seconds that node `i` of the graph takes to compute, on all threads and with nothing in its way. */
double plim__node_seconds(const plim_plan *plan, uint32_t i);
/** Seconds for touching an arena for the first time: none for a program with inputs that stay from run to run, for it is run many times in the same one. */
double plim__touch_seconds(const plim_plan *plan, uint64_t bytes);
/** Sets m->seconds, compute, read_bytes, write_bytes, requests. m->tile holds the ranges of one in the middle, which sees its neighbours on all sides. */
void plim__pass_cost(plim__measure *m, const plim_plan *plan, const plim__pass *p);

#endif
