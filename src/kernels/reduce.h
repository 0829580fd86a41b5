/* Reductions over boxes. The result of a reduction is a view of the input's rank that has extent 1 where a dimension is reduced ("aligned"); the
 * kernels ADD to what it holds, so that a long axis can be cut: set it up with _init, run the parts in any order, _merge partial results.
 *
 * Sums of floats accumulate in f64 over blocks of at most 1024 rows (8192 elements in one row) from zero, and only block sums meet the result: the
 * rounding error grows with the number of blocks, not of elements (Higham, "The accuracy of floating point summation", 1993). Moments take the
 * mean of a block first and its squared differences in a second pass over the cached block, and combine blocks by the formula of Chan, Golub and
 * LeVeque (1979): no cancellation however large the mean.
 *
 * Everything is serial and without state: any number of threads may work on different results. Staging is on the stack (at most 80 KiB). */
#ifndef PLIM_KERNELS_REDUCE_H
#define PLIM_KERNELS_REDUCE_H

#include "kernels/view.h"

typedef enum plim__fold { PLIM__FOLD_SUM, PLIM__FOLD_PROD, PLIM__FOLD_MIN, PLIM__FOLD_MAX } plim__fold;

/* ---- inner loops: acc (cols) combined with x (rows, cols), rows `pitch` elements apart */
typedef void plim__lane_fn(void *acc, const void *x, int64_t pitch, int64_t rows, int64_t cols);
typedef void plim__lane_squares_fn(double *acc, const double *mean, const void *x, int64_t pitch, int64_t rows, int64_t cols);

typedef enum plim__lane { PLIM__LANE_F32, PLIM__LANE_F64, PLIM__LANE_I64, PLIM__LANE_U64, PLIM__LANE_COUNT } plim__lane;

typedef struct plim__lanes {
    plim__lane_fn *fold[4][PLIM__LANE_COUNT]; /* sums and products of f32 have f64 accumulators, otherwise the type's own */
    plim__lane_squares_fn *squares[2];        /* f32, f64 */
} plim__lanes;

extern const plim__lanes plim__lanes_base, plim__lanes_v3;
/** The table that this processor runs best. */
const plim__lanes *plim__lanes_get(void);

/* ---- walking a box piece by piece */
#define PLIM__TRACKS 3
#define PLIM__PIECE_COLS 512
#define PLIM__PIECE_ALONG 8192

/** A cached piece of the input in the compute dtype. Tracks are offsets that the caller wants kept up (into outputs, or positions): the offset of
 *  element (i, j) is at[t] + i*row_step[t] + j*col_step[t]. */
typedef struct plim__piece {
    const void *x;             /* (rows, cols), rows `pitch` apart, columns 1 apart */
    int64_t rows, cols, pitch; /* rows are reduced, columns kept; cols <= PLIM__PIECE_COLS */
    bool along;                /* one column of `rows` <= PLIM__PIECE_ALONG neighbours: pitch is 1 */
    int64_t at[PLIM__TRACKS], row_step[PLIM__TRACKS], col_step[PLIM__TRACKS];
} plim__piece;

/** The stride of each track in each dimension of the input. */
typedef struct plim__tracks {
    int64_t step[PLIM__TRACKS][PLIM_MAX_RANK];
} plim__tracks;

typedef void plim__piece_fn(void *ctx, const plim__piece *p);

/** Calls fn for pieces that cover `in` once; dimensions of `mask` are reduced. Inputs of another dtype than `compute`, or without
 *  unit stride, are staged. */
void plim__pieces(const plim__view *in, uint32_t mask, plim_dtype compute, const plim__tracks *tracks, plim__piece_fn *fn, void *ctx);

/* ---- reductions; `out` aligned */
void plim__reduce_init(plim__fold how, const plim__view *out);
/** out's dtype: f64, f32, i64 or u64 for sums and products; in's for min and max (NaN passes). */
void plim__reduce_run(plim__fold how, const plim__view *out, const plim__view *in, uint32_t mask);
/** out = out (+) part, element by element. */
void plim__reduce_merge(plim__fold how, const plim__view *out, const plim__view *part);

/** Count, mean and M2 at element offsets 0, `step`, 2*step from each element of the aligned f64 view `out`. */
void plim__moments_run(const plim__view *out, int64_t step, const plim__view *in, uint32_t mask);
void plim__moments_merge(const plim__view *out, int64_t step, const plim__view *part, int64_t part_step);

/** The first smallest (largest) element: its position into `pos` (i64), itself into `val` (in's dtype), both aligned. A position of -1 means
 *  "nothing yet". Position of an element: the sum of its absolute index times weight[d]. NaN beats everything. */
void plim__arg_run(bool largest, const plim__view *pos, const plim__view *val, const plim__view *in, uint32_t mask, const int64_t weight[]);
void plim__arg_merge(bool largest, const plim__view *pos, const plim__view *val, const plim__view *part_pos, const plim__view *part_val);

/** Adds the counts of numpy.histogram(x, bins, (lo, hi)) to out (bins, stride). Edges and indices are computed in f32 for f32, f16 and bf16, else in
 *  f64, with NumPy's correction by the edges. lo == hi means lo - 0.5, hi + 0.5.
 *  @param scratch  plim__histogram_scratch(bins) bytes */
void plim__histogram_run(int64_t *out, int64_t stride, int64_t bins, double lo, double hi, const plim__view *in, void *scratch);
uint64_t plim__histogram_scratch(int64_t bins);

#endif
