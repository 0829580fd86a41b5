/* Convolution on channel-blocked arrays, f32, and its two gradients. A blocked array is [N, Cb, H, W, 16] with channel c = 16*cb + i: the 16
 * channels of a block lie side by side, so that they fill whole vectors and a pixel of a block is one cache line. Channels beyond the true count
 * are padding.
 *
 *     kind     x                    w                               y = [N, Ob, H', W', 16]
 *     FULL     [N, Cb, H, W, 16]    [Ob, Cb/groups, kh, kw, 16, 16]  the last two dimensions: channel, output
 *     PLANES   [N, C, H, W]         [Ob, C, kh, kw, 16]              first layers: a few channels, not worth a block
 *     DEPTH    [N, Cb, H, W, 16]    [Cb, kh, kw, 16]                 each channel by itself
 *
 * Forward and the gradient with respect to x are one algorithm. A tile of pixels by output blocks is held in registers while the chain (blocks of
 * channels, taps, channels of a block) passes by: a row of w is loaded, each pixel's channel is broadcast. The gradient of a convolution with
 * stride s is s*s convolutions, one for each residue of the position, each with its own taps and with stride 1 over y (Dumoulin and Visin 2016);
 * its weights are turned 16 by 16 into a panel of scratch. Where windows reach over the border, the rows that a tile area needs are laid out in
 * scratch with their zeros; elsewhere x is read where it lies. The gradient with respect to w holds a few rows of a 16 by 16 block in registers
 * and streams over pixels: borders only shorten its loops.
 *
 * y and x come out the same to the bit however the work is cut: each element adds up its chain in one order. w is a sum over samples and pixels whose
 * order depends on the cut and on the threads, not on timing. Scratch is the caller's, nothing is kept. */
#ifndef PLIM_KERNELS_CONV_BLOCKED_H
#define PLIM_KERNELS_CONV_BLOCKED_H

#include "kernels/sliding.h"
#include "kernels/view.h"

#define PLIM__BLOCK 16

typedef enum plim__blocked_kind { PLIM__BLOCKED_FULL, PLIM__BLOCKED_PLANES, PLIM__BLOCKED_DEPTH } plim__blocked_kind;
typedef enum plim__blocked_into { PLIM__BLOCKED_Y, PLIM__BLOCKED_X, PLIM__BLOCKED_W } plim__blocked_into;

typedef struct plim__blocked {
    plim__sliding window;      /* of its three dimensions the last two */
    plim__blocked_kind kind;
    int64_t groups;            /* of FULL; blocks do not reach over them */
    int64_t channels, outputs; /* without padding */
    bool relu;                 /* y = max(0, ...) */
    float most;                /* y = min(most, ...); 0: no limit */
} plim__blocked;

/** What becomes of a sum before it is y: sum * scale + bias + other, then the limits. Each may be NULL. */
typedef struct plim__blocked_end {
    const plim__view *bias, *scale; /* (Ob, 16) */
    const plim__view *other;        /* like y */
} plim__blocked_end;

typedef struct plim__blocked_lanes plim__blocked_lanes;

/** The loops that this processor runs best. */
const plim__blocked_lanes *plim__blocked_best(void);

/** Writes y or x, or adds to w, what the others make. Views have the ranks of the table; x and y may be boxes that hold just what the part needs.
 *  @param end  with `into` Y only
 *  @param scratch  plim__blocked_scratch bytes, 64-byte aligned */
void plim__blocked_run(const plim__blocked_lanes *lanes, const plim__blocked *c, plim__blocked_into into, const plim__view *y, const plim__view *x,
                       const plim__view *w, plim__blocked_end end, void *scratch, uint32_t threads);

/** @param outs, chain  blocks of what is made and of what is summed up (planes count one each); for W: of w's first two dimensions
 *  @param rows, cols  of what is made, for W of y. Monotone in all. */
uint64_t plim__blocked_scratch(const plim__blocked *c, plim__blocked_into into, int64_t outs, int64_t chain, int64_t rows, int64_t cols,
                               uint32_t threads);

/* ---- inner loops, compiled once per instruction set. Steps are in elements. */

/** What tiles have in common, each `blocks` times `rows` times `cols` vectors of 16: sums over a chain of three levels. */
typedef struct plim__blocked_tile {
    int64_t y_block, y_row, y_col;
    int64_t x_row, x_col;      /* x_col: 16 or 32; among planes 1 or 2 */
    const float *w;
    int64_t w_block;
    int64_t chain[3], x_step[3], w_step[3];
    const int64_t *at;         /* planes: where x is for each of the chain[0] rows of w, which is one level then; NULL: blocks */
    const float *bias, *scale; /* one vector per block; NULL: there is none. Without a scale the bias is what the sum begins with */
    int64_t bias_block, scale_block;
    int64_t other_block, other_row, other_col;
    bool more, end;            /* more: y itself is what the sum begins with; end: nothing is added to it later, so what follows here is done */
    bool plus, relu;           /* plus: another array is added */
    float most;
} plim__blocked_tile;

/** w (blocks, rows, 16) += sum over pixels of x (rows) times y (blocks, 16). */
typedef struct plim__blocked_outer {
    int64_t w_block;
    const float *y;
    int64_t y_block;
    int64_t n[3], x_step[3], y_step[3]; /* pixels in three levels */
    const int64_t *at;                  /* where each row of x is; NULL: they are neighbours */
} plim__blocked_outer;

/** A row of pixels of one block, each channel by itself. */
typedef struct plim__blocked_depth {
    float *y;
    const float *x, *w, *bias, *scale, *other;
    int64_t n, y_col, x_col, other_col;
    int64_t taps[2], x_step[2], w_step[2];
    bool relu;
    float most;
} plim__blocked_depth;

/** w (taps, 16) += sum over pixels of x (taps, 16) * y (16). */
typedef struct plim__blocked_dot {
    float *w;
    const float *x, *y;
    int64_t w_tap, x_tap;
    int64_t n[2], x_step[2], y_step[2]; /* pixels in two levels */
} plim__blocked_dot;
#define PLIM__BLOCKED_TAPS 3 /* of `dot`, at most */

struct plim__blocked_lanes {
    const char *name;
    int blocks, pixels; /* of a tile, at most */
    int least;          /* pixels of a tile that keep the multipliers busy */
    int rows;           /* of w in `outer`, at most */
    /** So many, side by side. @param other  what is added, if something is */
    void (*tile)(const plim__blocked_tile *t, float *y, const float *x, const float *other, int blocks, int rows, int cols, int64_t count);
    void (*outer)(const plim__blocked_outer *t, float *w, const float *x, int blocks, int rows);
    void (*depth)(const plim__blocked_depth *t);
    void (*dot)(const plim__blocked_dot *t, int taps);
    void (*turn)(float *to, const float *from); /* a square, rows become columns */
};

extern const plim__blocked_lanes plim__blocked_lanes_base, plim__blocked_lanes_v3, plim__blocked_lanes_v4;

#endif
