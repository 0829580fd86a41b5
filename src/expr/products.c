/* Functions that compute on whole arrays: elementwise calls, products, windows, orders. The dtype rules of elementwise functions are in operators.c. */
#include "expr/lower.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define UNIQUE_ROOM 65536 /* distinct values that unique(x) has room for, unless max= says otherwise */

static plim_status done(plim__item *out, uint32_t v)
{
    *out = plim__item_array(v);
    return PLIM_OK;
}

plim_status plim__call_elementwise(plim__lower *l, const plim__args *a, plim__item *out)
{
    return plim__lower_ew(l, (plim__ew)a->fn->data, a->arg, a->n, out);
}

/* A bound that is None is no bound. */
plim_status plim__call_clip(plim__lower *l, const plim__args *a, plim__item *out)
{
    const bool low = !plim__arg_is_none(a, 1), high = !plim__arg_is_none(a, 2);
    const plim__item bounded[2] = {a->arg[0], a->arg[low ? 1 : 2]};
    if (low && high) return plim__lower_ew(l, PLIM__EW_CLIP, a->arg, 3, out);
    if (low || high) return plim__lower_ew(l, low ? PLIM__EW_MAXIMUM : PLIM__EW_MINIMUM, bounded, 2, out);
    *out = a->arg[0];
    return PLIM_OK;
}

/* The largest number of a float; the least is its negative. */
static double largest_of(plim_dtype t)
{
    switch (t) {
    case PLIM_F16: return 65504;
    case PLIM_BF16: return 0x1.fep127;
    case PLIM_F32: return FLT_MAX;
    default: return DBL_MAX;
    }
}

/* where(test(x), value, rest). */
static plim_status replace(plim__lower *l, plim__ew test, const plim__item *x, double with, double value, plim__item *rest)
{
    const plim__item compared[2] = {*x, plim__item_float(with)};
    plim__item in[3] = {{0}, plim__item_float(value), *rest};
    PLIM_TRY(plim__lower_ew(l, test, compared, plim__ew_arity(test), &in[0]));
    return plim__lower_ew(l, PLIM__EW_WHERE, in, 3, rest);
}

plim_status plim__call_nan_to_num(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t v;
    bool copy; /* what is given is never changed: either way is the same here */
    double nan, high, low;
    PLIM_TRY(plim__arg_array(l, a, 0, &v));
    PLIM_TRY(plim__arg_bool(l, a, 1, &copy));
    PLIM_TRY(plim__arg_float(l, a, 2, &nan));
    const plim_dtype t = plim__dtype_of(l, v);
    high = largest_of(t);
    low = -high;
    if (!plim__arg_is_none(a, 3)) PLIM_TRY(plim__arg_float(l, a, 3, &high));
    if (!plim__arg_is_none(a, 4)) PLIM_TRY(plim__arg_float(l, a, 4, &low));
    *out = plim__item_array(v);
    if (!plim__dtype_is_float(t)) return PLIM_OK;
    const plim__item x = *out;
    PLIM_TRY(replace(l, PLIM__EW_EQUAL, &x, INFINITY, high, out));
    PLIM_TRY(replace(l, PLIM__EW_EQUAL, &x, -INFINITY, low, out));
    return replace(l, PLIM__EW_ISNAN, &x, 0, nan, out);
}

plim_status plim__call_astype(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x;
    plim_dtype t;
    PLIM_FAIL_IF(plim__arg_is_none(a, 1), l->err, PLIM_E_TYPE, "astype: to which dtype?");
    PLIM_TRY(plim__arg_dtype(l, a, 1, PLIM_F64, &t));
    if (plim__item_is_number(&a->arg[0])) PLIM_TRY(plim__lower_const(l, &a->arg[0], t, &x));
    else PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__op_cast(l->g, x, t, &x, l->err));
    return done(out, x);
}

/* ------------------------------------------------------------------------------------------- products */

/* matmul (data 1) and dot. */
plim_status plim__call_dot(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, y;
    const bool number = plim__item_is_number(&a->arg[0]) || plim__item_is_number(&a->arg[1]);
    if (a->fn->data == 0 && number) return plim__lower_ew(l, PLIM__EW_MUL, a->arg, 2, out);
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_array(l, a, 1, &y));
    const uint32_t rank_x = plim__shape_of(l, x).rank, rank_y = plim__shape_of(l, y).rank;
    if (a->fn->data == 0 && (rank_x == 0 || rank_y == 0)) {
        PLIM_TRY(plim__lower_ew2(l, PLIM__EW_MUL, x, y, &x));
        return done(out, x);
    }
    PLIM_FAIL_IF(a->fn->data == 0 && rank_y > 2, l->err, PLIM_E_UNSUPPORTED, "dot: the second array has %u dimensions: use matmul or tensordot",
                 rank_y);
    PLIM_TRY(plim__lower_matmul(l, x, y, &x));
    return done(out, x);
}

/* The axes to sum over, as they are written: a number of them, or two lists. */
static plim_status contracted(plim__lower *l, const plim__args *a, uint32_t rank_x, uint32_t rank_y, uint32_t axes_x[], uint32_t axes_y[],
                              uint32_t *n)
{
    const plim__item *axes = &a->arg[2];
    uint32_t mask, m;
    if (axes->kind == PLIM__ITEM_INT) {
        PLIM_FAIL_IF(axes->i < 0 || axes->i > rank_x || axes->i > rank_y, l->err, PLIM_E_SHAPE,
                     "tensordot: %lld axes of arrays of %u and %u dimensions",
                     (long long)axes->i, rank_x, rank_y);
        *n = (uint32_t)axes->i;
        for (uint32_t k = 0; k < *n; k++) {
            axes_x[k] = rank_x - *n + k;
            axes_y[k] = k;
        }
        return PLIM_OK;
    }
    PLIM_FAIL_IF(axes->kind != PLIM__ITEM_SEQ || axes->n != 2, l->err, PLIM_E_TYPE, "tensordot: axes is a number or a pair of lists");
    plim__args one = *a;
    one.arg[2] = plim__seq_at(l, axes, 0);
    PLIM_TRY(plim__arg_axes(l, &one, 2, rank_x, &mask, axes_x, n));
    one.arg[2] = plim__seq_at(l, axes, 1);
    PLIM_TRY(plim__arg_axes(l, &one, 2, rank_y, &mask, axes_y, &m));
    PLIM_FAIL_IF(*n != m, l->err, PLIM_E_SHAPE, "tensordot: %u axes of the first array, %u of the second", *n, m);
    return PLIM_OK;
}

/* x as a matrix: the axes that stay on one side, those that are summed on the other; what stays is appended to `kept`. */
static plim_status as_matrix(plim__lower *l, uint32_t x, const uint32_t *axes, uint32_t n, bool sum_last, plim_shape *kept, uint32_t *v)
{
    const plim_shape s = plim__shape_of(l, x);
    uint32_t perm[PLIM_MAX_RANK], mask = 0, at = sum_last ? 0 : n;
    int64_t outer = 1, inner = 1;
    for (uint32_t k = 0; k < n; k++) {
        mask |= 1u << axes[k];
        inner *= s.dim[axes[k]]; /* part of a count that was checked when the value was made, unless a dimension is 0 */
        perm[sum_last ? s.rank - n + k : k] = axes[k];
    }
    for (uint32_t d = 0; d < s.rank; d++) {
        if (mask >> d & 1) continue;
        PLIM_TRY(plim__rank_check(l, "tensordot", kept->rank + 1));
        PLIM_FAIL_IF(__builtin_mul_overflow(outer, s.dim[d], &outer), l->err, PLIM_E_OVERFLOW, "tensordot: a dimension is more than 2^63");
        perm[at++] = d;
        kept->dim[kept->rank++] = s.dim[d];
    }
    const int64_t dim[2] = {sum_last ? outer : inner, sum_last ? inner : outer};
    bool moves = false;
    for (uint32_t d = 0; d < s.rank; d++) moves |= perm[d] != d;
    if (moves) PLIM_TRY(plim__op_transpose(l->g, x, perm, &x, l->err));
    return plim__reshape_to(l, x, dim, 2, v);
}

plim_status plim__call_tensordot(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, y, axes_x[PLIM_MAX_RANK], axes_y[PLIM_MAX_RANK], n;
    plim_shape kept = {0};
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_array(l, a, 1, &y));
    const plim_shape sx = plim__shape_of(l, x), sy = plim__shape_of(l, y);
    PLIM_TRY(contracted(l, a, sx.rank, sy.rank, axes_x, axes_y, &n));
    for (uint32_t k = 0; k < n; k++)
        PLIM_FAIL_IF(sx.dim[axes_x[k]] != sy.dim[axes_y[k]], l->err, PLIM_E_SHAPE,
                     "tensordot: dimension %u has extent %lld, dimension %u of the second has %lld", axes_x[k],
                     (long long)sx.dim[axes_x[k]], axes_y[k], (long long)sy.dim[axes_y[k]]);
    PLIM_TRY(as_matrix(l, x, axes_x, n, true, &kept, &x));
    PLIM_TRY(as_matrix(l, y, axes_y, n, false, &kept, &y));
    PLIM_TRY(plim__lower_matmul(l, x, y, &x));
    PLIM_TRY(plim__reshape_to(l, x, kept.dim, kept.rank, &x));
    return done(out, x);
}

/* -------------------------------------------------------------------------------------------- windows */

static const char *const edge_words[] = {"constant", "edge", "reflect", "symmetric", "valid"}; /* plim__edge */

plim_status plim__call_box(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, edge, mask, order[PLIM_MAX_RANK], n_axes, n_sizes;
    int64_t given[PLIM_MAX_RANK], size[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const uint32_t rank = plim__shape_of(l, x).rank;
    PLIM_TRY(plim__arg_ints(l, a, 1, given, PLIM_MAX_RANK, &n_sizes));
    PLIM_TRY(plim__arg_axes(l, a, 2, rank, &mask, order, &n_axes));
    PLIM_TRY(plim__arg_word(l, a, 3, edge_words, 5, &edge));
    PLIM_FAIL_IF(n_sizes != 1 && n_sizes != n_axes, l->err, PLIM_E_SHAPE, "box: %u sizes for %u axes", n_sizes, n_axes);
    for (uint32_t d = 0; d < rank; d++) size[d] = 1;
    for (uint32_t k = 0; k < n_axes; k++) {
        size[order[k]] = given[n_sizes == 1 ? 0 : k];
        PLIM_FAIL_IF(size[order[k]] < 1, l->err, PLIM_E_INVALID, "box: a size of %lld", (long long)size[order[k]]);
    }
    PLIM_TRY(plim__op_box(l->g, x, size, (plim__edge)edge, &x, l->err));
    return done(out, x);
}

/* In the promoted dtype, as numpy.convolve and matmul have it. Integers are exact and wrap; narrow floats are added in f32. */
static plim_status convolve_as(plim__lower *l, uint32_t x, uint32_t w, plim__edge edge, uint32_t *v)
{
    const plim_dtype t = plim__dtype_promote(plim__dtype_of(l, x), plim__dtype_of(l, w));
    if (plim__dtype_is_float(t)) {
        PLIM_TRY(plim__op_cast(l->g, x, plim__dtype_compute(t), &x, l->err));
        PLIM_TRY(plim__op_cast(l->g, w, plim__dtype_compute(t), &w, l->err));
    }
    PLIM_TRY(plim__op_convolve(l->g, x, w, edge, v, l->err));
    return plim__op_cast(l->g, *v, t, v, l->err);
}

plim_status plim__call_conv(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, w, edge;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_array(l, a, 1, &w));
    PLIM_TRY(plim__arg_word(l, a, 2, edge_words, 5, &edge));
    PLIM_TRY(convolve_as(l, x, w, (plim__edge)edge, &x));
    return done(out, x);
}

/* numpy.convolve: the longer array is the one that is walked along. */
plim_status plim__call_convolve(plim__lower *l, const plim__args *a, plim__item *out)
{
    static const char *const modes[] = {"full", "same", "valid"};
    static const plim__edge edges[] = {PLIM__EDGE_FULL, PLIM__EDGE_CONSTANT, PLIM__EDGE_VALID};
    uint32_t in[2], mode;
    const int64_t one = 1;
    PLIM_TRY(plim__arg_word(l, a, 2, modes, 3, &mode));
    for (uint32_t k = 0; k < 2; k++) {
        PLIM_TRY(plim__arg_array(l, a, k, &in[k]));
        if (plim__shape_of(l, in[k]).rank == 0) PLIM_TRY(plim__reshape_to(l, in[k], &one, 1, &in[k]));
        const plim_shape s = plim__shape_of(l, in[k]);
        PLIM_FAIL_IF(s.rank != 1, l->err, PLIM_E_SHAPE, "convolve takes 1-D arrays: use conv for others");
        PLIM_FAIL_IF(s.dim[0] == 0, l->err, PLIM_E_SHAPE, "convolve: an array is empty");
    }
    const uint32_t longer = plim__shape_of(l, in[1]).dim[0] > plim__shape_of(l, in[0]).dim[0];
    uint32_t v;
    PLIM_TRY(convolve_as(l, in[longer], in[1 - longer], edges[mode], &v));
    return done(out, v);
}

/* --------------------------------------------------------------------------------------------- orders */

/* sort, and argsort (data 1). */
plim_status plim__call_sort(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, axis = 0, positions;
    const int64_t flat = -1;
    bool descending, stable;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    if (plim__arg_is_none(a, 1)) PLIM_TRY(plim__reshape_to(l, x, &flat, 1, &x));
    else PLIM_TRY(plim__arg_axis(l, a, 1, plim__shape_of(l, x).rank, &axis));
    PLIM_TRY(plim__arg_bool(l, a, 2, &descending));
    PLIM_TRY(plim__arg_bool(l, a, 3, &stable));
    const bool wanted = a->fn->data == 1;
    PLIM_TRY(plim__op_sort(l->g, x, axis, descending, &x, wanted ? &positions : NULL, l->err));
    return done(out, wanted ? positions : x);
}

/* topk carries its positions along as a second result; argtopk (data 1) gives only them. */
plim_status plim__call_topk(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, axis, values, positions;
    int64_t k;
    bool largest;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_int(l, a, 1, &k));
    PLIM_TRY(plim__arg_axis(l, a, 2, s.rank, &axis));
    PLIM_TRY(plim__arg_bool(l, a, 3, &largest));
    PLIM_FAIL_IF(k < 1 || k > s.dim[axis], l->err, PLIM_E_SHAPE, "%s: k is %lld, dimension %u has %lld elements", a->fn->name, (long long)k, axis,
                 (long long)s.dim[axis]);
    PLIM_TRY(plim__op_topk(l->g, x, k, axis, largest, &values, &positions, l->err));
    *out = plim__item_array(a->fn->data ? positions : values);
    out->n = a->fn->data ? 0 : positions + 1;
    return PLIM_OK;
}

/* How many values there are is known only after the run: the array has room for `size`, and what is left over repeats the largest. The number comes
 * along as a second result. */
/* Values in fixed room, filled up with the largest, so that they can be used further. */
static plim_status unique_filled(plim__lower *l, uint32_t x, int64_t size, uint32_t *values, uint32_t *count)
{
    const plim_shape s = plim__shape_of(l, x);
    const plim_dtype t = plim__dtype_of(l, x);
    uint32_t index, used, largest, in[3];
    PLIM_TRY(plim__lower_iota(l, size, &index));
    PLIM_TRY(plim__op_unique(l->g, x, size, false, values, count, l->err));
    PLIM_TRY(plim__op_reduce(l->g, PLIM__REDUCE_MAX, x, (1u << s.rank) - 1, false, t, &largest, l->err));
    PLIM_TRY(plim__lower_ew2(l, PLIM__EW_LESS, index, *count, &used));
    in[0] = used, in[1] = *values, in[2] = largest;
    return plim__op_elementwise(l->g, PLIM__EW_WHERE, plim__dtype_compute(t), t, in, 3, values, l->err);
}

plim_status plim__call_unique(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, values, count;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    uint64_t elements;
    PLIM_TRY(plim_shape_count(&elements, &s, l->err));
    PLIM_FAIL_IF(elements == 0, l->err, PLIM_E_SHAPE, "unique of no elements");
    int64_t size = elements < UNIQUE_ROOM ? (int64_t)elements : UNIQUE_ROOM;
    if (plim__arg_is_none(a, 1)) {
        if (!plim__arg_is_none(a, 2)) PLIM_TRY(plim__arg_int(l, a, 2, &size));
        PLIM_FAIL_IF(size < 1, l->err, PLIM_E_INVALID, "unique: room for %lld values", (long long)size);
        PLIM_TRY(plim__op_unique(l->g, x, size, true, &values, &count, l->err));
    } else {
        PLIM_TRY(plim__arg_int(l, a, 1, &size));
        PLIM_FAIL_IF(size < 1, l->err, PLIM_E_INVALID, "unique: room for %lld values", (long long)size);
        PLIM_TRY(unique_filled(l, x, size, &values, &count));
    }
    *out = plim__item_array(values);
    out->n = count + 1;
    return PLIM_OK;
}
