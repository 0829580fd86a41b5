/* The op table: its ids, and one constructor per op that fills the attributes. To add an op: a line here, its row in the
 * file of its family, its cases in tests/unit/cases.c. Constructors check everything; they are what front ends call.
 * Dtype rules that depend on a front end (weak scalars, integer sums in i64) are the front end's: here types are explicit. */
#ifndef PLIM_OPS_OPS_H
#define PLIM_OPS_OPS_H

#include "graph/op.h"
#include "kernels/elementwise.h"

/*  id, name of its row */
#define PLIM__OP_LIST(X)                  \
    X(ELEMENTWISE, elementwise)           \
    X(TRANSPOSE, transpose)               \
    X(SLICE, slice)                       \
    X(RESHAPE, reshape)                   \
    X(BROADCAST, broadcast)               \
    X(CONCAT, concat)                     \
    X(PAD, pad)                           \
    X(TAKE, take)                         \
    X(REDUCE, reduce)                     \
    X(MOMENTS, moments)                   \
    X(ARGREDUCE, argreduce)               \
    X(HISTOGRAM, histogram)               \
    X(TOPK, topk)                         \
    X(UNIQUE, unique)                     \
    X(SCAN, scan)                         \
    X(SORT, sort)                         \
    X(SELECT, select)                     \
    X(RADIX_COUNT, radix_count)           \
    X(RADIX_NARROW, radix_narrow)         \
    X(RADIX_FINISH, radix_finish)         \
    X(BOX, box)                           \
    X(CONVOLVE, convolve)                 \
    X(MATMUL, matmul)

enum {
#define X(id, row) PLIM__OP_##id,
    PLIM__OP_LIST(X)
#undef X
    PLIM__OP_COUNT
};

#define X(id, row) extern const plim__op_row plim__row_##row;
PLIM__OP_LIST(X)
#undef X

/* ---- elementwise.c: inputs broadcast against each other, NumPy's way. `compute` is what arithmetic is done in:
 *      f32, f64, i64 or u64. Inputs of any dtype are converted to it on the way in, the result to `out` on the way out. */
plim_status plim__op_elementwise(plim_graph *g, plim__ew fn, plim_dtype compute, plim_dtype out, const uint32_t *in, uint32_t n_in,
                                 uint32_t *v, plim_error *err);
/** A copy in another dtype; x itself where it has that dtype already. Float to integer truncates, NumPy's way; nothing saturates. */
plim_status plim__op_cast(plim_graph *g, uint32_t x, plim_dtype to, uint32_t *v, plim_error *err);

/* ---- shape.c */
plim_status plim__op_transpose(plim_graph *g, uint32_t x, const uint32_t perm[], uint32_t *v, plim_error *err); /* out dim d is in dim perm[d] */
/** Out dim d: x[start[d] + step[d]*i], i in [0, count[d]); step may be negative, not 0; all indices inside x (checked). */
plim_status plim__op_slice(plim_graph *g, uint32_t x, const int64_t start[], const int64_t step[], const int64_t count[], uint32_t *v,
                           plim_error *err);
plim_status plim__op_reshape(plim_graph *g, uint32_t x, const plim_shape *to, uint32_t *v, plim_error *err); /* C order, same count */
plim_status plim__op_broadcast(plim_graph *g, uint32_t x, const plim_shape *to, uint32_t *v, plim_error *err);
plim_status plim__op_concat(plim_graph *g, const uint32_t *in, uint32_t n_in, uint32_t axis, uint32_t *v, plim_error *err); /* same dtype */

typedef enum plim__edge { PLIM__EDGE_CONSTANT, PLIM__EDGE_EDGE, PLIM__EDGE_REFLECT, PLIM__EDGE_SYMMETRIC, PLIM__EDGE_VALID } plim__edge;
/** numpy.pad's modes. (wrap is made of slices and concat by the front end.) reflect and symmetric: no more than the extent. */
plim_status plim__op_pad(plim_graph *g, uint32_t x, const int64_t before[], const int64_t after[], plim__edge mode, double fill, uint32_t *v,
                         plim_error *err);
/** x.take(index, axis): index is an i64 value of rank 0 or 1 that is known when the graph is built (a constant), checked; negatives count from the end. */
plim_status plim__op_take(plim_graph *g, uint32_t x, uint32_t index, uint32_t axis, uint32_t *v, plim_error *err);

/* ---- reduce.c: `mask` says which dimensions go; keepdims leaves them with extent 1 */
typedef enum plim__reduction { PLIM__REDUCE_SUM, PLIM__REDUCE_PROD, PLIM__REDUCE_MIN, PLIM__REDUCE_MAX } plim__reduction;
/** Sums and products accumulate in `out` (f64, i64, u64, or f32 on request); min and max have x's dtype and pass NaN on.
 *  Sums over long axes are blocked so that rounding does not grow with the length. */
plim_status plim__op_reduce(plim_graph *g, plim__reduction how, uint32_t x, uint32_t mask, bool keepdims, plim_dtype out, uint32_t *v,
                            plim_error *err);
/** Count, mean and sum of squared differences from the mean, as f64, stacked in a new first dimension of 3. Merged by Chan's formula:
 *  sound for any mean. */
plim_status plim__op_moments(plim_graph *g, uint32_t x, uint32_t mask, bool keepdims, uint32_t *v, plim_error *err);
/** Position (i64) of the first smallest (largest) element. mask: one dimension, or all of them (then the position in C order). NaN wins, as in NumPy.
 *  Output 0 the position; output 1 the element. */
plim_status plim__op_argreduce(plim_graph *g, bool largest, uint32_t x, uint32_t mask, bool keepdims, uint32_t *v, plim_error *err);
/** Counts (i64, [bins]) over the whole of x between the scalars lo and hi (f64 values in the graph), the last bin closed, as numpy.histogram.
 *  What lies outside, and NaN, is not counted. */
plim_status plim__op_histogram(plim_graph *g, uint32_t x, uint32_t lo, uint32_t hi, int64_t bins, uint32_t *v, plim_error *err);
/** The k largest (smallest) along `axis`, best first; equal ones by position. Output 0 values, output 1 positions (i64). NaN counts as largest. */
plim_status plim__op_topk(plim_graph *g, uint32_t x, int64_t k, uint32_t axis, bool largest, uint32_t *values, uint32_t *positions,
                          plim_error *err);

/* ---- unique.c */
/** The distinct values of all of x, sorted, NaN once and last: output 0 has room for `most`, of which output 1 (i64 scalar) are used; -1: there are more.
 *  @param counted  the values will be an output and nothing else (plim__graph_output_counted) */
plim_status plim__op_unique(plim_graph *g, uint32_t x, int64_t most, bool counted, uint32_t *values, uint32_t *count, plim_error *err);

/* ---- scan.c */
/** cumsum or cumprod along `axis` in dtype `out`; f16 to f64 carry in f64. */
plim_status plim__op_scan(plim_graph *g, plim__reduction how, uint32_t x, uint32_t axis, plim_dtype out, uint32_t *v, plim_error *err);

/* ---- sort.c */
/** Sorted along `axis`, NaN last. Output 0 values; output 1 positions (i64), made only when asked for. Descending is the reverse, NaN first. Equal
 *  elements keep their order both ways. */
plim_status plim__op_sort(plim_graph *g, uint32_t x, uint32_t axis, bool descending, uint32_t *values, uint32_t *positions, plim_error *err);
/** Exact quantiles along `axis` (WHOLE): q is a constant f64 value of rank 0 or 1; its dimension, if any, comes first in the result.
 *  Linear interpolation, NaN if any NaN. Out dtype: f64 for f64 and integers, f32 for f32 and bf16, f16 for f16. */
plim_status plim__op_select(plim_graph *g, uint32_t x, uint32_t q, uint32_t axis, bool keepdims, uint32_t *v, plim_error *err);

/* ---- radix.c: exact order statistics over a dimension too long to hold: a chain of streaming passes, each fixing some bits of the answer's key.
 * Keys: an order-preserving map of a dtype to unsigned integers of the same width; every NaN has the largest key. */
/** Counts, for each column (what `mask` leaves; out shape [n_rank, columns..., bins]) and each wanted rank, the elements whose key agrees with the
 *  prefix so far, by the next `bits` bits. Ranks with the same prefix share the counts of the first of them. `state` is PLIM__NONE for the first
 *  pass: then n_rank is 1, and output 1 counts the NaNs of each column (u64). Output 0: u32 counts, or u64 for 2^32 elements and more (both summed over mask). */
plim_status plim__op_radix_count(plim_graph *g, uint32_t x, uint32_t state, uint32_t mask, uint32_t shift, uint32_t bits, uint32_t *counts,
                                 plim_error *err);
/** From counts and the ranks wanted: which bin holds each, the prefix with it, and the rank that remains inside. state: u64 [n_rank, columns..., 2] =
 *  {prefix, rank}, or before the first pass [n_rank], the ranks alone. */
plim_status plim__op_radix_narrow(plim_graph *g, uint32_t counts, uint32_t state, uint32_t bits, uint32_t *next, plim_error *err);
/** The whole chain: exact quantiles over `mask`, as plim__op_select gives them for one axis. Adds the passes' nodes to the graph. */
plim_status plim__op_radix_quantile(plim_graph *g, uint32_t x, const double *q, uint32_t n_q, bool q_scalar, uint32_t mask, bool keepdims,
                                    uint32_t *v, plim_error *err);

/* ---- window.c */
/** Mean over a box of size[d] (1: none) around each element; even sizes reach one further to the left. Integers give f64, floats their own dtype.
 *  VALID gives only the elements whose window lies inside. */
plim_status plim__op_box(plim_graph *g, uint32_t x, const int64_t size[], plim__edge edge, uint32_t *v, plim_error *err);
/** Convolution (the kernel is flipped, as numpy.convolve does) over the last dimensions of x, as many as w has; f32 or f64 out. */
plim_status plim__op_convolve(plim_graph *g, uint32_t x, uint32_t w, plim__edge edge, uint32_t *v, plim_error *err);

/* ---- matmul.c */
/** numpy.matmul: rank 1 and 2, and stacks with broadcasting; out dtype `out` (f32 and f64 run in BLIS; others in i64 or u64, or through f32). */
plim_status plim__op_matmul(plim_graph *g, uint32_t a, uint32_t b, plim_dtype out, uint32_t *v, plim_error *err);

#endif
