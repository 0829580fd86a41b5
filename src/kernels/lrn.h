/* Local response normalisation across channels (dimension 1), and its gradient.
 *
 *     y(c) = x(c) * s(c)**-beta        s(c) = bias + alpha/size * sum of x(k)**2, k in [c - down, c + up]
 *     dx(c) = dy(c) * s(c)**-beta - 2*alpha*beta/size * x(c) * sum of dy(k) * x(k) * s(k)**(-beta - 1), k in [c - up, c + down]
 *
 * with down = (size - 1)/2 and up = size - 1 - down, both cut off at the first and the last channel. Columns (the last dimension, or samples where
 * there is none) are worked on a few hundred at a time, channel by channel. Sums of squares are in f64.
 *
 * Any strides; f32 or f64. Serial, nothing is allocated or kept; the gradient's sums of one window of channels are in the caller's scratch. */
#ifndef PLIM_KERNELS_LRN_H
#define PLIM_KERNELS_LRN_H

#include "kernels/view.h"

typedef struct plim__lrn {
    int64_t size, channels; /* channels: of the whole array */
    double alpha, beta, bias;
} plim__lrn;

static inline int64_t plim__lrn_down(const plim__lrn *l) { return (l->size - 1) / 2; }
static inline int64_t plim__lrn_up(const plim__lrn *l) { return l->size - 1 - plim__lrn_down(l); }

/** @param x  a box with all channels that out's windows reach */
void plim__lrn_run(const plim__lrn *l, const plim__view *out, const plim__view *x);
/** @param x, dy  boxes with all channels that are needed: dy's windows, and x's windows around those
 *  @param scratch  plim__lrn_back_scratch bytes, 64-byte aligned */
void plim__lrn_back_run(const plim__lrn *l, const plim__view *dx, const plim__view *x, const plim__view *dy, void *scratch);
uint64_t plim__lrn_back_scratch(const plim__lrn *l, plim_dtype t);

/* ---- inner loops, in f32 and f64; everything dense but `x`, whose elements are `stride` apart */
typedef struct plim__lrn_lanes {
    void (*squares)(double *acc, const void *x, int64_t stride, int64_t n);                                         /* acc += x * x */
    void (*affine)(void *s, const double *acc, double scale, double bias, int64_t n);                               /* s = bias + scale * acc */
    void (*times)(void *out, int64_t out_stride, const void *x, int64_t stride, const void *p, int64_t n);          /* out = x * p */
    void (*over)(void *q, const void *dyp, const void *x, int64_t stride, const void *s, int64_t n);                /* q = dyp * x / s */
    void (*sum)(double *acc, const void *q, int64_t n);                                                             /* acc += q */
    void (*finish)(void *dx, int64_t dx_stride, const void *dyp, const void *x, int64_t stride, const double *acc, double scale, int64_t n);
    /* dx = dyp - scale * x * acc */
} plim__lrn_lanes;

extern const plim__lrn_lanes plim__lrn_lanes_base[2], plim__lrn_lanes_v3[2]; /* f32, f64 */

#endif
