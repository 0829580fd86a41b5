/* What an uncut pass does, in order: nodes, some of them more than once, and where each finds what it reads.
 *
 *     item      0 conv    1 relu    2 pool    3 relu      4 ...
 *     makes     a         b         c         b (again)
 *
 * An instance is a value during one stay in memory: from where it is made, or read from a file, to the last item that reads this instance. A value that is
 * dropped and made again, or put into a file and read back, has several. */
#ifndef PLIM_PLAN_SCHEDULE_H
#define PLIM_PLAN_SCHEDULE_H

#include "graph/op.h"

typedef struct plim__instance {
    uint32_t value;
    uint32_t item; /* that makes it; PLIM__NONE: read from the value's file, or from the one that it was spilled to */
    bool again;    /* made before: what goes to an output's or a state's file is the first */
    bool spill;    /* made: goes to a file of our own as well; read: comes from there */
} plim__instance;

typedef struct plim__item {
    uint32_t node;
    uint32_t in0; /* where its inputs lie in plim__schedule.operand */
    uint32_t out[PLIM__MAX_OUT]; /* instances, PLIM__NONE where there is no output */
} plim__item;

typedef struct plim__schedule {
    plim__item *item;         uint32_t n_items, cap_items;
    plim__instance *instance; uint32_t n_instances, cap_instances;
    uint32_t *operand;        uint32_t n_operands, cap_operands; /* instances */
    uint64_t peak;    /* the most bytes alive at one time, by the simulation that made it */
    double seconds;   /* estimated, but for the steps of the pass that it becomes */
} plim__schedule;

void plim__schedule_free(plim__schedule *s, const plim__alloc *a); /* keep.c */

#endif
