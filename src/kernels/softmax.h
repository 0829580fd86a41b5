/* softmax, its logarithm, and their gradients, along one dimension of a box.
 *
 * The largest element of a column is subtracted first, so that exp never overflows; sums are in f64, in many lanes or blocks, so that a column of any
 * length keeps its digits. The work is done a block of columns at a time, each of a size that stays in the cache. Columns that are dense in memory
 * have loops of their own; the rest is left to the kernels for elements and reductions, which know every stride. A NaN makes its column NaN.
 *
 * Serial, nothing is allocated or kept; 100 KiB of stack. All views have one dtype, f32 or f64, and the same extents. */
#ifndef PLIM_KERNELS_SOFTMAX_H
#define PLIM_KERNELS_SOFTMAX_H

#include "kernels/view.h"

/** out = exp(x) / sum(exp(x)) along `axis`, or its logarithm. `out` and `in` do not overlap. */
void plim__softmax_run(const plim__view *out, const plim__view *in, uint32_t axis, bool log);
/** dx = y * (dy - sum(dy * y)), or dy - exp(y) * sum(dy) for the logarithm. dx overlaps neither. */
void plim__softmax_back_run(const plim__view *dx, const plim__view *y, const plim__view *dy, uint32_t axis, bool log);

/* ---- inner loops over dense rows, in f32 and f64 */
typedef struct plim__softmax_lanes {
    double (*top)(const void *x, int64_t n);                                            /* the largest; NaN is passed over */
    void (*shift)(void *out, const void *x, double by, int64_t n);                      /* out = x - by */
    double (*sum)(const void *x, int64_t n);
    double (*dot)(const void *x, const void *y, int64_t n);
    void (*scale)(void *out, double by, int64_t n);                                     /* out *= by */
    void (*lower)(void *out, const void *x, double first, double second, int64_t n);    /* out = (x - first) - second */
    void (*back)(void *dx, const void *y, const void *dy, double sum, int64_t n);       /* dx = y * (dy - sum) */
    void (*back_log)(void *dx, const void *dy, double sum, int64_t n);                  /* dx = dy - dx * sum */
} plim__softmax_lanes;

extern const plim__softmax_lanes plim__softmax_lanes_base[2], plim__softmax_lanes_v3[2]; /* f32, f64 */

#endif
