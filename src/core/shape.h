/* Shapes and regions. A region is a box of indices, half open in every dimension. */
#ifndef PLIM_CORE_SHAPE_H
#define PLIM_CORE_SHAPE_H

#include "core/error.h"

typedef struct plim__range {
    int64_t lo, hi; /* [lo, hi) */
} plim__range;

typedef struct plim__region {
    uint32_t rank;
    plim__range dim[PLIM_MAX_RANK];
} plim__region;

static inline int64_t plim__range_len(plim__range r) { return r.hi > r.lo ? r.hi - r.lo : 0; }

plim__region plim__region_whole(const plim_shape *s);
/** Elements inside; 0 where any dimension is empty. The region lies inside a shape whose count was checked. */
uint64_t plim__region_count(const plim__region *r);
bool plim__region_equal(const plim__region *a, const plim__region *b);
bool plim__region_inside(const plim__region *inner, const plim__region *outer);
/** Smallest box that holds both. An empty one adds nothing. */
plim__region plim__region_hull(const plim__region *a, const plim__region *b);
bool plim__shape_equal(const plim_shape *a, const plim_shape *b);

#endif
