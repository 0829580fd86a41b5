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
    X(MATMUL, matmul)                     \
    X(CONV, conv)                         \
    X(CONV_DATA, conv_data)               \
    X(CONV_WEIGHTS, conv_weights)         \
    X(CONV_BLOCKED, conv_blocked)         \
    X(CONV_BLOCKED_DATA, conv_blocked_data) \
    X(CONV_BLOCKED_WEIGHTS, conv_blocked_weights) \
    X(POOLING, pool)                      \
    X(POOLING_BACK, pool_back)            \
    X(SOFTMAX, softmax)                   \
    X(SOFTMAX_BACK, softmax_back)         \
    X(GATHER, gather)                     \
    X(SCATTER, scatter)                   \
    X(RESIZE, resize)                     \
    X(RESIZE_BACK, resize_back)           \
    X(LRN, lrn)                           \
    X(LRN_BACK, lrn_back)                 \
    X(RANDOM, random)                     \
    X(OPTIMIZE, optimize)                 \
    X(CALLER_COMPUTES, caller)

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

/* ---- caller.c: what the caller of the library computes itself. Element i of a result as large as x, of dtype *out, reads x from i - overlap to i + overlap
 *      in every dimension, as far as x goes; out NULL: no result but a byte that says nothing */
plim_status plim__op_caller(plim_graph *g, uint32_t x, const int64_t overlap[], const plim_dtype *out, uint32_t *v, plim_error *err);

/* ---- shape.c */
plim_status plim__op_transpose(plim_graph *g, uint32_t x, const uint32_t perm[], uint32_t *v, plim_error *err); /* out dim d is in dim perm[d] */
/** Out dim d: x[start[d] + step[d]*i], i in [0, count[d]); step may be negative, not 0; all indices inside x (checked). */
plim_status plim__op_slice(plim_graph *g, uint32_t x, const int64_t start[], const int64_t step[], const int64_t count[], uint32_t *v,
                           plim_error *err);
/** The same in one dimension, the others whole; x itself where that is all of it. */
plim_status plim__op_slice_axis(plim_graph *g, uint32_t x, uint32_t axis, int64_t start, int64_t step, int64_t count, uint32_t *v, plim_error *err);
plim_status plim__op_reshape(plim_graph *g, uint32_t x, const plim_shape *to, uint32_t *v, plim_error *err); /* C order, same count */
plim_status plim__op_broadcast(plim_graph *g, uint32_t x, const plim_shape *to, uint32_t *v, plim_error *err);
plim_status plim__op_concat(plim_graph *g, const uint32_t *in, uint32_t n_in, uint32_t axis, uint32_t *v, plim_error *err); /* same dtype */

typedef enum plim__edge {
    PLIM__EDGE_CONSTANT, PLIM__EDGE_EDGE, PLIM__EDGE_REFLECT, PLIM__EDGE_SYMMETRIC,
    PLIM__EDGE_VALID, /* of windows: only those that lie inside */
    PLIM__EDGE_FULL,  /* of convolutions: every window that holds an element of x */
} plim__edge;
/** numpy.pad's modes. (wrap is made of slices and concat by the front end.) reflect and symmetric: no more than the extent.
 *  @param fill  of mode constant: an element of x's dtype; NULL: 0 */
plim_status plim__op_pad(plim_graph *g, uint32_t x, const int64_t before[], const int64_t after[], plim__edge mode, const void *fill, uint32_t *v,
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
/** Convolution (the kernel is flipped, as numpy.convolve does) over the last dimensions of x, as many as w has. Out: f32 where both are f32 or narrower floats;
 *  of integers and bool i64, or u64 where one is, wrapping; f64 otherwise. Beyond a CONSTANT or FULL edge there is nothing: not even a product of 0 with a
 *  weight that is infinite. */
plim_status plim__op_convolve(plim_graph *g, uint32_t x, uint32_t w, plim__edge edge, uint32_t *v, plim_error *err);

/* ---- matmul.c */
/** numpy.matmul: rank 1 and 2, and stacks with broadcasting; out dtype `out` (f32 and f64 in kernels; others in i64 or u64, or through f32). */
plim_status plim__op_matmul(plim_graph *g, uint32_t a, uint32_t b, plim_dtype out, uint32_t *v, plim_error *err);
/** The same with the last two dimensions of an operand (of rank 2 and more) swapped first; nothing is copied for that. f32 or f64. */
plim_status plim__op_matmul_turned(plim_graph *g, uint32_t a, bool turn_a, uint32_t b, bool turn_b, uint32_t *v, plim_error *err);

/* ---- conv.c: channels are dimension 1, one to three dimensions of space follow. f32 and f64. */
typedef struct plim__conv {
    uint32_t space;               /* dimensions of space */
    int64_t stride[3], dilation[3];
    int64_t before[3], after[3];  /* zeros around x; may be negative in a gradient */
    int64_t groups;               /* channels are cut into as many groups, each seen by its own part of the outputs */
} plim__conv;
/** Correlation, as frameworks' convolution layers do. x [N, C, space...], w [O, C/groups, kernel...]: [N, O, space...]. */
plim_status plim__op_conv(plim_graph *g, uint32_t x, uint32_t w, const plim__conv *conv, uint32_t *v, plim_error *err);
/** The gradient with respect to x, of shape `x_shape`, which is transposed convolution too. */
plim_status plim__op_conv_data(plim_graph *g, uint32_t dy, uint32_t w, const plim__conv *conv, const plim_shape *x_shape, uint32_t *v, plim_error *err);
/** The gradient with respect to w, of shape `w_shape`: a sum over N and space. */
plim_status plim__op_conv_weights(plim_graph *g, uint32_t x, uint32_t dy, const plim__conv *conv, const plim_shape *w_shape, uint32_t *v, plim_error *err);

/* ---- conv_blocked.c: the same in two dimensions of space, f32, on arrays [N, ceil(C/16), H, W, 16] whose last dimension is a block of 16 channels.
 *      Channels beyond C are padding: harmless numbers, with weights of 0. A first layer's x may be plain, [N, C, H, W] with C < 16. Weights:
 *          [ceil(O/16), ceil(C/groups/16), kh, kw, 16 (channel), 16 (output)]    groups only of whole blocks
 *          [ceil(O/16), C, kh, kw, 16]                                          for a plain x
 *          [ceil(C/16), kh, kw, 16]                                             depthwise: groups == C == O
 *      Everything else is refused with PLIM_E_UNSUPPORTED: take plim__op_conv then. */
typedef enum plim__blocked_activation { PLIM__BLOCKED_LINEAR, PLIM__BLOCKED_RELU } plim__blocked_activation;
typedef struct plim__conv_blocked {
    plim__conv conv;
    int64_t channels, outputs; /* without padding */
    plim__blocked_activation activation; /* of plim__op_conv_blocked alone */
    double most;                         /* so is this: its result is no more; 0: no limit */
} plim__conv_blocked;
typedef struct plim__conv_blocked_in {
    uint32_t x, w;
    uint32_t bias, scale; /* [ceil(O/16), 16], or PLIM__NONE */
    uint32_t other;       /* like the result, or PLIM__NONE */
} plim__conv_blocked_in;
/** activation(conv(x, w) * scale + bias + other), blocked. There is no gradient with respect to a scale, nor through it to w and x. */
plim_status plim__op_conv_blocked(plim_graph *g, const plim__conv_blocked_in *in, const plim__conv_blocked *conv, uint32_t *v, plim_error *err);
/** The gradient with respect to a blocked x, or transposed convolution. @param x_shape  as a plain array: [N, C, H, W] */
plim_status plim__op_conv_blocked_data(plim_graph *g, uint32_t dy, uint32_t w, const plim__conv_blocked *conv, const plim_shape *x_shape, uint32_t *v,
                                       plim_error *err);
/** The gradient with respect to w, exactly 0 in the padding. @param w_shape  as a plain array: [O, C/groups, kh, kw] */
plim_status plim__op_conv_blocked_weights(plim_graph *g, uint32_t x, uint32_t dy, const plim__conv_blocked *conv, const plim_shape *w_shape,
                                          uint32_t *v, plim_error *err);
/** The shape of the weights; fails where the rows above would refuse the channels. */
plim_status plim__conv_blocked_shape(plim_shape *w, const plim__conv_blocked *conv, bool plain_x, const int64_t kernel[2], plim_error *err);

/* ---- pool.c: x [N, C, space...] */
typedef struct plim__pool {
    bool average;      /* else the largest */
    bool count_border; /* an average counts the zeros of the border too */
    uint32_t space;
    int64_t size[3], stride[3], dilation[3];
    int64_t before[3], after[3]; /* the border, smaller than a window; with a rounded-up output the last window may reach further, which is not counted */
    bool round_up;     /* the output's extents; no window starts beyond x */
} plim__pool;
plim_status plim__op_pool(plim_graph *g, uint32_t x, const plim__pool *pool, uint32_t *v, plim_error *err);
/** The gradient with respect to x. Of several largest elements of a window the first in C order gets it. y: the pool's output, equal to the bit (an
 *  average reads neither x nor y: they are no inputs of its node). */
plim_status plim__op_pool_back(plim_graph *g, uint32_t x, uint32_t y, uint32_t dy, const plim__pool *pool, uint32_t *v, plim_error *err);

/* ---- softmax.c */
/** softmax(x) along `axis`, or its logarithm. */
plim_status plim__op_softmax(plim_graph *g, uint32_t x, uint32_t axis, bool log, uint32_t *v, plim_error *err);
/** The gradient with respect to x, from the output y. */
plim_status plim__op_softmax_back(plim_graph *g, uint32_t y, uint32_t dy, uint32_t axis, bool log, uint32_t *v, plim_error *err);

/* ---- gather.c */
/** x.take(index, axis) with an index (i32 or i64, any rank) that is known only when the program runs. An index beyond x reads as NaN, or 0 for integers: the
 *  run goes on, as no kernel may fail; negative ones count from the end. Out: x's dimensions before axis, index's, x's after it. */
plim_status plim__op_gather(plim_graph *g, uint32_t x, uint32_t index, uint32_t axis, uint32_t *v, plim_error *err);
/** The gradient of gather with respect to x: dy is added up at the indices; others are 0. A sum over the index's dimensions. */
plim_status plim__op_scatter(plim_graph *g, uint32_t dy, uint32_t index, uint32_t axis, const plim_shape *x_shape, uint32_t *v, plim_error *err);
/** The same with another reduction of what meets at one place; where nothing does, its neutral element: 0, 1, infinity, -infinity. */
plim_status plim__op_scatter_by(plim_graph *g, plim__reduction how, uint32_t dy, uint32_t index, uint32_t axis, const plim_shape *x_shape,
                                uint32_t *v, plim_error *err);

/* ---- resize.c: over the last `space` dimensions (1 to 3) of x */
typedef enum plim__resize_mode { PLIM__RESIZE_NEAREST, PLIM__RESIZE_LINEAR } plim__resize_mode;
typedef enum plim__resize_where { PLIM__RESIZE_HALF_PIXEL, PLIM__RESIZE_ASYMMETRIC, PLIM__RESIZE_ALIGN_CORNERS } plim__resize_where;
typedef struct plim__resize {
    plim__resize_mode mode;
    plim__resize_where where; /* ONNX's coordinate_transformation_mode */
    uint32_t round;           /* nearest: 0 round_prefer_floor, 1 round_prefer_ceil, 2 floor, 3 ceil */
    uint32_t space;
    int64_t size[3];          /* the output's extents */
    double scale[3];          /* output per input element; 0: size / extent */
} plim__resize;
plim_status plim__op_resize(plim_graph *g, uint32_t x, const plim__resize *resize, uint32_t *v, plim_error *err);
plim_status plim__op_resize_back(plim_graph *g, uint32_t dy, const plim__resize *resize, const plim_shape *x_shape, uint32_t *v, plim_error *err);

/* ---- lrn.c */
/** Local response normalisation across `size` neighbouring channels (dimension 1), (size - 1)/2 below and the rest above, as ONNX has it:
 *  x / (bias + alpha/size * sum of squares) ** beta. */
plim_status plim__op_lrn(plim_graph *g, uint32_t x, int64_t size, double alpha, double beta, double bias, uint32_t *v, plim_error *err);
/** The gradient with respect to x. */
plim_status plim__op_lrn_back(plim_graph *g, uint32_t x, uint32_t dy, int64_t size, double alpha, double beta, double bias, uint32_t *v,
                              plim_error *err);

/* ---- random.c */
/** f32 in [0, 1) of the given shape, each element from `seed` (a u64 scalar of the graph, so that a run can change it), `stream` and its position alone: the same
 *  however the work is cut. */
plim_status plim__op_random(plim_graph *g, const plim_shape *shape, uint32_t seed, uint32_t stream, uint32_t *v, plim_error *err);

/* ---- optimizer.c: one step for one parameter p with gradient dp. Each axis is parallel: cut anywhere it gives the same. */
typedef enum plim__optimizer_kind { PLIM__SGD, PLIM__MOMENTUM, PLIM__NESTEROV, PLIM__ADAM, PLIM__ADAMW, PLIM__RMSPROP } plim__optimizer_kind;
typedef struct plim__optimizer {
    plim__optimizer_kind kind;
    double beta1, beta2, eps, decay; /* momentum and rho are beta1 */
} plim__optimizer;
/** How many values of p's shape the optimizer keeps from step to step: 0 to 2. */
uint32_t plim__optimizer_states(plim__optimizer_kind kind);
/** @param rate  f32 scalar, NaN: everything stays as it is; @param step  f32 scalar, 1 in the first step (Adam's correction)
 *  @param state  as many as plim__optimizer_states says; @param out  the new p, then the new states */
plim_status plim__op_optimize(plim_graph *g, const plim__optimizer *how, uint32_t p, uint32_t dp, uint32_t rate, uint32_t step, const uint32_t *state,
                              uint32_t out[PLIM__MAX_OUT], plim_error *err);

#endif
