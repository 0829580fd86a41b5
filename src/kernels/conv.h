/* Correlation of boxes, and its two gradients: y = x * w over windows, the sum over a window's taps and the channels of a group. Whichever of the
 * three is asked for is added to; the other two are read.
 *
 *     y[n, o, p] = sum over c, tap of x[n, group(o)*channels + c, p*stride - before + tap*dilation] * w[o, c, tap]
 *
 * Matrix products do the work. A tile of windows is laid out as a matrix of (channel, tap) rows by windows (Chellapilla, Puri and Simard 2006), as
 * much of it at a time as the cache holds:   y = w @ seen,   w += y @ seen^T,   and for x   seen = w^T @ y, spread out again. Windows of one
 * element are a matrix as they lie. Groups with few outputs, as in depthwise layers, and views with strides that products do not take are done by
 * loops over rows.
 *
 * x may be any box that holds what the windows see, clamped to the tensor; y and w are exactly the part. Scratch is the caller's, nothing is kept. */
#ifndef PLIM_KERNELS_CONV_H
#define PLIM_KERNELS_CONV_H

#include "kernels/sliding.h"
#include "kernels/view.h"

typedef struct plim__filter {
    plim__sliding window;
    int64_t groups;
    int64_t channels, outputs; /* of one group */
} plim__filter;

typedef enum plim__conv_into { PLIM__CONV_Y, PLIM__CONV_X, PLIM__CONV_W } plim__conv_into;

/** Adds to y, x or w what the other two make. All of one dtype, f32 or f64, and of rank 5.
 *  @param y  (N, outputs, windows...); for x: at least the windows that touch x's box
 *  @param x  (N, channels, space...)
 *  @param w  (outputs, channels of a group, kernel...): its first two dimensions say which outputs and channels the part is about
 *  @param scratch  plim__conv_scratch bytes, 64-byte aligned */
void plim__conv_run(const plim__filter *f, plim__conv_into into, const plim__view *y, const plim__view *x, const plim__view *w, void *scratch,
                    uint32_t threads);
/** @param channels  of w's box; @param windows  of a sample. Monotone in both. */
uint64_t plim__conv_scratch(const plim__filter *f, plim_dtype dtype, int64_t channels, int64_t windows, uint32_t threads);

/* ---- inner loops, in f32 and f64. Steps are in elements. */
typedef struct plim__conv_lanes {
    void (*axpy)(void *acc, int64_t acc_step, const void *x, int64_t x_step, const void *scale, int64_t n);  /* acc += *scale * x */
    void (*dot)(void *acc, const void *a, int64_t a_step, const void *b, int64_t b_step, int64_t n);          /* *acc += sum of a * b */
} plim__conv_lanes;

extern const plim__conv_lanes plim__conv_lanes_base[2], plim__conv_lanes_v3[2]; /* f32, f64 */

#endif
