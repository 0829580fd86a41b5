/* What the parts of blocked convolution share: windows along one dimension of space as lines, and what lines see as it lies in scratch. */
#ifndef PLIM_KERNELS_CONV_BLOCKED_LINES_H
#define PLIM_KERNELS_CONV_BLOCKED_LINES_H

#include "kernels/conv_blocked.h"

/** One dimension of space of a convolution, or of one of those that a gradient falls apart into: output q is at out_lo + q*out_step, and its tap t,
 *  which is number tap_lo + t*tap_step of w, sees in_lo + q*in_step + t*tap_in. All absolute. */
typedef struct plim__line {
    int64_t n, taps;
    int64_t out_lo, out_step;
    int64_t in_lo, in_step, tap_in;
    int64_t tap_lo, tap_step;
} plim__line;

/** Dimension d of space, forward: windows over x. */
plim__line plim__line_forward(const plim__sliding *s, uint32_t d, plim__range windows);
/** Backward: the windows over every stride-th element of `part`, from its element number `phase` on. */
plim__line plim__line_backward(const plim__sliding *s, uint32_t d, plim__range part, int64_t phase);
/** How many phases there are. */
static inline int64_t plim__line_phases(const plim__sliding *s, uint32_t d, plim__range part)
{
    return plim__min(s->stride[d], plim__range_len(part));
}
/** Outputs [at, at + n), as far as there are any. */
plim__line plim__line_part(plim__line l, int64_t at, int64_t n);
/** What is seen, border included: for lines with outputs and taps. */
plim__range plim__line_seen(const plim__line *l);
/** The outputs that see no border, which lies beyond `extent`; maybe none. */
plim__range plim__line_clear(const plim__line *l, int64_t extent);
/** The taps of output q that see no border; maybe none. */
plim__range plim__line_taps(const plim__line *l, int64_t q, int64_t extent);

/** How what a line sees lies in scratch: once and in order or, where that is less, tap by tap. */
typedef struct plim__laid {
    int64_t outer, inner;                 /* elements in two levels */
    int64_t from, outer_from, inner_from; /* where they come from */
    int64_t first, step, tap;             /* where tap 0 of output 0 lies; from output to output; from tap to tap */
} plim__laid;

/** @param step_most  of `step`, at least 1 */
plim__laid plim__lay(const plim__line *l, int64_t step_most);
static inline int64_t plim__laid_count(const plim__laid *l) { return l->outer * l->inner; }

/** A sample of an array, blocked or in planes, as its lines see it. */
typedef struct plim__seen {
    const plim__view *v;
    int64_t lane;      /* elements of a pixel, which are neighbours: 16, or 1 */
    int64_t extent[2]; /* of the whole array */
} plim__seen;

/** Copies `blocks` blocks (planes) from number `first` on of a sample: to (blocks, rows, columns, lane), zero in the border. Samples and blocks are
 *  counted from the first of the box. */
void plim__lay_out(float *to, const plim__seen *from, int64_t sample, int64_t first, int64_t blocks, const plim__laid *rows, const plim__laid *cols);

/* ---- the parts of plim__blocked_run. The 16 lanes of a block are neighbours, and kernels are dense. */
typedef struct plim__blocked_operands {
    const plim__blocked_lanes *lanes;
    const plim__blocked *c;
    plim__view y, x, w;
    plim__blocked_end end;
    float *scratch;
    uint32_t threads;
} plim__blocked_operands;

void plim__blocked_tiles(const plim__blocked_operands *o, bool backward);
/** Bytes for one thread. */
uint64_t plim__blocked_tiles_scratch(const plim__blocked *c, bool backward, int64_t outs, int64_t chain, int64_t rows, int64_t cols);
void plim__blocked_depths(const plim__blocked_operands *o, bool backward);
void plim__blocked_weights(const plim__blocked_operands *o);
/** Bytes for one of so many threads. */
uint64_t plim__blocked_weights_scratch(const plim__blocked *c, int64_t outs, int64_t chain, int64_t rows, int64_t cols, uint32_t threads);

/** Element [a, b, c, d], counted from the first of the box. */
static inline float *plim__blocked_at(const plim__view *v, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (float *)v->data + a * v->stride[0] + b * v->stride[1] + c * v->stride[2] + d * v->stride[3];
}

static inline plim__range plim__blocked_box(const plim__view *v, uint32_t d) { return (plim__range){v->lo[d], v->lo[d] + v->n[d]}; }

static inline int64_t plim__share(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

/** a * b, but no more than `most`; nothing is negative. */
static inline int64_t plim__capped(int64_t a, int64_t b, int64_t most) { return a > 0 && b > most / a ? most : plim__min(a * b, most); }

#define PLIM__SQUARE (PLIM__BLOCK * PLIM__BLOCK)  /* elements of a block of w */
#define PLIM__BLOCKED_AREA (32 * 1024)            /* elements of x that are used before the next ones: 128 KiB */

#endif
