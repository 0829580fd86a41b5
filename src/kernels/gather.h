/* Looking up and adding up by indices along one dimension.
 *
 *     a[before..., index..., behind...]  <->  x[before..., index[index...], behind...]
 *
 * An index below 0 counts from the end; one that is still outside names nothing: it reads as NaN (0 for integers) and is not added anywhere.
 * x is whole along the dimension; everything else is a box that fits the others. Any strides. Serial, nothing is allocated or kept. */
#ifndef PLIM_KERNELS_GATHER_H
#define PLIM_KERNELS_GATHER_H

#include "kernels/reduce.h"
#include "kernels/view.h"

/** a = x at the indices. a and x: one dtype, any; index: i32 or i64. */
void plim__gather_run(const plim__view *a, const plim__view *x, const plim__view *index, uint32_t axis);
/** x at the indices = that and a, added, multiplied, or the smaller or larger of the two, in C order of a's box. a and x: one dtype, f32 or f64. */
void plim__scatter_run(plim__fold how, const plim__view *x, const plim__view *a, const plim__view *index, uint32_t axis);

#endif
