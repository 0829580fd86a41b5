/* How much memory and time a built pass takes with given tiles. */
#ifndef PLIM_PLAN_MEASURE_H
#define PLIM_PLAN_MEASURE_H

#include "plan/build.h"

/** Where parts of dimensions are rounded, some up and some not. */
typedef struct plim__rounding {
    int64_t extent[PLIM__MAX_LOOPS]; /* per loop: of the shortest such dimension that it moves; 0: there is none */
    uint32_t even;                   /* set of loops whose tiles divide it without a rest: only blocks of a tile are rounded */
} plim__rounding;

/** Reusable memory of the measurer; one per search. */
typedef struct plim__measure {
    uint64_t passes; /* that have been measured: what is below is of the last one */
    plim__ranges tile, block;
    uint32_t cap_tile_axes, cap_tile_values, cap_block_axes, cap_block_values;
    int64_t (*len)[PLIM_MAX_RANK]; uint32_t cap_len; /* of each dimension of each value: the longest of any tile, of PRIVATE ones of any block */
    int64_t *axis_len; uint32_t cap_axis_len;        /* of each axis of nodes with scratch: the longest of any block */
    int64_t (*reach)[PLIM_MAX_RANK]; uint32_t cap_reach; /* of each dimension of each value: see find_reach */
    int64_t *axis_reach; uint32_t cap_axis_reach;        /* of each axis */
    plim__rounding *rounded; uint32_t n_rounded, cap_rounded;
    int64_t uneven_extent;            /* of the stage that is measured: the shortest axis that its blocks do not divide; 0: they divide all */
    plim__slot *slot;                 /* of the pass measured last; times count from its first step */
    uint32_t n_slots, cap_slots;
    uint8_t *deepest; uint32_t cap_deepest; /* of each slot: the deepest step that uses it */
    uint8_t *shallowest; uint32_t cap_shallowest;
    uint64_t *live; uint32_t cap_live; /* bytes alive at each step */
    double *when; uint32_t cap_when;   /* seconds into a trip at which each step begins, by the estimate */
    uint64_t peak;                    /* the most bytes alive at one step, what `carried` says included */
    uint32_t peak_step;
    uint64_t read_bytes, write_bytes, requests;
    double seconds;
    double compute; /* of the seconds: what the kernels take, halos included */
} plim__measure;

/** Fills slots, private offsets, blocks of stages, and the estimates.
 *  @param p        tiles are set; stage and value tables are filled in
 *  @param carried  bytes of values that lie in the arena before and after this pass
 *  @param exact    over all tiles, not over a few: for the plan that is kept */
plim_status plim__pass_measure(plim__measure *m, const plim_plan *plan, plim__pass *p, uint64_t carried, bool exact, plim_error *err);
/** The same without the estimates of time, over a few tiles. */
plim_status plim__pass_measure_peak(plim__measure *m, const plim_plan *plan, plim__pass *p, uint64_t carried, plim_error *err);
void plim__measure_free(plim__measure *m, const plim__alloc *a);

/** The description of the file that a READ or written value has; for one that will be spilled, `made` is filled and returned. */
const plim__io_file *plim__pvalue_file(const plim_plan *plan, const plim__pvalue *v, plim__io_file *made);

#endif
