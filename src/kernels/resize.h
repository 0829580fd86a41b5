/* Resizing over the last one to three dimensions of a box, and the gradient.
 *
 * Along each resized dimension output index i takes its value between input elements `lo` and `hi`, with weight w for the latter (nearest: lo alone).
 * The coordinate is a fraction of integers wherever the scale is, so that no rounding decides on a neighbour:
 *
 *     x(i) = (a*i + b) / c        lo = floor(x), hi = lo + 1, w = x - lo, both clamped into the input
 *
 * Nearest has its rounding folded into a, b and c: the one element is floor((a*i + b) / c). Both taps grow with i.
 *
 * Output rows are worked on a few hundred columns at a time, whose taps are found once for all rows. The gradient collects for each of its own
 * elements what was spread, in f64: no two calls write the same element. Any strides; f32 or f64. Serial, nothing is allocated or kept; 20 KiB of
 * stack. */
#ifndef PLIM_KERNELS_RESIZE_H
#define PLIM_KERNELS_RESIZE_H

#include "kernels/view.h"

#define PLIM__RESIZE_MAX 3

/** How one dimension is resized. */
typedef struct plim__resize_map {
    bool linear;
    int64_t in, out; /* extents: below 2^30, and not 0 where anything is computed */
    int64_t a, b, c; /* c > 0; or c == 0: by scale */
    double scale, half; /* x(i) = (i + half) / scale - half */
    uint32_t round;     /* nearest, by scale: 0 half down, 1 half up, 2 down, 3 up */
} plim__resize_map;

typedef struct plim__resize_tap {
    int64_t lo, hi;
    double w;
} plim__resize_tap;

/** floor of the coordinate, which may lie outside the input. */
int64_t plim__resize_floor(const plim__resize_map *m, int64_t i);
plim__resize_tap plim__resize_tap_at(const plim__resize_map *m, int64_t i);
/** The output indices that take something from input element j; empty if none does. */
plim__range plim__resize_span(const plim__resize_map *m, int64_t j);

/** @param map  one per resized dimension, the last `space` of the views
 *  @param in  a box that holds all taps of `out` */
void plim__resize_run(const plim__view *out, const plim__view *in, const plim__resize_map *map, uint32_t space);
/** @param dy  a box that holds the spans of `dx` */
void plim__resize_back_run(const plim__view *dx, const plim__view *dy, const plim__resize_map *map, uint32_t space);

/* ---- inner loops, in f32 and f64: offsets are in elements */
typedef struct plim__resize_lanes {
    void (*pick)(void *out, const void *x, const int64_t *lo, int64_t n);
    /* out = (add ? out : 0) + weight * ((1 - w) * x[lo] + w * x[hi]) */
    void (*blend)(void *out, const void *x, const int64_t *lo, const int64_t *hi, const void *w, double weight, bool add, int64_t n);
    void (*collect)(double *acc, const void *x, int64_t stride, double weight, int64_t n); /* acc += weight * x */
    void (*store)(void *out, int64_t stride, const double *acc, bool add, int64_t n);
} plim__resize_lanes;

extern const plim__resize_lanes plim__resize_lanes_base[2], plim__resize_lanes_v3[2]; /* f32, f64 */

#endif
