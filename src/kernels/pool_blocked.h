/* Pooling where windows do not reach along the last dimension of space and elements are neighbours in it: arrays in blocks of channels,
 * (N, C/16, H, W, 16). A block's 16 elements are pooled side by side, in registers. Results are those of pool.h, to the bit. f32 only. */
#ifndef PLIM_KERNELS_POOL_BLOCKED_H
#define PLIM_KERNELS_POOL_BLOCKED_H

#include "kernels/pool.h"

/** Can these views be pooled in blocks? @param part  exactly the part, y or dx; @param v  those that are read */
bool plim__pool_in_blocks(const plim__pooling *p, const plim__view *part, const plim__view *const *v, uint32_t n);
/** As plim__pool_run and plim__pool_back, for what plim__pool_in_blocks accepts. */
void plim__pool_blocked_run(const plim__pooling *p, const plim__view *y, const plim__view *x);
void plim__pool_blocked_back(const plim__pooling *p, const plim__view *dx, const plim__view *x, const plim__view *y, const plim__view *dy);

/* ---- inner loops */
#define PLIM__POOL_BLOCK 16

/** Neighbouring windows of a row with the same taps. Steps are in elements; taps and windows are counted from the first that there is. */
typedef struct plim__pool_stretch {
    int64_t windows, rows, cols;      /* how many; taps of each that lie in the array */
    int64_t x_row, x_col, x_next;     /* from tap to tap, from window to window */
    int64_t dx_row, dx_col, dx_next;
    int64_t y_next, dy_next;
    plim__range own_rows, own_cols;   /* gradient: those of the taps that lie in the part */
    double count;                     /* mean: the elements of a window */
} plim__pool_stretch;

/* x: the first tap of the first window; dx: its first tap that lies in the part. */
typedef struct plim__pool_block_lanes {
    void (*max)(float *y, const float *x, const plim__pool_stretch *s);
    void (*mean)(float *y, const float *x, const plim__pool_stretch *s);
    void (*max_back)(float *dx, const float *x, const float *y, const float *dy, const plim__pool_stretch *s);
    void (*mean_back)(float *dx, const float *dy, const plim__pool_stretch *s);
} plim__pool_block_lanes;

extern const plim__pool_block_lanes plim__pool_block_lanes_base, plim__pool_block_lanes_v3;

#endif
