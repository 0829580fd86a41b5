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

/** Node `reader` of a pass reads as its input `in` a state that output `out` of node `writer` overwrites in the same
 * pass. */
typedef struct plim__state_use {
    uint32_t reader, in, writer, out;
} plim__state_use;

typedef struct plim__state_uses {
    plim__state_use *use; /* the caller frees it */
    uint32_t n, cap;
} plim__state_uses;

/** I6, I7, I9, I12 and I13 in tiles of the pass and in blocks of their stages: in all of them where there are few, else
 * in the first ones, the last ones and some between. @param replaces  per value of the graph: the state whose place it
 * takes, or PLIM__NONE. In check_boxes.c */
plim_status plim__check_boxes(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces, plim_error *err);
/** I12 in every tile of the pass and every block of its stages, and I15. @param axis  of a pass that is not cut: the
 * axis ranges of its one tile; else NULL. In check_bounds.c */
plim_status plim__check_all_tiles(const plim_plan *plan, const plim__pass *p, const plim__range *axis, plim_error *err);
/** I3, and the order of the steps in I4 and I5. In check_steps.c */
plim_status plim__check_steps(const plim_plan *plan, const plim__pass *p, plim_error *err);
/** I10. In check_steps.c */
plim_status plim__check_spills(const plim_plan *plan, plim_error *err);
/** I16: `alias_of` makes chains of values that may lie on each other. In check_share.c */
plim_status plim__check_chains(const plim_plan *plan, const plim__pass *p, plim_error *err);
/** I16: every slot has one owner; and what of I17 follows from the tables. In check_share.c */
plim_status plim__check_shares(const plim_plan *plan, const plim__pass *p, plim_error *err);
/** I17 in one tile, and in one block of a stage: values lie on the elements that they overwrite. In check_share.c */
plim_status plim__check_tile_shares(const plim_plan *plan, const plim__pass *p, const plim__ranges *tile,
                                    plim_error *err);
plim_status plim__check_block_shares(const plim_plan *plan, const plim__pass *p, const plim__stage *s,
                                     const plim__ranges *block, plim_error *err);
/** Who reads what is overwritten in the same pass. @param out  to be freed, also when this fails. In check.c */
plim_status plim__find_state_uses(const plim_plan *plan, const plim__pass *p, const uint32_t *replaces,
                                  plim__state_uses *out, plim_error *err);
/** I9 in one tile. In check.c */
plim_status plim__check_tile_states(const plim_plan *plan, const plim__pass *p, const plim__state_uses *uses,
                                    const plim__ranges *tile, plim_error *err);

#endif
