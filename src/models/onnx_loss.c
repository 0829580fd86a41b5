/* Lowering: losses of classes. x [N, C, d...], a target [N, d...] of class numbers, perhaps a weight per class [C]. */
#include "core/dtype.h"
#include "models/onnx.h"

#include <string.h>

typedef struct loss {
    uint32_t x;      /* logarithms of probabilities, in their compute type */
    uint32_t hot;    /* bool, x's shape: the target's class, where it counts */
    uint32_t counts; /* bool [N, 1, d...]: the target is not the one to be ignored; PLIM__NONE: all do */
    uint32_t weight; /* [1, C, 1...]; PLIM__NONE */
} loss;

/* The target with a dimension for the classes, compared with the numbers of the classes. */
static plim_status mark_targets(plim__onnx_call *c, loss *l, plim_error *err)
{
    const plim__onnx_attr *ignore = plim__onnx_attr_of(c, "ignore_index");
    const plim_shape s = plim__onnx_shape(c, l->x);
    plim_shape wide = {.rank = s.rank};
    uint32_t target, classes;
    PLIM_TRY(plim__onnx_in(c, 1, &target, err));
    const plim_shape st = plim__onnx_shape(c, target);
    PLIM_FAIL_IF(s.rank < 2 || st.rank + 1 != s.rank, err, PLIM_E_SHAPE, "a target of %u dimensions for an input of %u", st.rank, s.rank);
    PLIM_FAIL_IF(plim__dtype_is_float(plim__onnx_type(c, target)), err, PLIM_E_TYPE, "a target of %s, not of integers",
                 plim_dtype_name(plim__onnx_type(c, target)));
    for (uint32_t d = 0; d < s.rank; d++) {
        wide.dim[d] = d == 1 ? 1 : st.dim[d ? d - 1 : 0];
        PLIM_FAIL_IF(d != 1 && wide.dim[d] != s.dim[d], err, PLIM_E_SHAPE, "the target's dimensions are not those of the input");
    }
    PLIM_TRY(plim__op_reshape(c->g, target, &wide, &target, err));
    PLIM_TRY(plim__op_cast(c->g, target, PLIM_I64, &target, err));
    PLIM_TRY(plim__onnx_iota(c, s.dim[1], s.rank, 1, &classes, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_EQUAL, classes, target, &l->hot, err));
    l->counts = PLIM__NONE;
    if (!ignore) return PLIM_OK;
    uint32_t number;
    PLIM_TRY(plim__graph_const(c->g, PLIM_I64, &(plim_shape){0}, &ignore->i, &number, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_NOT_EQUAL, target, number, &l->counts, err));
    return plim__onnx_ew2(c, PLIM__EW_AND, l->hot, l->counts, &l->hot, err);
}

static plim_status weight_of(plim__onnx_call *c, loss *l, plim_error *err)
{
    l->weight = PLIM__NONE;
    if (!plim__onnx_has(c, 2)) return PLIM_OK;
    PLIM_TRY(plim__onnx_in_float(c, 2, &l->weight, err));
    PLIM_TRY(plim__op_cast(c->g, l->weight, plim__onnx_type(c, l->x), &l->weight, err));
    return plim__onnx_per_channel(c, l->weight, plim__onnx_shape(c, l->x).rank, &l->weight, err);
}

/* `value` at the targets' classes, 0 elsewhere, added up over the dimensions of `mask`. */
static plim_status at_targets(plim__onnx_call *c, const loss *l, uint32_t value, uint32_t mask, uint32_t *v, plim_error *err)
{
    uint32_t zero;
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, l->x), 0, &zero, err));
    PLIM_TRY(plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){l->hot, value, zero}, 3, v, err));
    return plim__onnx_sum(c, *v, mask, false, false, v, err);
}

/* What a mean divides by: the weights that count, or how many targets do. */
static plim_status divisor(plim__onnx_call *c, const loss *l, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, l->x);
    const uint32_t all = (1u << s.rank) - 1;
    if (l->weight != PLIM__NONE) return at_targets(c, l, l->weight, all, v, err);
    if (l->counts != PLIM__NONE) {
        PLIM_TRY(plim__op_cast(c->g, l->counts, plim__onnx_type(c, l->x), v, err));
        return plim__onnx_sum(c, *v, all, false, false, v, err);
    }
    double count = 1;
    for (uint32_t d = 0; d < s.rank; d++) count *= d == 1 ? 1 : (double)s.dim[d];
    return plim__onnx_constant(c, plim__onnx_type(c, l->x), count, v, err);
}

static plim_status loss_of(plim__onnx_call *c, uint32_t x, plim_error *err)
{
    const char *reduction = plim__onnx_text(c, "reduction", "mean");
    const bool none = !strcmp(reduction, "none"), mean = !strcmp(reduction, "mean");
    loss l = {.x = x};
    uint32_t v, by, value = x;
    if (!none && !mean && strcmp(reduction, "sum") != 0) return plim__onnx_refuse(c, "reduction", err);
    PLIM_TRY(mark_targets(c, &l, err));
    PLIM_TRY(weight_of(c, &l, err));
    if (l.weight != PLIM__NONE) PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, x, l.weight, &value, err));
    PLIM_TRY(at_targets(c, &l, value, none ? 2 : (1u << plim__onnx_shape(c, x).rank) - 1, &v, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_NEG, v, &v, err));
    if (mean) {
        PLIM_TRY(divisor(c, &l, &by, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_DIV, v, by, &v, err));
    }
    return plim__onnx_out_like(c, 0, v, err);
}

plim_status plim__onnx_lower_nll_loss(plim__onnx_call *c, plim_error *err)
{
    uint32_t x;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    return loss_of(c, x, err);
}

plim_status plim__onnx_lower_softmax_loss(plim__onnx_call *c, plim_error *err)
{
    uint32_t x;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_FAIL_IF(plim__onnx_shape(c, x).rank < 2, err, PLIM_E_SHAPE, "an input of %u dimensions has no classes", plim__onnx_shape(c, x).rank);
    PLIM_TRY(plim__op_softmax(c->g, x, 1, true, &x, err));
    if (plim__onnx_wants(c, 1)) PLIM_TRY(plim__onnx_out_like(c, 1, x, err));
    return loss_of(c, x, err);
}
