/* What a pass does, in order: nodes of a template pass, some of them more than once, and where each finds what it reads.
 *
 *     item      0 conv    1 relu    2 pool    3 relu      4 ...
 *     makes     a         b         c         b (again)
 *
 * An instance is a value during one stay in memory: from where it is made, or read from a file, to the last item that reads
 * this instance. A value that is dropped and recomputed, or spilled and read back, has several.
 *
 * Nodes and values are those of the template: a pass of the same loops that keeps everything. Items stand in the order in which
 * they run: by group (tasks.h), and inside a group in the order that was chosen. */
#ifndef PLIM_PLAN_SCHEDULE_H
#define PLIM_PLAN_SCHEDULE_H

#include "graph/op.h"

typedef struct plim__instance {
    uint32_t value;   /* of the template pass */
    uint32_t item;    /* that makes it; PLIM__NONE: read from the value's file, or read back from where it was spilled to */
    uint32_t back_of; /* read back: the instance that was spilled; else PLIM__NONE */
    bool again;       /* made before: what goes to an output's or a state's file is the first */
    bool spill;       /* made: goes to the spill file as well */
    bool streamed;    /* read in every trip of the loops around its reader, right before it is needed */
} plim__instance;

typedef struct plim__item {
    uint32_t node; /* of the template pass */
    uint32_t in0;  /* where its inputs lie in plim__schedule.operand */
    uint32_t out[PLIM__MAX_OUT]; /* instances, PLIM__NONE where there is no output */
} plim__item;

typedef struct plim__schedule {
    plim__item *item;         uint32_t n_items, cap_items;
    plim__instance *instance; uint32_t n_instances, cap_instances;
    uint32_t *operand;        uint32_t n_operands, cap_operands; /* instances */
    uint64_t peak;    /* the most bytes alive at one time, by the simulation that made it */
    double seconds;   /* that it takes, by the same simulation */
    double least;     /* that it takes at the least: where all reading and writing goes on while something is computed */
} plim__schedule;

void plim__schedule_free(plim__schedule *s, const plim__alloc *a); /* keep.c */

#endif
