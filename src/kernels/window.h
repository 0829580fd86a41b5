/* Windows over boxes: the mean of a box around each element, and convolution.
 *
 * Output element i sees the input's elements [i - shift, i - shift + size) in every dimension; what lies outside the array is made up by the border.
 * The input's view may be any box that holds what the output needs, clamped to the array: its `lo` tells a border from a cut.
 *
 * Both work on rows of the last dimension, a few thousand columns at a time, that stay in the cache. The box sums each row horizontally once and
 * keeps as many row sums as the window is high. Long windows are summed without a subtraction, hence without drift, and NaN or infinity touch only
 * the windows that hold them: horizontally by doubling (the sum of 2w is two sums of w), vertically by van Herk's method (1992): sums from the end of the last block
 * of `size` rows plus sums from the start of the present one, three additions whatever the size.
 *
 * Scratch is the caller's; nothing is kept. Sums of at most 32 elements of f32 are done in f32, convolutions of integers in 64 bits, everything
 * else in f64. */
#ifndef PLIM_KERNELS_WINDOW_H
#define PLIM_KERNELS_WINDOW_H

#include "kernels/view.h"

typedef enum plim__border {
    PLIM__BORDER_CONSTANT, /* 0 */
    PLIM__BORDER_EDGE, PLIM__BORDER_REFLECT, PLIM__BORDER_SYMMETRIC, /* as numpy.pad has them */
    PLIM__BORDER_VALID, /* there is no outside: shift is 0 */
    PLIM__BORDER_FULL,  /* 0; shift is size - 1. Of convolutions alone */
} plim__border;

typedef struct plim__window {
    uint32_t rank;
    int64_t size[PLIM_MAX_RANK], shift[PLIM_MAX_RANK]; /* 1 and 0 where there is no window */
    int64_t extent[PLIM_MAX_RANK];                     /* of the whole input */
    plim__border border;
} plim__window;

/** out: the mean over the window; f16, bf16, f32 or f64. @param scratch  plim__box_scratch bytes, 64-byte aligned */
void plim__box_run(const plim__window *w, const plim__view *out, const plim__view *in, void *scratch);
/** @param row  the length of the output's last dimension. Monotone in it. */
uint64_t plim__box_scratch(const plim__window *w, int64_t row);

/** out: the sum of the window's elements times `kernel` reversed in every dimension. `kernel` has the last dimensions of the window. out: f32, f64,
 *  i64 or u64. Elements that a CONSTANT or FULL border would make up take no part. */
void plim__convolve_run(const plim__window *w, const plim__view *out, const plim__view *in, const plim__view *kernel, void *scratch);
uint64_t plim__convolve_scratch(const plim__window *w, int64_t row);

/* ---- inner loops, in f32, f64, and for convolutions in 64-bit integers, which wrap */
typedef struct plim__window_lanes {
    void (*add)(void *acc, const void *x, int64_t n);                                             /* acc += x */
    void (*sum)(void *out, const void *const *rows, int64_t k, double scale, int64_t n);          /* out = scale * (rows[0] + ... ), 1 <= k */
    void (*taps)(void *acc, const void *x, const void *coef, int64_t k, int64_t n);               /* acc[j] += sum of coef[s] * x[j + s] */
} plim__window_lanes;

extern const plim__window_lanes plim__window_lanes_base[3], plim__window_lanes_v3[3]; /* f32, f64, integers */

#endif
