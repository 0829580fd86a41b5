/* The reads of a pass without loops begin before their step: as soon as the memory that they go to is free, while something else is computed. The plan
 * knows nothing of it, for not a byte more is used. */
#ifndef PLIM_RUN_EARLY_READS_H
#define PLIM_RUN_EARLY_READS_H

#include "plan/plan.h"

typedef struct plim__early_read {
    uint32_t value; /* of the pass */
    uint32_t step;  /* that needs it */
    uint32_t from;  /* the step from which on its memory is free, and its bytes are in the file */
} plim__early_read;

/** In the order of their steps; none for a pass with loops. @param out  to be freed, also when this fails */
plim_status plim__early_reads_new(plim__early_read **out, uint32_t *n, const plim_plan *plan, const plim__pass *p, plim_error *err);

#endif
