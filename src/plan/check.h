/* Parts of the verifier, which is check.c. */
#ifndef PLIM_PLAN_CHECK_H
#define PLIM_PLAN_CHECK_H

#include "plan/plan.h"

static inline bool plim__box_is_inside(const plim__region *inner, const plim__region *outer)
{
    for (uint32_t d = 0; d < inner->rank; d++)
        if (inner->dim[d].lo < outer->dim[d].lo || inner->dim[d].hi > outer->dim[d].hi) return false;
    return true;
}

/** I6, I7, I9, I12 and I13 in tiles of the pass and in blocks of their stages: in all of them where there are few, else in the first ones, the last ones and
 *  some between. In check_boxes.c. */
plim_status plim__check_boxes(const plim_plan *plan, const plim__pass *p, plim_error *err);
/** I9 in one tile. @param claim  its ranges and boxes. In check.c */
plim_status plim__check_tile_states(const plim_plan *plan, const plim__pass *p, const plim__ranges *claim, plim_error *err);

#endif
