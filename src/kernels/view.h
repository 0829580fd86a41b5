/* A box of a tensor in memory: what every kernel works on. Dimensions are absolute: lo says where in the whole tensor the
 * box starts, so that a kernel can tell a border from a cut. Strides are in elements and may be 0 (broadcast) or negative. */
#ifndef PLIM_KERNELS_VIEW_H
#define PLIM_KERNELS_VIEW_H

#include "core/shape.h"

typedef struct plim__view {
    void *data; /* the element at lo; aligned to its own size */
    plim_dtype dtype;
    uint32_t rank;
    int64_t lo[PLIM_MAX_RANK];
    int64_t n[PLIM_MAX_RANK];
    int64_t stride[PLIM_MAX_RANK];
} plim__view;

/** The part of `v` that is `r` (absolute, inside v). */
plim__view plim__view_part(const plim__view *v, const plim__region *r);
/** A dense C-order view of region `r` at `data`. */
plim__view plim__view_dense(void *data, plim_dtype dtype, const plim__region *r);
uint64_t plim__view_count(const plim__view *v);
plim__region plim__view_region(const plim__view *v);
/** The element at absolute index `at`. */
void *plim__view_at(const plim__view *v, const int64_t *at);

#endif
