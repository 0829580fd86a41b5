/* Lowering: normalisations. Those with statistics in the model take batch statistics when the model is being trained, and then say what the
 * statistics become. */
#include "core/dtype.h"
#include "models/onnx.h"

/* Input k as a parameter that is not trained; f32 where it is a half float. */
static plim_status statistic(plim__onnx_call *c, uint32_t k, uint32_t *v, plim_error *err)
{
    if (!c->folding) PLIM_TRY(plim__onnx_materialise(c->x, plim__onnx_slot_in(c, k), false, v, err));
    return plim__onnx_in_float(c, k, v, err);
}

/* momentum * before + (1 - momentum) * now. */
static plim_status moving(plim__onnx_call *c, uint32_t before, uint32_t now, double momentum, uint32_t *v, plim_error *err)
{
    uint32_t a, b;
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, before, momentum, &a, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, now, 1 - momentum, &b, err));
    return plim__onnx_ew2(c, PLIM__EW_ADD, a, b, v, err);
}

/* The parameter whose value is `v`, if it is one, becomes `update` after a step. */
static void set_update(plim__model *m, uint32_t v, uint32_t update)
{
    for (uint32_t i = 0; i < m->n_params; i++)
        if (m->param[i].value == v && m->graph->value[v].dtype == m->graph->value[update].dtype) m->param[i].update = update;
}

static plim_status batch_norm_training(plim__onnx_call *c, const uint32_t in[5], plim_error *err)
{
    const double momentum = plim__onnx_float(c, "momentum", 0.9);
    uint32_t v, now[2];
    PLIM_TRY(plim__op_batch_norm_training(c->g, in[0], 1, in[1], in[2], plim__onnx_float(c, "epsilon", 1e-5), &v, &now[0], &now[1], err));
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t next;
        PLIM_TRY(moving(c, in[3 + k], now[k], momentum, &next, err));
        set_update(c->x->model, in[3 + k], next);
        if (plim__onnx_wants(c, 1 + k)) c->out[1 + k] = next;
    }
    return plim__onnx_out_like(c, 0, v, err);
}

plim_status plim__onnx_lower_batch_norm(plim__onnx_call *c, plim_error *err)
{
    uint32_t in[5], v;
    for (uint32_t k = 0; k < 3; k++) PLIM_TRY(plim__onnx_in_float(c, k, &in[k], err));
    for (uint32_t k = 3; k < 5; k++) PLIM_TRY(statistic(c, k, &in[k], err));
    if (plim__onnx_int(c, "spatial", 1) != 1) return plim__onnx_refuse(c, "spatial", err);
    PLIM_FAIL_IF(plim__onnx_shape(c, in[0]).rank < 2, err, PLIM_E_SHAPE, "an input of %u dimensions has no channels",
                 plim__onnx_shape(c, in[0]).rank);
    for (uint32_t k = 1; k < 5; k++) PLIM_TRY(plim__op_cast(c->g, in[k], plim__onnx_type(c, in[0]), &in[k], err));
    if (c->x->options->training || plim__onnx_int(c, "training_mode", 0)) return batch_norm_training(c, in, err);
    PLIM_TRY(plim__op_batch_norm(c->g, in[0], 1, in[1], in[2], in[3], in[4], plim__onnx_float(c, "epsilon", 1e-5), &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}

/* Mean and 1 / standard deviation over `mask`, which stay as dimensions of 1. */
static plim_status layer_statistics(plim__onnx_call *c, uint32_t x, uint32_t mask, double eps, plim_error *err)
{
    uint32_t mean, v;
    PLIM_TRY(plim__onnx_sum(c, x, mask, true, true, &mean, err));
    if (plim__onnx_wants(c, 1)) c->out[1] = mean;
    if (!plim__onnx_wants(c, 2)) return PLIM_OK;
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, x, mean, &v, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SQUARE, v, &v, err));
    PLIM_TRY(plim__onnx_sum(c, v, mask, true, true, &v, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_ADD, v, eps, &v, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SQRT, v, &v, err));
    return plim__onnx_ew1(c, PLIM__EW_RECIPROCAL, v, &c->out[2], err);
}

/* Scale and shift may be broadcast, so they are applied here. */
plim_status plim__onnx_lower_layer_norm(plim__onnx_call *c, plim_error *err)
{
    const double eps = plim__onnx_float(c, "epsilon", 1e-5);
    uint32_t x, v, with, axis;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", -1), s.rank, false, &axis, err));
    PLIM_TRY(plim__op_layer_norm(c->g, x, axis, PLIM__NONE, PLIM__NONE, eps, &v, err));
    for (uint32_t k = 1; k < 3; k++) {
        if (!plim__onnx_has(c, k)) continue;
        PLIM_TRY(plim__onnx_in_float(c, k, &with, err));
        PLIM_TRY(plim__onnx_ew2(c, k == 1 ? PLIM__EW_MUL : PLIM__EW_ADD, v, with, &v, err));
    }
    if (plim__onnx_wants(c, 1) || plim__onnx_wants(c, 2))
        PLIM_TRY(layer_statistics(c, x, ((1u << s.rank) - 1) & ~((1u << axis) - 1), eps, err));
    return plim__onnx_out_like(c, 0, v, err);
}

static plim_status group_norm(plim__onnx_call *c, uint32_t x, int64_t groups, uint32_t scale, uint32_t shift, plim_error *err)
{
    uint32_t v;
    PLIM_TRY(plim__op_group_norm(c->g, x, groups, scale, shift, plim__onnx_float(c, "epsilon", 1e-5), &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}

static plim_status norm_operands(plim__onnx_call *c, uint32_t in[3], plim_error *err)
{
    for (uint32_t k = 0; k < 3; k++) PLIM_TRY(plim__onnx_in_float(c, k, &in[k], err));
    PLIM_FAIL_IF(plim__onnx_shape(c, in[0]).rank < 3, err, PLIM_E_SHAPE, "an input of %u dimensions has none of space",
                 plim__onnx_shape(c, in[0]).rank);
    return PLIM_OK;
}

plim_status plim__onnx_lower_instance_norm(plim__onnx_call *c, plim_error *err)
{
    uint32_t in[3];
    PLIM_TRY(norm_operands(c, in, err));
    return group_norm(c, in[0], plim__onnx_shape(c, in[0]).dim[1], in[1], in[2], err);
}

/* Before opset 21 scale and bias have one number per group. */
plim_status plim__onnx_lower_group_norm(plim__onnx_call *c, plim_error *err)
{
    const int64_t groups = plim__onnx_int(c, "num_groups", 0);
    uint32_t in[3];
    PLIM_TRY(norm_operands(c, in, err));
    const int64_t channels = plim__onnx_shape(c, in[0]).dim[1];
    PLIM_FAIL_IF(groups < 1 || channels % groups != 0, err, PLIM_E_SHAPE, "%lld channels in %lld groups", (long long)channels, (long long)groups);
    for (uint32_t k = 1; k < 3 && c->x->file.opset < 21; k++) {
        PLIM_TRY(plim__op_reshape(c->g, in[k], &(plim_shape){2, {groups, 1}}, &in[k], err));
        PLIM_TRY(plim__op_broadcast(c->g, in[k], &(plim_shape){2, {groups, channels / groups}}, &in[k], err));
        PLIM_TRY(plim__op_reshape(c->g, in[k], &(plim_shape){1, {channels}}, &in[k], err));
    }
    return group_norm(c, in[0], groups, in[1], in[2], err);
}

plim_status plim__onnx_lower_lp_norm(plim__onnx_call *c, plim_error *err)
{
    const int64_t p = plim__onnx_int(c, "p", 2);
    uint32_t x, norm, axis;
    if (p != 1 && p != 2) return plim__onnx_refuse(c, "p", err);
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", -1), plim__onnx_shape(c, x).rank, false, &axis, err));
    PLIM_TRY(plim__onnx_ew1(c, p == 1 ? PLIM__EW_ABS : PLIM__EW_SQUARE, x, &norm, err));
    PLIM_TRY(plim__onnx_sum(c, norm, 1u << axis, true, false, &norm, err));
    if (p == 2) PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SQRT, norm, &norm, err));
    return plim__onnx_ew2(c, PLIM__EW_DIV, x, norm, &c->out[0], err);
}

/* (x - mean) / (standard deviation + 1e-9). */
plim_status plim__onnx_lower_mvn(plim__onnx_call *c, plim_error *err)
{
    int64_t axes[PLIM_MAX_RANK] = {0, 2, 3};
    uint32_t x, centred, v, n, axis, mask = 0;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const uint32_t rank = plim__onnx_shape(c, x).rank;
    PLIM_TRY(plim__onnx_ints(c, "axes", axes, PLIM_MAX_RANK, &n, err));
    if (!plim__onnx_attr_of(c, "axes")) n = 3;
    for (uint32_t i = 0; i < n; i++) {
        PLIM_TRY(plim__onnx_axis(axes[i], rank, false, &axis, err));
        mask |= 1u << axis;
    }
    PLIM_TRY(plim__onnx_sum(c, x, mask, true, true, &v, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, x, v, &centred, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SQUARE, centred, &v, err));
    PLIM_TRY(plim__onnx_sum(c, v, mask, true, true, &v, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SQRT, v, &v, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_ADD, v, 1e-9, &v, err));
    return plim__onnx_ew2(c, PLIM__EW_DIV, centred, v, &c->out[0], err);
}
