/* When the transfers of a pass begin, and when they are waited for, inside a trip through a group of steps (plim__group_of). A read begins as soon as the
 * memory that it goes to is free, and a write is waited for when somebody else needs the memory that it comes from, or its bytes, and at the end of the group
 * at the latest: meanwhile something is computed. The plan's memory is all that is used. Rings of slots are filled and emptied by pass_run.c itself. */
#ifndef PLIM_RUN_OVERLAP_H
#define PLIM_RUN_OVERLAP_H

#include "plan/plan.h"

typedef struct plim__overlap_step {
    uint32_t value; /* of the pass */
    uint32_t step;  /* a READ or a WAIT */
    uint32_t at;    /* a read may begin here, before its step; a write has to be done here, behind its step */
} plim__overlap_step;

/** A group of steps that stand together, and where its reads and waits begin. */
typedef struct plim__overlap_group {
    uint32_t begin, end; /* steps */
    uint32_t read, wait; /* the first in the lists below */
} plim__overlap_group;

typedef struct plim__overlap {
    plim__overlap_step *read, *wait; /* by group; reads by their steps, waits by where they have to be done */
    uint32_t n_reads, n_waits;
    plim__overlap_group group[PLIM__MAX_GROUPS];
} plim__overlap;

/** @param out  to be freed, also when this fails */
plim_status plim__overlap_new(plim__overlap *out, const plim_plan *plan, const plim__pass *p, plim_error *err);
void plim__overlap_free(plim__overlap *o, const plim__alloc *a);

#endif
