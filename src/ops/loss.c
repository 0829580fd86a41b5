/* Losses, composed. Everything with an exponential goes through log softmax or logaddexp, which overflow nowhere; sums are in f64.
 *
 *     MSE      mean((y - t)^2)                          MAE     mean(|y - t|)
 *     BINARY   mean(-t*log(y) - (1 - t)*log(1 - y)); from logits log(1 + exp(y)) - t*y
 *     CROSS    sum(-t*log(y)) / samples;                from logits with log softmax in place of log
 *     SPARSE   the same with a target of 1 where the class is the target: a choice among the logarithms
 *
 * Probabilities that a sigmoid or softmax of this graph has just made are not taken the logarithm of: its input is there, and loses nothing. */
#include "core/dtype.h"
#include "ops/checks.h"
#include "ops/layers.h"

#define NEAR 1e-7 /* how near to 0 and 1 a probability may come */

static double count_of(const plim_shape *s)
{
    double n = 1;
    for (uint32_t d = 0; d < s->rank; d++) n *= (double)s->dim[d];
    return n;
}

/* The sum of all elements, divided, in x's dtype. */
static plim_status sum_over(plim_graph *g, uint32_t x, double divide, uint32_t *v, plim_error *err)
{
    const plim_dtype t = g->value[x].dtype;
    const uint32_t all = (1u << g->value[x].shape.rank) - 1;
    PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, x, all, false, PLIM_F64, v, err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_DIV, *v, divide, v, err));
    return plim__op_cast(g, *v, t, v, err);
}

static plim_status difference(plim_graph *g, plim__ew fn, uint32_t y, uint32_t t, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__op_float2(g, PLIM__EW_SUB, y, t, v, err));
    PLIM_TRY(plim__op_float1(g, fn, *v, v, err));
    return sum_over(g, *v, count_of(&g->value[y].shape), v, err);
}

/* ----------------------------------------------------------------------------------------------- logits */

/* The input of the softmax or sigmoid (an op `op` of kind `kind`) that made y, in y's order of dimensions: what is behind y may be transposed.
 * @param axis  of y, for a softmax: it must be along this one; may be NULL
 * @param v     PLIM__NONE: y was made otherwise */
static plim_status logits_of(plim_graph *g, uint32_t y, uint32_t op, uint32_t kind, const uint32_t *axis, uint32_t *v, plim_error *err)
{
    *v = PLIM__NONE;
    if (g->value[y].kind != PLIM__VALUE_NODE) return PLIM_OK;
    const plim__node n = g->node[g->value[y].node];
    if (n.op == PLIM__OP_TRANSPOSE) {
        uint32_t perm[PLIM_MAX_RANK], inner = PLIM__NONE;
        for (uint32_t d = 0; d < g->value[y].shape.rank; d++) perm[d] = (uint32_t)n.attr.i[d];
        if (axis) inner = perm[*axis];
        PLIM_TRY(logits_of(g, n.in[0], op, kind, axis ? &inner : NULL, v, err));
        return *v == PLIM__NONE ? PLIM_OK : plim__op_transpose(g, *v, perm, v, err);
    }
    if (n.op != op || n.attr.kind != kind || (axis && n.attr.i[0] != *axis)) return PLIM_OK;
    if (g->value[n.in[0]].dtype == g->value[y].dtype) *v = n.in[0];
    return PLIM_OK;
}

/* log(y) of probabilities, along `axis` where they come from a softmax. */
static plim_status log_of(plim_graph *g, uint32_t y, uint32_t axis, uint32_t *v, plim_error *err)
{
    uint32_t logits;
    PLIM_TRY(logits_of(g, y, PLIM__OP_SOFTMAX, 0, &axis, &logits, err));
    if (logits != PLIM__NONE) return plim__op_softmax(g, logits, axis, true, v, err);
    PLIM_TRY(plim__op_limit(g, y, NEAR, 1 - NEAR, v, err));
    return plim__op_float1(g, PLIM__EW_LOG, *v, v, err);
}

/* ----------------------------------------------------------------------------------------------- binary */

/* log(1 + exp(y)) - t*y: the first term is max(y, 0) + log1p(exp(-|y|)) inside, with the right gradient at 0 too. */
static plim_status binary_logits(plim_graph *g, uint32_t y, uint32_t t, uint32_t *v, plim_error *err)
{
    uint32_t product;
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_LOGADDEXP, y, 0, v, err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, t, y, &product, err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_SUB, *v, product, v, err));
    return sum_over(g, *v, count_of(&g->value[y].shape), v, err);
}

/* log(1 - y) + t * (log(y) - log(1 - y)), negated in the mean. */
static plim_status binary(plim_graph *g, uint32_t y, uint32_t t, uint32_t *v, plim_error *err)
{
    uint32_t logits, p, yes, no;
    PLIM_TRY(logits_of(g, y, PLIM__OP_ELEMENTWISE, PLIM__EW_SIGMOID, NULL, &logits, err));
    if (logits != PLIM__NONE) return binary_logits(g, logits, t, v, err);
    PLIM_TRY(plim__op_limit(g, y, NEAR, 1 - NEAR, &p, err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_LOG, p, &yes, err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_NEG, p, &no, err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_LOG1P, no, &no, err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_SUB, yes, no, v, err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, t, *v, v, err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_ADD, no, *v, v, err));
    return sum_over(g, *v, -count_of(&g->value[y].shape), v, err);
}

/* ----------------------------------------------------------------------------------------- cross-entropy */

/* 0, 1, 2 ... of as many classes, standing along `axis` of an array of rank `rank`. */
static plim_status classes(plim_graph *g, int64_t n, uint32_t axis, uint32_t rank, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(n > INT32_MAX, err, PLIM_E_SHAPE, "loss: %lld classes", (long long)n);
    plim_shape s = {.rank = rank - axis, .dim = {n}};
    for (uint32_t d = 1; d < s.rank; d++) s.dim[d] = 1;
    int32_t *number = plim__new(&g->alloc, n ? (uint64_t)n : 1, sizeof *number, err);
    if (!number) return PLIM_E_NOMEM;
    for (int64_t i = 0; i < n; i++) number[i] = (int32_t)i;
    const plim_status status = plim__graph_const(g, PLIM_I32, &s, number, v, err);
    plim__free(&g->alloc, number);
    return status;
}

/* `log` where the class is the target, else 0. */
static plim_status choose(plim_graph *g, uint32_t log, uint32_t target, uint32_t axis, uint32_t *v, plim_error *err)
{
    const plim_shape s = g->value[log].shape;
    plim_shape one = s;
    one.dim[axis] = 1;
    uint32_t is[2], test, zero;
    PLIM_TRY(plim__op_reshape(g, target, &one, &is[0], err));
    PLIM_TRY(classes(g, s.dim[axis], axis, s.rank, &is[1], err));
    PLIM_TRY(plim__op_elementwise(g, PLIM__EW_EQUAL, plim__dtype_compute(g->value[target].dtype), PLIM_BOOL, is, 2, &test, err));
    PLIM_TRY(plim__op_scalar(g, g->value[log].dtype, 0, &zero, err));
    return plim__op_where(g, test, log, zero, v, err);
}

static plim_status cross(plim_graph *g, uint32_t log, uint32_t target, uint32_t axis, bool sparse, uint32_t *v, plim_error *err)
{
    const plim_shape s = g->value[log].shape;
    if (sparse) PLIM_TRY(choose(g, log, target, axis, v, err));
    else PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, target, log, v, err));
    plim_shape samples = s;
    samples.dim[axis] = 1;
    return sum_over(g, *v, -count_of(&samples), v, err);
}

/* ------------------------------------------------------------------------------------------------ losses */

/* A target that counts as one of y. */
static plim_status check_target(plim_graph *g, uint32_t y, uint32_t *target, uint32_t axis, bool sparse, plim_error *err)
{
    const plim_shape *s = &g->value[y].shape, *t = &g->value[*target].shape;
    plim_shape want = *s;
    if (sparse) {
        want.rank--;
        for (uint32_t d = axis; d < want.rank; d++) want.dim[d] = s->dim[d + 1];
        const plim_dtype dtype = g->value[*target].dtype;
        PLIM_FAIL_IF(plim__dtype_is_float(dtype) || dtype == PLIM_BOOL, err, PLIM_E_TYPE, "loss: the target is a class number, not %s",
                     plim_dtype_name(dtype));
    }
    char have[160], need[160];
    PLIM_FAIL_IF(!plim__shape_equal(t, &want), err, PLIM_E_SHAPE, "loss: a target of shape %s, not %s", plim_shape_format(have, sizeof have, t),
                 plim_shape_format(need, sizeof need, &want));
    return sparse ? PLIM_OK : plim__op_cast(g, *target, g->value[y].dtype, target, err);
}

plim_status plim__op_loss(plim_graph *g, plim__loss how, uint32_t y, uint32_t target, uint32_t axis, uint32_t *v, plim_error *err)
{
    const bool sparse = how == PLIM__LOSS_SPARSE || how == PLIM__LOSS_SPARSE_LOGITS, classed = how >= PLIM__LOSS_CROSS;
    PLIM_TRY(plim__check_value(g, y, "loss", err));
    PLIM_TRY(plim__check_value(g, target, "loss", err));
    PLIM_TRY(plim__check_float(&g->value[y], "loss", err));
    if (classed) PLIM_TRY(plim__check_axis(&g->value[y].shape, axis, "loss", err));
    PLIM_TRY(check_target(g, y, &target, axis, sparse, err));
    uint32_t log;
    switch (how) {
    case PLIM__LOSS_MSE: return difference(g, PLIM__EW_SQUARE, y, target, v, err);
    case PLIM__LOSS_MAE: return difference(g, PLIM__EW_ABS, y, target, v, err);
    case PLIM__LOSS_BINARY: return binary(g, y, target, v, err);
    case PLIM__LOSS_BINARY_LOGITS: return binary_logits(g, y, target, v, err);
    case PLIM__LOSS_CROSS: case PLIM__LOSS_SPARSE:
        PLIM_TRY(log_of(g, y, axis, &log, err));
        return cross(g, log, target, axis, sparse, v, err);
    case PLIM__LOSS_CROSS_LOGITS: case PLIM__LOSS_SPARSE_LOGITS:
        PLIM_TRY(plim__op_softmax(g, y, axis, true, &log, err));
        return cross(g, log, target, axis, sparse, v, err);
    }
    return plim__fail(err, PLIM_E_INVALID, "loss %d does not exist", (int)how);
}
