/* Pooling of boxes and its gradient: the largest element of each window, or the mean. The border is never the largest, and is counted by a mean only
 * on request, and then only up to `after`: a window of a rounded-up output may reach further. Sums are in f64. The largest of a window with a NaN is
 * NaN. A window with no element gives minus infinity, or a mean of 0.
 *
 * Views are of rank 5, (N, C, space...), all of one dtype, f32 or f64. Serial and without state; staging is on the stack. */
#ifndef PLIM_KERNELS_POOL_H
#define PLIM_KERNELS_POOL_H

#include "kernels/sliding.h"
#include "kernels/view.h"

typedef struct plim__pooling {
    plim__sliding window;
    bool average, count_border;
} plim__pooling;

/** @param y  exactly the part; @param x  at least what its windows see, clamped to the tensor */
void plim__pool_run(const plim__pooling *p, const plim__view *y, const plim__view *x);
/** The gradient with respect to x; of several largest elements the first in C order has it.
 *  @param dx  exactly the part; @param dy, y  at least the windows that touch it; @param x  at least what those see
 *  A mean does not look at x and y. */
void plim__pool_back(const plim__pooling *p, const plim__view *dx, const plim__view *x, const plim__view *y, const plim__view *dy);

/** How many elements of window w of dimension d of space a mean counts. */
int64_t plim__pool_counted(const plim__pooling *p, uint32_t d, int64_t w);

/* ---- inner loops, in f32 and f64. Steps are in elements. */
typedef struct plim__pool_lanes {
    void (*max)(void *acc, const void *x, int64_t step, int64_t n);         /* acc = the larger of acc and x; NaN stays */
    void (*sum)(double *acc, const void *x, int64_t step, int64_t n);       /* acc += x */
    void (*add)(void *acc, int64_t step, const double *x, int64_t n);       /* acc += x */
} plim__pool_lanes;

extern const plim__pool_lanes plim__pool_lanes_base[2], plim__pool_lanes_v3[2]; /* f32, f64 */

#endif
