/* Normalisations, composed: statistics by plim__op_moments (f64, sound for any mean), then (x - mean) * factor + shift. The mean is subtracted before
 * anything is multiplied, so that a large one takes no digits.
 *
 * What has one element per channel is worked on as [C] and reshaped to stand against x only at the end: small values, small nodes. */
#include "ops/checks.h"
#include "ops/layers.h"

#include <string.h>

/* [C] as a shape that broadcasts along dimension `channel` of x: [C, 1, 1...]. */
static plim_status along_channel(plim_graph *g, uint32_t c, const plim_shape *x, uint32_t channel, uint32_t *v, plim_error *err)
{
    const plim_shape has = g->value[c].shape;
    PLIM_FAIL_IF(has.rank != 1 || has.dim[0] != x->dim[channel], err, PLIM_E_SHAPE, "norm: a value of rank %u and extent %lld for %lld channels",
                 has.rank, (long long)(has.rank ? has.dim[0] : 1), (long long)x->dim[channel]);
    plim_shape to = {.rank = x->rank - channel, .dim = {has.dim[0]}};
    for (uint32_t d = 1; d < to.rank; d++) to.dim[d] = 1;
    *v = c;
    return to.rank == 1 ? PLIM_OK : plim__op_reshape(g, c, &to, v, err);
}

/* 1 / sqrt(var + eps) */
static plim_status inverse_deviation(plim_graph *g, uint32_t var, double eps, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_ADD, var, eps, v, err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQRT, *v, v, err));
    return plim__op_float1(g, PLIM__EW_RECIPROCAL, *v, v, err);
}

/* Row k of the moments, as x's dtype and of shape `to`. */
static plim_status moment(plim_graph *g, uint32_t moments, int64_t k, double divide, plim_dtype t, const plim_shape *to, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__op_slice_axis(g, moments, 0, k, 1, 1, v, err));
    PLIM_TRY(plim__op_reshape(g, *v, to, v, err));
    if (divide != 1) PLIM_TRY(plim__op_float_const(g, PLIM__EW_DIV, *v, divide, v, err));
    return plim__op_cast(g, *v, t, v, err);
}

/* Mean and variance of x over `mask`, of shape `to`, which has as many elements as are left. */
static plim_status statistics(plim_graph *g, uint32_t x, uint32_t mask, const plim_shape *to, uint32_t *mean, uint32_t *var, plim_error *err)
{
    const plim_shape s = g->value[x].shape;
    const plim_dtype t = g->value[x].dtype;
    double count = 1;
    for (uint32_t d = 0; d < s.rank; d++) count *= mask >> d & 1 ? (double)s.dim[d] : 1;
    uint32_t moments;
    PLIM_TRY(plim__op_moments(g, x, mask, false, &moments, err));
    PLIM_TRY(moment(g, moments, 1, 1, t, to, mean, err));
    return moment(g, moments, 2, count, t, to, var, err);
}

/* (x - mean) * factor + shift, everything of a shape that broadcasts; shift may be PLIM__NONE. */
static plim_status apply(plim_graph *g, uint32_t x, uint32_t mean, uint32_t factor, uint32_t shift, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__op_float2(g, PLIM__EW_SUB, x, mean, v, err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, *v, factor, v, err));
    return shift == PLIM__NONE ? PLIM_OK : plim__op_float2(g, PLIM__EW_ADD, *v, shift, v, err);
}

static plim_status check(const plim_graph *g, uint32_t x, const uint32_t *others, uint32_t n, const char *what, plim_error *err)
{
    PLIM_TRY(plim__check_value(g, x, what, err));
    PLIM_TRY(plim__check_float(&g->value[x], what, err));
    for (uint32_t k = 0; k < n; k++)
        if (others[k] != PLIM__NONE) PLIM_TRY(plim__check_value(g, others[k], what, err));
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------- batch norm */

plim_status plim__op_batch_norm(plim_graph *g, uint32_t x, uint32_t channel, uint32_t scale, uint32_t shift, uint32_t mean, uint32_t var, double eps,
                                uint32_t *v, plim_error *err)
{
    PLIM_TRY(check(g, x, (const uint32_t[]){scale, shift}, 2, "batch norm", err));
    PLIM_TRY(plim__check_value(g, mean, "batch norm", err));
    PLIM_TRY(plim__check_value(g, var, "batch norm", err));
    const plim_shape s = g->value[x].shape;
    PLIM_TRY(plim__check_axis(&s, channel, "batch norm", err));
    uint32_t factor;
    PLIM_TRY(inverse_deviation(g, var, eps, &factor, err));
    if (scale != PLIM__NONE) PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, factor, scale, &factor, err));
    PLIM_TRY(along_channel(g, factor, &s, channel, &factor, err));
    PLIM_TRY(along_channel(g, mean, &s, channel, &mean, err));
    if (shift != PLIM__NONE) PLIM_TRY(along_channel(g, shift, &s, channel, &shift, err));
    return apply(g, x, mean, factor, shift, v, err);
}

plim_status plim__op_batch_norm_training(plim_graph *g, uint32_t x, uint32_t channel, uint32_t scale, uint32_t shift, double eps, uint32_t *v,
                                         uint32_t *mean, uint32_t *var, plim_error *err)
{
    PLIM_TRY(check(g, x, (const uint32_t[]){scale, shift}, 2, "batch norm", err));
    const plim_shape s = g->value[x].shape;
    PLIM_TRY(plim__check_axis(&s, channel, "batch norm", err));
    const plim_shape c = {1, {s.dim[channel]}};
    uint32_t m, variance;
    PLIM_TRY(statistics(g, x, ((1u << s.rank) - 1) & ~(1u << channel), &c, &m, &variance, err));
    if (mean) *mean = m;
    if (var) *var = variance;
    return plim__op_batch_norm(g, x, channel, scale, shift, m, variance, eps, v, err);
}

/* ------------------------------------------------------------------------------------- layer and group norm */

plim_status plim__op_layer_norm(plim_graph *g, uint32_t x, uint32_t first, uint32_t scale, uint32_t shift, double eps, uint32_t *v, plim_error *err)
{
    PLIM_TRY(check(g, x, (const uint32_t[]){scale, shift}, 2, "layer norm", err));
    const plim_shape s = g->value[x].shape;
    PLIM_TRY(plim__check_axis(&s, first, "layer norm", err));
    plim_shape kept = s, own = {.rank = s.rank - first};
    memcpy(own.dim, s.dim + first, own.rank * sizeof *own.dim);
    for (uint32_t d = first; d < s.rank; d++) kept.dim[d] = 1;
    for (int k = 0; k < 2; k++) {
        const uint32_t given = k ? shift : scale;
        PLIM_FAIL_IF(given != PLIM__NONE && !plim__shape_equal(&g->value[given].shape, &own), err, PLIM_E_SHAPE,
                     "layer norm: the %s does not have the dimensions that are normalised", k ? "shift" : "scale");
    }
    uint32_t mean, var, factor;
    PLIM_TRY(statistics(g, x, ((1u << s.rank) - 1) & ~((1u << first) - 1), &kept, &mean, &var, err));
    PLIM_TRY(inverse_deviation(g, var, eps, &factor, err));
    PLIM_TRY(apply(g, x, mean, factor, PLIM__NONE, v, err));
    if (scale != PLIM__NONE) PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, *v, scale, v, err));
    return shift == PLIM__NONE ? PLIM_OK : plim__op_float2(g, PLIM__EW_ADD, *v, shift, v, err);
}

/* [N, groups] as one element per channel, [N, C, 1...]. */
static plim_status per_channel(plim_graph *g, uint32_t v, const plim_shape *x, int64_t groups, uint32_t *out, plim_error *err)
{
    const int64_t n = x->dim[0], each = groups ? x->dim[1] / groups : 0;
    const plim_shape apart = {3, {n, groups, 1}}, spread = {3, {n, groups, each}};
    plim_shape to = {.rank = x->rank, .dim = {n, x->dim[1]}};
    for (uint32_t d = 2; d < x->rank; d++) to.dim[d] = 1;
    PLIM_TRY(plim__op_reshape(g, v, &apart, out, err));
    PLIM_TRY(plim__op_broadcast(g, *out, &spread, out, err));
    return plim__op_reshape(g, *out, &to, out, err);
}

/* Mean and 1/deviation of each group. One group and groups of one channel need no other shape of x. */
static plim_status group_statistics(plim_graph *g, uint32_t x, int64_t groups, double eps, uint32_t *mean, uint32_t *factor, plim_error *err)
{
    const plim_shape s = g->value[x].shape;
    const bool single = groups == s.dim[1];
    uint32_t from = x, var;
    plim_shape kept = {.rank = s.rank, .dim = {s.dim[0], groups}}, cut = {.rank = s.rank + 1, .dim = {s.dim[0], groups, s.dim[1] / groups}};
    for (uint32_t d = 2; d < s.rank; d++) kept.dim[d] = 1;
    uint32_t mask = ((1u << s.rank) - 1) & ~(single ? 3u : 1u);
    if (!single && groups != 1) {
        PLIM_FAIL_IF(s.rank == PLIM_MAX_RANK, err, PLIM_E_SHAPE, "group norm: an array of rank %u cannot be cut into groups", s.rank);
        memcpy(cut.dim + 3, s.dim + 2, (s.rank - 2) * sizeof *s.dim);
        PLIM_TRY(plim__op_reshape(g, x, &cut, &from, err));
        mask = ((1u << cut.rank) - 1) & ~3u;
    }
    PLIM_TRY(statistics(g, from, mask, &kept, mean, &var, err));
    PLIM_TRY(inverse_deviation(g, var, eps, factor, err));
    if (single || groups == 1) return PLIM_OK;
    PLIM_TRY(per_channel(g, *mean, &s, groups, mean, err));
    return per_channel(g, *factor, &s, groups, factor, err);
}

plim_status plim__op_group_norm(plim_graph *g, uint32_t x, int64_t groups, uint32_t scale, uint32_t shift, double eps, uint32_t *v, plim_error *err)
{
    PLIM_TRY(check(g, x, (const uint32_t[]){scale, shift}, 2, "group norm", err));
    const plim_shape s = g->value[x].shape;
    PLIM_FAIL_IF(s.rank < 2, err, PLIM_E_SHAPE, "group norm: an array of rank %u has no channels", s.rank);
    PLIM_FAIL_IF(groups < 1 || s.dim[1] % groups != 0, err, PLIM_E_SHAPE, "group norm: %lld channels in %lld groups", (long long)s.dim[1],
                 (long long)groups);
    PLIM_FAIL_IF(s.rank == 2 && groups == s.dim[1], err, PLIM_E_SHAPE, "group norm: groups of one element each");
    uint32_t mean, factor;
    PLIM_TRY(group_statistics(g, x, groups, eps, &mean, &factor, err));
    if (scale != PLIM__NONE) {
        PLIM_TRY(along_channel(g, scale, &s, 1, &scale, err));
        PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, factor, scale, &factor, err));
    }
    if (shift != PLIM__NONE) PLIM_TRY(along_channel(g, shift, &s, 1, &shift, err));
    return apply(g, x, mean, factor, shift, v, err);
}
