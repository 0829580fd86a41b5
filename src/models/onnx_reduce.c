/* Lowering: reductions, positions of the largest, sorted parts, running sums. */
#include "core/dtype.h"
#include "core/size.h"
#include "models/onnx.h"

enum { REDUCE_L1, REDUCE_L2, REDUCE_LOG_SUM, REDUCE_LOG_SUM_EXP, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_PROD, REDUCE_SUM, REDUCE_SUM_SQUARE };

/* The axes stand in an attribute or, later, in an input; none of them means all, or none at all if the node says so. */
static plim_status reduced(plim__onnx_call *c, uint32_t rank, uint32_t *mask, plim_error *err)
{
    int64_t axes[PLIM_MAX_RANK];
    uint32_t n, axis;
    bool given;
    *mask = 0;
    PLIM_TRY(plim__onnx_ints_or_input(c, "axes", 1, axes, PLIM_MAX_RANK, &n, &given, err));
    for (uint32_t i = 0; i < n; i++) {
        PLIM_TRY(plim__onnx_axis(axes[i], rank, false, &axis, err));
        *mask |= 1u << axis;
    }
    if (n == 0 && !plim__onnx_int(c, "noop_with_empty_axes", 0)) *mask = (1u << rank) - 1;
    return PLIM_OK;
}

/* log(sum(exp(x))), the largest taken out first so that nothing overflows. */
static plim_status log_sum_exp(plim__onnx_call *c, uint32_t x, uint32_t mask, uint32_t *v, plim_error *err)
{
    uint32_t largest, sum;
    PLIM_TRY(plim__op_reduce(c->g, PLIM__REDUCE_MAX, x, mask, true, plim__onnx_type(c, x), &largest, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, x, largest, &sum, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_EXP, sum, &sum, err));
    PLIM_TRY(plim__onnx_sum(c, sum, mask, true, false, &sum, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_LOG, sum, &sum, err));
    return plim__onnx_ew2(c, PLIM__EW_ADD, sum, largest, v, err);
}

/* Keeps the dimensions, with extent 1. */
static plim_status reduce(plim__onnx_call *c, uint32_t x, uint32_t mask, uint32_t *v, plim_error *err)
{
    const plim_dtype t = plim__onnx_type(c, x);
    switch (c->arg) {
    case REDUCE_L1: PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ABS, x, &x, err)); break;
    case REDUCE_L2: case REDUCE_SUM_SQUARE: PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SQUARE, x, &x, err)); break;
    case REDUCE_LOG_SUM_EXP: return log_sum_exp(c, x, mask, v, err);
    case REDUCE_MAX: return plim__op_reduce(c->g, PLIM__REDUCE_MAX, x, mask, true, t, v, err);
    case REDUCE_MIN: return plim__op_reduce(c->g, PLIM__REDUCE_MIN, x, mask, true, t, v, err);
    case REDUCE_PROD:
        PLIM_TRY(plim__op_reduce(c->g, PLIM__REDUCE_PROD, x, mask, true, plim__dtype_compute(t), v, err));
        return plim__op_cast(c->g, *v, t, v, err);
    }
    PLIM_TRY(plim__onnx_sum(c, x, mask, true, c->arg == REDUCE_MEAN, v, err));
    if (c->arg == REDUCE_L2) return plim__onnx_ew1(c, PLIM__EW_SQRT, *v, v, err);
    return c->arg == REDUCE_LOG_SUM ? plim__onnx_ew1(c, PLIM__EW_LOG, *v, v, err) : PLIM_OK;
}

plim_status plim__onnx_lower_reduce(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, mask, v;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(reduced(c, s.rank, &mask, err));
    if (mask == 0 && plim__onnx_int(c, "noop_with_empty_axes", 0)) {
        c->out[0] = x;
        return PLIM_OK;
    }
    PLIM_TRY(reduce(c, x, mask, &v, err));
    plim_shape to = {0};
    for (uint32_t d = 0; d < s.rank; d++) {
        if (!(mask >> d & 1)) to.dim[to.rank++] = s.dim[d];
        else if (plim__onnx_int(c, "keepdims", 1)) to.dim[to.rank++] = 1;
    }
    PLIM_TRY(plim__op_reshape(c->g, v, &to, &v, err));
    return plim__op_cast(c->g, v, plim__onnx_type(c, x), &c->out[0], err);
}

/* x with dimension `axis` backwards. */
static plim_status reversed(plim__onnx_call *c, uint32_t x, uint32_t axis, uint32_t *v, plim_error *err)
{
    const int64_t n = plim__onnx_shape(c, x).dim[axis];
    return plim__op_slice_axis(c->g, x, axis, n - 1, -1, n, v, err);
}

plim_status plim__onnx_lower_argreduce(plim__onnx_call *c, plim_error *err)
{
    const bool last = plim__onnx_int(c, "select_last_index", 0), keep = plim__onnx_int(c, "keepdims", 1);
    uint32_t x, axis, v, from;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), s.rank, false, &axis, err));
    if (last) PLIM_TRY(reversed(c, x, axis, &x, err)); /* the last is the first from behind */
    PLIM_TRY(plim__op_argreduce(c->g, c->arg, x, 1u << axis, keep, &v, err));
    if (last) {
        PLIM_TRY(plim__onnx_constant(c, PLIM_I64, (double)(s.dim[axis] - 1), &from, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, from, v, &v, err));
    }
    c->out[0] = v;
    return PLIM_OK;
}

plim_status plim__onnx_lower_topk(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, axis;
    double k = (double)plim__onnx_int(c, "k", -1);
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    if (plim__onnx_has(c, 1)) PLIM_TRY(plim__onnx_given_number(c, 1, "K", &k, err));
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", -1), s.rank, false, &axis, err));
    PLIM_FAIL_IF(!(k >= 0 && k <= (double)s.dim[axis]), err, PLIM_E_SHAPE, "the %g largest of %lld", k, (long long)s.dim[axis]);
    return plim__op_topk(c->g, x, (int64_t)k, axis, plim__onnx_int(c, "largest", 1), &c->out[0], &c->out[1], err);
}

/* Exclusive: everything one further, and nothing first. */
static plim_status shifted(plim__onnx_call *c, uint32_t x, uint32_t axis, uint32_t *v, plim_error *err)
{
    const int64_t n = plim__onnx_shape(c, x).dim[axis];
    int64_t before[PLIM_MAX_RANK] = {0};
    const int64_t after[PLIM_MAX_RANK] = {0};
    before[axis] = n > 0;
    PLIM_TRY(plim__op_slice_axis(c->g, x, axis, 0, 1, n - before[axis], &x, err));
    return plim__op_pad(c->g, x, before, after, PLIM__EDGE_CONSTANT, 0, v, err);
}

plim_status plim__onnx_lower_cumsum(plim__onnx_call *c, plim_error *err)
{
    const bool backward = plim__onnx_int(c, "reverse", 0);
    uint32_t x, axis, n;
    int64_t given;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_given_ints(c, 1, "axis", &given, 1, &n, err));
    PLIM_FAIL_IF(n != 1, err, PLIM_E_FORMAT, "input 1 (axis) is empty");
    PLIM_TRY(plim__onnx_axis(given, plim__onnx_shape(c, x).rank, false, &axis, err));
    if (backward) PLIM_TRY(reversed(c, x, axis, &x, err));
    if (plim__onnx_int(c, "exclusive", 0)) PLIM_TRY(shifted(c, x, axis, &x, err));
    PLIM_TRY(plim__op_scan(c->g, PLIM__REDUCE_SUM, x, axis, plim__onnx_type(c, x), &x, err));
    c->out[0] = x;
    return backward ? reversed(c, x, axis, &c->out[0], err) : PLIM_OK;
}
