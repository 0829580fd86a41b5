/* Normalisations and scalings.
 *
 * Batch normalisation in training uses the statistics of the batch and updates the running ones, new = old * momentum + batch * (1 - momentum), with
 * the variance that divides by the count, as Keras 3 has it (Keras 2 took the unbiased one where it could use a fused kernel). A layer that
 * is not trained uses the running statistics in training, too. */
#include "models/keras.h"

#include <string.h>

/* gamma and beta of `shape`, PLIM__NONE where there is none; *slot counts them. */
static plim_status affine(plim__keras_call *c, const plim_shape *shape, uint32_t *gamma, uint32_t *beta, uint32_t *slot)
{
    bool scale, center;
    *gamma = *beta = PLIM__NONE;
    PLIM_TRY(plim__keras_flag(c, "scale", true, &scale));
    PLIM_TRY(plim__keras_flag(c, "center", true, &center));
    const plim__keras_spec g = {.name = "gamma", .init = "gamma_initializer", .otherwise = "ones", .slot = *slot};
    if (scale) PLIM_TRY(plim__keras_param(c, &g, shape, gamma));
    *slot += scale;
    const plim__keras_spec b = {.name = "beta", .init = "beta_initializer", .otherwise = "zeros", .slot = *slot};
    if (center) PLIM_TRY(plim__keras_param(c, &b, shape, beta));
    *slot += center;
    return PLIM_OK;
}

/* The running statistic that is the layer's weight number `i`, moved towards `now`. Several calls of one layer move it one after the other. */
static plim_status move_statistic(plim__keras_call *c, uint32_t i, uint32_t now, double momentum)
{
    plim_graph *g = c->k->graph;
    plim__param *p = &c->k->model->param[c->layer->weight[i].param];
    uint32_t old, share;
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, p->update == PLIM__NONE ? p->value : p->update, momentum, &old, c->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, now, 1 - momentum, &share, c->err));
    return plim__op_float2(g, PLIM__EW_ADD, old, share, &p->update, c->err);
}

plim_status plim__keras_batch_norm(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    double eps, momentum;
    uint32_t mask, gamma, beta, mean, variance, slot = 0;
    plim__keras_tensor x;
    PLIM_TRY(plim__keras_in(c, 0, &x));
    PLIM_TRY(plim__keras_axes(c, "axis", -1, plim__keras_rank(c, x), &mask));
    PLIM_FAIL_IF(__builtin_popcount(mask) != 1, c->err, PLIM_E_UNSUPPORTED, "several axes are not supported");
    PLIM_TRY(plim__json_get_number(&eps, c->config, "epsilon", 1e-3, c->err));
    PLIM_TRY(plim__json_get_number(&momentum, c->config, "momentum", 0.99, c->err));
    const uint32_t channel = plim__keras_dim_of(c, x, (uint32_t)__builtin_ctz(mask));
    const plim_shape s = {1, {g->value[x.v].shape.dim[channel]}};
    PLIM_TRY(affine(c, &s, &gamma, &beta, &slot));
    const uint32_t at = c->n_weights;
    const plim__keras_spec m = {.name = "moving_mean", .init = "moving_mean_initializer", .otherwise = "zeros", .frozen = true, .slot = slot};
    const plim__keras_spec v = {
        .name = "moving_variance", .init = "moving_variance_initializer", .otherwise = "ones", .frozen = true, .slot = slot + 1};
    PLIM_TRY(plim__keras_param(c, &m, &s, &mean));
    PLIM_TRY(plim__keras_param(c, &v, &s, &variance));
    c->out.turned = x.turned;
    if (!c->k->training || !plim__keras_trained(c->k, c->layer))
        return plim__op_batch_norm(g, x.v, channel, gamma, beta, mean, variance, eps, &c->out.v, c->err);
    PLIM_TRY(plim__op_batch_norm_training(g, x.v, channel, gamma, beta, eps, &c->out.v, &mean, &variance, c->err));
    PLIM_TRY(move_statistic(c, at, mean, momentum));
    return move_statistic(c, at + 1, variance, momentum);
}

plim_status plim__keras_layer_norm(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    double eps;
    uint32_t mask, gamma, beta, x, slot = 0;
    plim__keras_tensor t;
    PLIM_TRY(plim__keras_in(c, 0, &t));
    PLIM_TRY(plim__keras_plain(c, t, &x));
    const plim_shape s = g->value[x].shape;
    PLIM_TRY(plim__keras_axes(c, "axis", -1, s.rank, &mask));
    PLIM_TRY(plim__json_get_number(&eps, c->config, "epsilon", 1e-3, c->err));
    const uint32_t first = mask ? (uint32_t)__builtin_ctz(mask) : 0;
    PLIM_FAIL_IF(mask != ((1u << s.rank) - (1u << first)), c->err, PLIM_E_UNSUPPORTED, "axes other than the last ones are not supported");
    plim_shape of = {.rank = s.rank - first};
    for (uint32_t d = 0; d < of.rank; d++) of.dim[d] = s.dim[first + d];
    PLIM_TRY(affine(c, &of, &gamma, &beta, &slot));
    c->out.turned = false;
    return plim__op_layer_norm(g, x, first, gamma, beta, eps, &c->out.v, c->err);
}

plim_status plim__keras_group_norm(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    double eps;
    int64_t groups;
    uint32_t mask, gamma, beta, x, slot = 0;
    plim__keras_tensor t;
    PLIM_TRY(plim__keras_in(c, 0, &t));
    const uint32_t rank = plim__keras_rank(c, t);
    PLIM_TRY(plim__keras_axes(c, "axis", -1, rank, &mask));
    PLIM_TRY(plim__json_get_integer(&groups, c->config, "groups", 32, c->err));
    PLIM_TRY(plim__json_get_number(&eps, c->config, "epsilon", 1e-3, c->err));
    const bool last = mask == 1u << (rank - 1), first = mask == 2;
    PLIM_FAIL_IF(rank < 2 || (!last && !first), c->err, PLIM_E_UNSUPPORTED, "only the channels' axis, 1 or the last, is supported");
    PLIM_TRY(last && rank > 2 ? plim__keras_turn(c, t, &x) : plim__keras_plain(c, t, &x));
    const plim_shape s = {1, {g->value[x].shape.dim[1]}};
    PLIM_TRY(affine(c, &s, &gamma, &beta, &slot));
    c->out.turned = last && rank > 2;
    return plim__op_group_norm(g, x, groups == -1 ? s.dim[0] : groups, gamma, beta, eps, &c->out.v, c->err);
}

/* x / sqrt(max(sum of squares, 1e-12)) */
plim_status plim__keras_unit_norm(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    uint32_t mask, dims = 0, sum;
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    const uint32_t rank = plim__keras_rank(c, c->out);
    PLIM_TRY(plim__keras_axes(c, "axis", -1, rank, &mask));
    for (uint32_t d = 0; d < rank; d++)
        if (mask >> d & 1) dims |= 1u << plim__keras_dim_of(c, c->out, d);
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQUARE, c->out.v, &sum, c->err));
    PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, sum, dims, true, c->layer->dtype, &sum, c->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MAXIMUM, sum, 1e-12, &sum, c->err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQRT, sum, &sum, c->err));
    return plim__op_float2(g, PLIM__EW_DIV, c->out.v, sum, &c->out.v, c->err);
}

/* ------------------------------------------------------------------------------------------------- constants of a config */

#define NUMBERS 4096

/* `key` as a constant: a number, a list of numbers (perhaps inside other lists of one), or an array object that holds such a list.
 * @param v  rank 0 or 1; PLIM__NONE: it is not there */
static plim_status constant(plim__keras_call *c, const char *key, uint32_t *v)
{
    plim__json j, e;
    double number[NUMBERS], cast[NUMBERS];
    *v = PLIM__NONE;
    if (!plim__json_find(&j, c->config, key)) return PLIM_OK;
    if (plim__json_kind_of(&j) == PLIM__JSON_OBJECT) {
        PLIM_TRY(plim__json_get(&e, &j, "config", c->err));
        PLIM_TRY(plim__json_get(&j, &e, "value", c->err));
    }
    while (plim__json_kind_of(&j) == PLIM__JSON_ARRAY && plim__json_count(&j) == 1) {
        PLIM_TRY(plim__json_at(&e, &j, 0, c->err));
        if (plim__json_kind_of(&e) != PLIM__JSON_ARRAY) break;
        j = e;
    }
    const bool list = plim__json_kind_of(&j) == PLIM__JSON_ARRAY;
    const uint32_t n = list ? plim__json_count(&j) : 1;
    if (n > NUMBERS) return plim__json_fail(c->err, PLIM_E_UNSUPPORTED, &j, "more than %d numbers", NUMBERS);
    for (uint32_t i = 0; i < n; i++) {
        if (list) PLIM_TRY(plim__json_at(&e, &j, i, c->err));
        PLIM_TRY(plim__json_number(&number[i], list ? &e : &j, c->err));
    }
    const plim_shape s = {.rank = list, .dim = {n}};
    plim__convert(cast, c->layer->dtype, number, PLIM_F64, n);
    return plim__graph_const(c->k->graph, c->layer->dtype, &s, cast, v, c->err);
}

/* What is added or multiplied along the last dimension needs the model's order, unless it is one number. */
static plim_status meet(plim__keras_call *c, uint32_t constant_value)
{
    if (c->k->graph->value[constant_value].shape.rank == 0) return PLIM_OK;
    PLIM_TRY(plim__keras_plain(c, c->out, &c->out.v));
    c->out.turned = false;
    return PLIM_OK;
}

plim_status plim__keras_rescaling(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    uint32_t scale, offset;
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    PLIM_TRY(constant(c, "scale", &scale));
    PLIM_TRY(constant(c, "offset", &offset));
    if (scale != PLIM__NONE) {
        PLIM_TRY(meet(c, scale));
        PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, c->out.v, scale, &c->out.v, c->err));
    }
    if (offset == PLIM__NONE) return PLIM_OK;
    PLIM_TRY(meet(c, offset));
    return plim__op_float2(g, PLIM__EW_ADD, c->out.v, offset, &c->out.v, c->err);
}

/* Mean and variance: of the config, or parameters that were found from data before. */
static plim_status statistics(plim__keras_call *c, uint32_t mask, uint32_t rank, uint32_t *mean, uint32_t *variance)
{
    PLIM_TRY(constant(c, "mean", mean));
    PLIM_TRY(constant(c, "variance", variance));
    if (*mean != PLIM__NONE && *variance != PLIM__NONE) return PLIM_OK;
    const plim_shape all = plim__keras_shape(c, c->out);
    plim_shape s = {.rank = mask != 0};
    if (mask) s.dim[0] = all.dim[rank - 1];
    const plim__keras_spec m = {.name = "mean", .otherwise = "zeros", .frozen = true},
                           v = {.name = "variance", .otherwise = "ones", .frozen = true, .slot = 1};
    PLIM_TRY(plim__keras_param(c, &m, &s, mean));
    PLIM_TRY(plim__keras_param(c, &v, &s, variance));
    return plim__keras_skip(c, 2); /* how many samples they were found from */
}

plim_status plim__keras_normalization(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    uint32_t mask = 0, mean, variance;
    bool invert;
    plim__json j;
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    PLIM_TRY(plim__keras_plain(c, c->out, &c->out.v));
    c->out.turned = false;
    const uint32_t rank = plim__keras_rank(c, c->out);
    if (plim__json_find(&j, c->config, "axis")) PLIM_TRY(plim__keras_axes(c, "axis", -1, rank, &mask));
    PLIM_FAIL_IF(rank == 0 || (mask && mask != 1u << (rank - 1)), c->err, PLIM_E_UNSUPPORTED, "only the last axis, or none, is supported");
    PLIM_TRY(plim__keras_flag(c, "invert", false, &invert));
    PLIM_TRY(statistics(c, mask, rank, &mean, &variance));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQRT, variance, &variance, c->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MAXIMUM, variance, 1e-7, &variance, c->err));
    uint32_t *x = &c->out.v;
    PLIM_TRY(plim__op_float2(g, invert ? PLIM__EW_MUL : PLIM__EW_SUB, *x, invert ? variance : mean, x, c->err));
    return plim__op_float2(g, invert ? PLIM__EW_ADD : PLIM__EW_DIV, *x, invert ? mean : variance, x, c->err);
}
