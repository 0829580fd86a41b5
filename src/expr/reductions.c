/* Functions that take dimensions away, and running sums. Here the dtype rules of NumPy's reductions live: what is added in which type, and what
 * comes out. Floats are always added in f64 and rounded once, at the end. */
#include "expr/lower.h"

#include <math.h>
#include <string.h>

#define SELECT_MAX 65536 /* elements of a dimension that a quantile may hold at once; longer ones are narrowed down pass by pass */

static plim_status done(plim__item *out, uint32_t v)
{
    *out = plim__item_array(v);
    return PLIM_OK;
}

/* What a sum of `t` is given in, without a wish: NumPy's default integer for bool and the small integers. */
static plim_dtype sum_dtype(plim_dtype t)
{
    switch (plim__dtype_kind(t)) {
    case PLIM__KIND_BOOL: case PLIM__KIND_INT: return PLIM_I64;
    case PLIM__KIND_UINT: return PLIM_U64;
    default: return t;
    }
}

/* What it is added in: the widest of its kind. */
static plim_dtype accumulator_of(plim_dtype t)
{
    switch (plim__dtype_kind(t)) {
    case PLIM__KIND_UINT: return PLIM_U64;
    case PLIM__KIND_FLOAT: return PLIM_F64;
    default: return PLIM_I64;
    }
}

static plim_status reduce_as(plim__lower *l, plim__reduction how, uint32_t x, uint32_t mask, bool keepdims, plim_dtype out, uint32_t *v)
{
    PLIM_TRY(plim__op_reduce(l->g, how, x, mask, keepdims, accumulator_of(out), v, l->err));
    return plim__op_cast(l->g, *v, out, v, l->err);
}

static double count_of(const plim_shape *s, uint32_t mask)
{
    double n = 1;
    for (uint32_t d = 0; d < s->rank; d++) n *= mask >> d & 1 ? (double)s->dim[d] : 1;
    return n;
}

static plim_status const_f64(plim__lower *l, double f, uint32_t *v)
{
    const plim__item x = plim__item_float(f);
    return plim__lower_const(l, &x, PLIM_F64, v);
}

/* Elementwise in f64, whatever comes in; given in `out`. */
static plim_status ew_f64(plim__lower *l, plim__ew fn, uint32_t a, uint32_t b, plim_dtype out, uint32_t *v)
{
    const uint32_t in[2] = {a, b};
    return plim__op_elementwise(l->g, fn, PLIM_F64, out, in, plim__ew_arity(fn), v, l->err);
}

/* The array and the axes of the parameters x and axis (0 and `k`). */
static plim_status operand(plim__lower *l, const plim__args *a, uint32_t k, uint32_t *x, uint32_t *mask)
{
    PLIM_TRY(plim__arg_array(l, a, 0, x));
    return plim__arg_axes(l, a, k, plim__shape_of(l, *x).rank, mask, NULL, NULL);
}

/* A wish for integers converts the elements, not the sum: the sum of 0.5 and 0.5 in i64 is 0. */
static plim_status cast_floats(plim__lower *l, uint32_t x, plim_dtype to, uint32_t *v)
{
    *v = x;
    return plim__dtype_is_float(plim__dtype_of(l, x)) && !plim__dtype_is_float(to) ? plim__op_cast(l->g, x, to, v, l->err) : PLIM_OK;
}

plim_status plim__call_sum(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask;
    bool keepdims;
    plim_dtype t;
    PLIM_TRY(operand(l, a, 1, &x, &mask));
    PLIM_TRY(plim__arg_dtype(l, a, 2, sum_dtype(plim__dtype_of(l, x)), &t));
    PLIM_TRY(plim__arg_bool(l, a, 3, &keepdims));
    PLIM_FAIL_IF(t == PLIM_BOOL, l->err, PLIM_E_TYPE, "%s cannot be given in bool: use any or all", a->fn->name);
    PLIM_TRY(cast_floats(l, x, t, &x));
    PLIM_TRY(reduce_as(l, (plim__reduction)a->fn->data, x, mask, keepdims, t, &x));
    return done(out, x);
}

/* How many elements are not NaN, as f64. */
static plim_status count_numbers(plim__lower *l, uint32_t x, uint32_t mask, bool keepdims, uint32_t *v)
{
    PLIM_TRY(plim__lower_ew1(l, PLIM__EW_ISNAN, x, v));
    PLIM_TRY(plim__lower_ew1(l, PLIM__EW_NOT, *v, v));
    PLIM_TRY(plim__op_reduce(l->g, PLIM__REDUCE_SUM, *v, mask, keepdims, PLIM_I64, v, l->err));
    return plim__op_cast(l->g, *v, PLIM_F64, v, l->err);
}

plim_status plim__call_mean(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, sum, n;
    bool keepdims, skip = a->fn->data == 1;
    plim_dtype t;
    PLIM_TRY(operand(l, a, 1, &x, &mask));
    t = plim__dtype_of_mean(plim__dtype_of(l, x));
    if (!skip) PLIM_TRY(plim__arg_dtype(l, a, 2, t, &t));
    PLIM_TRY(plim__arg_bool(l, a, skip ? 2 : 3, &keepdims));
    PLIM_FAIL_IF(!plim__dtype_is_float(t), l->err, PLIM_E_TYPE, "%s: dtype must be a float", a->fn->name);
    const plim_shape shape = plim__shape_of(l, x);
    if (skip && plim__dtype_is_float(plim__dtype_of(l, x))) {
        plim__item in[3] = {plim__item_array(x), plim__item_int(0), plim__item_array(x)}, clean;
        PLIM_TRY(count_numbers(l, x, mask, keepdims, &n));
        PLIM_TRY(plim__lower_ew1(l, PLIM__EW_ISNAN, x, &in[0].id));
        PLIM_TRY(plim__lower_ew(l, PLIM__EW_WHERE, in, 3, &clean));
        x = clean.id;
    } else {
        PLIM_TRY(const_f64(l, count_of(&shape, mask), &n));
    }
    PLIM_TRY(plim__op_reduce(l->g, PLIM__REDUCE_SUM, x, mask, keepdims, PLIM_F64, &sum, l->err));
    PLIM_TRY(ew_f64(l, PLIM__EW_DIV, sum, n, t, &x));
    return done(out, x);
}

/* One of the three parts of plim__op_moments. */
static plim_status moment(plim__lower *l, uint32_t moments, int64_t which, uint32_t *v)
{
    plim_shape s = plim__shape_of(l, moments);
    PLIM_TRY(plim__lower_slice(l, moments, 0, which, 1, 1, v));
    s.rank--;
    memmove(s.dim, s.dim + 1, s.rank * sizeof s.dim[0]);
    return plim__op_reshape(l->g, *v, &s, v, l->err);
}

plim_status plim__call_var(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, n;
    bool keepdims;
    double ddof;
    PLIM_TRY(operand(l, a, 1, &x, &mask));
    PLIM_TRY(plim__arg_float(l, a, 2, &ddof));
    PLIM_TRY(plim__arg_bool(l, a, 3, &keepdims));
    const plim_shape shape = plim__shape_of(l, x);
    const plim_dtype t = plim__dtype_of_mean(plim__dtype_of(l, x));
    const bool root = a->fn->data == 1;
    const double divisor = count_of(&shape, mask) - ddof;
    const bool full = shape.rank == PLIM_MAX_RANK; /* the three moments need a dimension: what is reduced comes back after them */
    PLIM_TRY(plim__op_moments(l->g, x, mask, keepdims && !full, &x, l->err));
    PLIM_TRY(moment(l, x, 2, &x));
    if (keepdims && full) {
        plim_shape kept = shape;
        for (uint32_t d = 0; d < shape.rank; d++)
            if (mask >> d & 1) kept.dim[d] = 1;
        PLIM_TRY(plim__op_reshape(l->g, x, &kept, &x, l->err));
    }
    PLIM_TRY(const_f64(l, divisor > 0 ? divisor : 0, &n)); /* too few elements: NaN or infinity, as NumPy has it */
    PLIM_TRY(ew_f64(l, PLIM__EW_DIV, x, n, root ? PLIM_F64 : t, &x));
    if (root) PLIM_TRY(ew_f64(l, PLIM__EW_SQRT, x, 0, t, &x));
    return done(out, x);
}

plim_status plim__call_extreme(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask;
    bool keepdims;
    PLIM_TRY(operand(l, a, 1, &x, &mask));
    PLIM_TRY(plim__arg_bool(l, a, 2, &keepdims));
    const plim_shape shape = plim__shape_of(l, x);
    PLIM_FAIL_IF(count_of(&shape, mask) == 0, l->err, PLIM_E_SHAPE, "%s of no elements", a->fn->name);
    PLIM_TRY(plim__op_reduce(l->g, (plim__reduction)a->fn->data, x, mask, keepdims, plim__dtype_of(l, x), &x, l->err));
    return done(out, x);
}

/* any and all of nothing: False and True, in the shape that is left. */
static plim_status truth_of_nothing(plim__lower *l, const plim_shape *in, uint32_t mask, bool keepdims, bool value, uint32_t *v)
{
    plim_shape to = {0};
    const plim__item x = plim__item_bool(value);
    for (uint32_t d = 0; d < in->rank; d++)
        if (!(mask >> d & 1) || keepdims) to.dim[to.rank++] = mask >> d & 1 ? 1 : in->dim[d];
    PLIM_TRY(plim__lower_const(l, &x, PLIM_BOOL, v));
    return to.rank ? plim__op_broadcast(l->g, *v, &to, v, l->err) : PLIM_OK;
}

plim_status plim__call_truth(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask;
    bool keepdims;
    const plim__reduction how = (plim__reduction)a->fn->data;
    PLIM_TRY(operand(l, a, 1, &x, &mask));
    PLIM_TRY(plim__arg_bool(l, a, 2, &keepdims));
    const plim_shape shape = plim__shape_of(l, x);
    if (count_of(&shape, mask) == 0) {
        PLIM_TRY(truth_of_nothing(l, &shape, mask, keepdims, how == PLIM__REDUCE_MIN, &x));
        return done(out, x);
    }
    if (plim__dtype_of(l, x) != PLIM_BOOL) {
        const plim__item in[2] = {plim__item_array(x), plim__item_int(0)};
        plim__item truth;
        PLIM_TRY(plim__lower_ew(l, PLIM__EW_NOT_EQUAL, in, 2, &truth));
        x = truth.id;
    }
    PLIM_TRY(plim__op_reduce(l->g, how, x, mask, keepdims, PLIM_BOOL, &x, l->err));
    return done(out, x);
}

plim_status plim__call_arg_extreme(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, n;
    bool keepdims;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape shape = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_axes(l, a, 1, shape.rank, &mask, NULL, &n));
    PLIM_TRY(plim__arg_bool(l, a, 2, &keepdims));
    PLIM_FAIL_IF(!plim__arg_is_none(a, 1) && n != 1, l->err, PLIM_E_SHAPE, "%s: one axis, or None for all of them", a->fn->name);
    PLIM_FAIL_IF(count_of(&shape, mask) == 0, l->err, PLIM_E_SHAPE, "%s of no elements", a->fn->name);
    if (shape.rank == 0) { /* the only element stands first */
        const plim__item zero = plim__item_int(0);
        PLIM_TRY(plim__lower_const(l, &zero, PLIM_I64, &x));
        return done(out, x);
    }
    PLIM_TRY(plim__op_argreduce(l->g, a->fn->data == 1, x, mask, keepdims, &x, l->err));
    return done(out, x);
}

/* (sum |x|**p) ** (1/p) for a p that has no form of its own. */
static plim_status norm_power(plim__lower *l, uint32_t magnitude, double p, uint32_t mask, bool keepdims, plim_dtype t, uint32_t *v)
{
    uint32_t exponent;
    PLIM_TRY(const_f64(l, p, &exponent));
    PLIM_TRY(ew_f64(l, PLIM__EW_POW, magnitude, exponent, PLIM_F64, v));
    PLIM_TRY(plim__op_reduce(l->g, PLIM__REDUCE_SUM, *v, mask, keepdims, PLIM_F64, v, l->err));
    PLIM_TRY(const_f64(l, 1 / p, &exponent));
    return ew_f64(l, PLIM__EW_POW, *v, exponent, t, v);
}

plim_status plim__call_norm(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, v;
    bool keepdims;
    double p = 2;
    PLIM_TRY(operand(l, a, 2, &x, &mask));
    if (!plim__arg_is_none(a, 1) && !plim__item_is_text(&a->arg[1], "fro")) PLIM_TRY(plim__arg_float(l, a, 1, &p));
    PLIM_TRY(plim__arg_bool(l, a, 3, &keepdims));
    PLIM_FAIL_IF(isnan(p), l->err, PLIM_E_INVALID, "norm: ord is NaN");
    const plim_dtype t = plim__dtype_of_mean(plim__dtype_of(l, x));
    if (p == 2) {
        PLIM_TRY(ew_f64(l, PLIM__EW_SQUARE, x, 0, PLIM_F64, &v));
        PLIM_TRY(plim__op_reduce(l->g, PLIM__REDUCE_SUM, v, mask, keepdims, PLIM_F64, &v, l->err));
        PLIM_TRY(ew_f64(l, PLIM__EW_SQRT, v, 0, t, &v));
        return done(out, v);
    }
    PLIM_TRY(ew_f64(l, PLIM__EW_ABS, x, 0, PLIM_F64, &v)); /* in f64: the least i8 has no negative in i8 */
    if (p == 0) {
        uint32_t zero;
        PLIM_TRY(const_f64(l, 0, &zero));
        PLIM_TRY(plim__lower_ew2(l, PLIM__EW_NOT_EQUAL, v, zero, &v));
    }
    if (p != 0 && p != 1 && !isinf(p)) {
        PLIM_TRY(norm_power(l, v, p, mask, keepdims, t, &v));
        return done(out, v);
    }
    const plim_shape shape = plim__shape_of(l, x);
    PLIM_FAIL_IF(isinf(p) && count_of(&shape, mask) == 0, l->err, PLIM_E_SHAPE, "norm of no elements");
    const plim__reduction how = !isinf(p) ? PLIM__REDUCE_SUM : p > 0 ? PLIM__REDUCE_MAX : PLIM__REDUCE_MIN;
    PLIM_TRY(plim__op_reduce(l->g, how, v, mask, keepdims, PLIM_F64, &v, l->err));
    PLIM_TRY(plim__op_cast(l->g, v, t, &v, l->err));
    return done(out, v);
}

/* ----------------------------------------------------------------------------------------- histogram */

/* The least and the largest value, half a unit apart from each other's middle where they are the same: numpy.histogram's rule. */
static plim_status range_of_data(plim__lower *l, uint32_t x, uint32_t lo_hi[2])
{
    const plim_shape shape = plim__shape_of(l, x);
    const uint32_t all = (1u << shape.rank) - 1;
    uint32_t bound[2], half, same;
    if (count_of(&shape, all) == 0) {
        PLIM_TRY(const_f64(l, 0, &lo_hi[0]));
        return const_f64(l, 1, &lo_hi[1]);
    }
    for (int k = 0; k < 2; k++) {
        PLIM_TRY(plim__op_reduce(l->g, k ? PLIM__REDUCE_MAX : PLIM__REDUCE_MIN, x, all, false, plim__dtype_of(l, x), &bound[k], l->err));
        PLIM_TRY(plim__op_cast(l->g, bound[k], PLIM_F64, &bound[k], l->err));
    }
    PLIM_TRY(const_f64(l, 0.5, &half));
    PLIM_TRY(plim__lower_ew2(l, PLIM__EW_EQUAL, bound[0], bound[1], &same));
    for (int k = 0; k < 2; k++) {
        uint32_t in[3] = {same, 0, bound[k]};
        PLIM_TRY(ew_f64(l, k ? PLIM__EW_ADD : PLIM__EW_SUB, bound[k], half, PLIM_F64, &in[1]));
        PLIM_TRY(plim__op_elementwise(l->g, PLIM__EW_WHERE, PLIM_F64, PLIM_F64, in, 3, &lo_hi[k], l->err));
    }
    return PLIM_OK;
}

static plim_status range_given(plim__lower *l, const plim__args *a, uint32_t lo_hi[2])
{
    const plim__item *r = &a->arg[2];
    double bound[2];
    PLIM_FAIL_IF(r->kind != PLIM__ITEM_SEQ || r->n != 2, l->err, PLIM_E_TYPE, "%s: range is a pair of numbers", a->fn->name);
    for (uint32_t k = 0; k < 2; k++) {
        const plim__item e = plim__seq_at(l, r, k);
        PLIM_FAIL_IF(!plim__item_is_number(&e), l->err, PLIM_E_TYPE, "%s: range is a pair of numbers, not of %s", a->fn->name, plim__item_text(&e));
        bound[k] = e.kind == PLIM__ITEM_FLOAT ? e.f : (double)e.i;
    }
    PLIM_FAIL_IF(!isfinite(bound[0]) || !isfinite(bound[1]) || bound[0] > bound[1], l->err, PLIM_E_INVALID,
                 "%s: range (%g, %g) must be finite and ascending", a->fn->name,
                 bound[0], bound[1]);
    const double widen = bound[0] == bound[1] ? 0.5 : 0;
    PLIM_TRY(const_f64(l, bound[0] - widen, &lo_hi[0]));
    return const_f64(l, bound[1] + widen, &lo_hi[1]);
}

/* lo + (hi - lo) / bins * [0 ... bins], with hi itself at the end. */
static plim_status edges(plim__lower *l, const uint32_t lo_hi[2], int64_t bins, uint32_t *v)
{
    uint32_t index, n, step, is_last, in[3];
    PLIM_TRY(plim__lower_iota(l, bins + 1, &index));
    PLIM_TRY(plim__op_cast(l->g, index, PLIM_F64, &index, l->err));
    PLIM_TRY(const_f64(l, (double)bins, &n));
    PLIM_TRY(ew_f64(l, PLIM__EW_SUB, lo_hi[1], lo_hi[0], PLIM_F64, &step));
    PLIM_TRY(ew_f64(l, PLIM__EW_DIV, step, n, PLIM_F64, &step));
    PLIM_TRY(ew_f64(l, PLIM__EW_MUL, index, step, PLIM_F64, &step));
    PLIM_TRY(ew_f64(l, PLIM__EW_ADD, step, lo_hi[0], PLIM_F64, &step));
    PLIM_TRY(plim__lower_ew2(l, PLIM__EW_EQUAL, index, n, &is_last));
    in[0] = is_last, in[1] = lo_hi[1], in[2] = step;
    return plim__op_elementwise(l->g, PLIM__EW_WHERE, PLIM_F64, PLIM_F64, in, 3, v, l->err);
}

plim_status plim__call_histogram(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, lo_hi[2];
    int64_t bins;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_FAIL_IF(a->arg[1].kind == PLIM__ITEM_SEQ, l->err, PLIM_E_UNSUPPORTED, "%s: bins is a number; bins of unequal width are not supported",
                 a->fn->name);
    PLIM_TRY(plim__arg_int(l, a, 1, &bins));
    PLIM_FAIL_IF(bins < 1 || bins > INT32_MAX, l->err, PLIM_E_INVALID, "%s: bins is %lld, it must be at least 1 and less than 2^31", a->fn->name,
                 (long long)bins);
    PLIM_TRY(plim__arg_is_none(a, 2) ? range_of_data(l, x, lo_hi) : range_given(l, a, lo_hi));
    if (a->fn->data) {
        const plim_dtype t = plim__dtype_of_mean(plim__dtype_of(l, x));
        PLIM_TRY(edges(l, lo_hi, bins, &x));
        PLIM_TRY(plim__op_cast(l->g, x, t, &x, l->err)); /* the precision in which the elements are compared with them */
    } else {
        PLIM_TRY(plim__op_histogram(l->g, x, lo_hi[0], lo_hi[1], bins, &x, l->err));
    }
    return done(out, x);
}

/* ---------------------------------------------------------------------------------------- quantiles */

enum { MAX_QUANTILES = 256 };

static plim_status quantile_points(plim__lower *l, const plim__args *a, double q[MAX_QUANTILES], uint32_t *n, bool *scalar)
{
    const plim__item *x = &a->arg[1];
    const double unit = a->fn->data ? 100 : 1;
    *scalar = x->kind != PLIM__ITEM_SEQ;
    *n = *scalar ? 1 : x->n;
    PLIM_FAIL_IF(*n == 0 || *n > MAX_QUANTILES, l->err, PLIM_E_INVALID, "%s: q has %u elements, it may have 1 to %d", a->fn->name, *n, MAX_QUANTILES);
    for (uint32_t k = 0; k < *n; k++) {
        const plim__item e = *scalar ? *x : plim__seq_at(l, x, k);
        PLIM_FAIL_IF(!plim__item_is_number(&e), l->err, PLIM_E_TYPE, "%s: q is a number or a list of numbers that are known now, not %s",
                     a->fn->name, plim__item_text(&e));
        q[k] = (e.kind == PLIM__ITEM_FLOAT ? e.f : (double)e.i) / unit;
        PLIM_FAIL_IF(!(q[k] >= 0 && q[k] <= 1), l->err, PLIM_E_INVALID, "%s: q is %g, it must lie in [0, %g]", a->fn->name, q[k] * unit, unit);
    }
    return PLIM_OK;
}

/* All dimensions at once, few elements: as one dimension, which plim__op_select can hold. */
static plim_status quantile_flat(plim__lower *l, uint32_t x, uint32_t q, bool keepdims, uint32_t *v)
{
    const uint32_t rank = plim__shape_of(l, x).rank;
    const int64_t flat = -1;
    PLIM_TRY(plim__reshape_to(l, x, &flat, 1, v));
    PLIM_TRY(plim__op_select(l->g, *v, q, 0, false, v, l->err));
    if (!keepdims) return PLIM_OK;
    plim_shape to = plim__shape_of(l, *v);
    PLIM_TRY(plim__rank_check(l, "quantile", to.rank + rank));
    for (uint32_t d = 0; d < rank; d++) to.dim[to.rank++] = 1;
    return plim__op_reshape(l->g, *v, &to, v, l->err);
}

plim_status plim__call_quantile(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, n, q_value, v;
    bool keepdims, scalar;
    double q[MAX_QUANTILES];
    PLIM_TRY(operand(l, a, 2, &x, &mask));
    PLIM_TRY(quantile_points(l, a, q, &n, &scalar));
    PLIM_TRY(plim__arg_bool(l, a, 3, &keepdims));
    if (plim__dtype_of(l, x) == PLIM_BOOL) PLIM_TRY(plim__op_cast(l->g, x, PLIM_U8, &x, l->err));
    const plim_dtype t = plim__dtype_of_mean(plim__dtype_of(l, x));
    const plim_shape shape = plim__shape_of(l, x), q_shape = {.rank = !scalar, .dim = {n}};
    const double count = count_of(&shape, mask);
    const uint32_t all = (1u << shape.rank) - 1;
    PLIM_FAIL_IF(count == 0, l->err, PLIM_E_SHAPE, "%s of no elements", a->fn->name);
    PLIM_TRY(plim__graph_const(l->g, PLIM_F64, &q_shape, q, &q_value, l->err));
    if (count <= SELECT_MAX && __builtin_popcount(mask) == 1)
        PLIM_TRY(plim__op_select(l->g, x, q_value, (uint32_t)__builtin_ctz(mask), keepdims, &v, l->err));
    else if (count <= SELECT_MAX && mask == all)
        PLIM_TRY(quantile_flat(l, x, q_value, keepdims, &v));
    else
        PLIM_TRY(plim__op_radix_quantile(l->g, x, q, n, scalar, mask, keepdims, &v, l->err));
    PLIM_TRY(plim__op_cast(l->g, v, t, &v, l->err));
    return done(out, v);
}

/* ------------------------------------------------------------------------------------- running sums */

plim_status plim__call_cumulative(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, axis = 0;
    const int64_t flat = -1;
    plim_dtype t;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_dtype(l, a, 2, sum_dtype(plim__dtype_of(l, x)), &t));
    PLIM_FAIL_IF(t == PLIM_BOOL, l->err, PLIM_E_TYPE, "%s cannot be given in bool", a->fn->name);
    PLIM_TRY(cast_floats(l, x, t, &x));
    if (plim__arg_is_none(a, 1)) PLIM_TRY(plim__reshape_to(l, x, &flat, 1, &x));
    else PLIM_TRY(plim__arg_axis(l, a, 1, plim__shape_of(l, x).rank, &axis));
    PLIM_TRY(plim__op_scan(l->g, (plim__reduction)a->fn->data, x, axis, t, &x, l->err));
    return done(out, x);
}

plim_status plim__call_vecdot(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t in[2], axis, v;
    PLIM_TRY(plim__arg_array(l, a, 0, &in[0]));
    PLIM_TRY(plim__arg_array(l, a, 1, &in[1]));
    const plim_dtype t = plim__dtype_promote(plim__dtype_of(l, in[0]), plim__dtype_of(l, in[1])), wide = accumulator_of(t);
    PLIM_TRY(plim__op_elementwise(l->g, PLIM__EW_MUL, wide, wide, in, 2, &v, l->err));
    PLIM_TRY(plim__arg_axis(l, a, 2, plim__shape_of(l, v).rank, &axis));
    PLIM_TRY(reduce_as(l, PLIM__REDUCE_SUM, v, 1u << axis, false, t, &v));
    return done(out, v);
}
