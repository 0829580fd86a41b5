/* Lowering: elementwise operators, activations, products. Half floats are computed in f32 and given back as they came. */
#include "core/dtype.h"
#include "models/onnx.h"

#include <math.h>
#include <string.h>

plim_status plim__onnx_lower_identity(plim__onnx_call *c, plim_error *err)
{
    const plim__onnx_slot *s = plim__onnx_slot_in(c, 0);
    if (s->host && !s->param && !s->apart) {
        c->host[0] = s->host;
        return PLIM_OK;
    }
    return plim__onnx_in(c, 0, &c->out[0], err);
}

/* ------------------------------------------------------------------------------------------------------ elementwise */

plim_status plim__onnx_lower_elementwise(plim__onnx_call *c, plim_error *err)
{
    uint32_t a;
    PLIM_TRY(plim__onnx_in(c, 0, &a, err));
    return plim__onnx_ew1(c, (plim__ew)c->arg, a, &c->out[0], err);
}

plim_status plim__onnx_lower_arith(plim__onnx_call *c, plim_error *err)
{
    uint32_t a, b;
    PLIM_TRY(plim__onnx_in(c, 0, &a, err));
    PLIM_TRY(plim__onnx_in(c, 1, &b, err));
    return plim__onnx_ew2(c, (plim__ew)c->arg, a, b, &c->out[0], err);
}

plim_status plim__onnx_lower_compare(plim__onnx_call *c, plim_error *err) { return plim__onnx_lower_arith(c, err); }

/* ONNX divides integers toward zero; the kernel rounds down. The two agree on magnitudes. */
static plim_status divide_signed(plim__onnx_call *c, uint32_t a, uint32_t b, uint32_t *v, plim_error *err)
{
    uint32_t abs_a, abs_b, sign_a, sign_b, sign;
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ABS, a, &abs_a, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ABS, b, &abs_b, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SIGN, a, &sign_a, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SIGN, b, &sign_b, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, sign_a, sign_b, &sign, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_FLOOR_DIV, abs_a, abs_b, v, err));
    return plim__onnx_ew2(c, PLIM__EW_MUL, *v, sign, v, err);
}

plim_status plim__onnx_divide(plim__onnx_call *c, uint32_t a, uint32_t b, uint32_t *v, plim_error *err)
{
    const plim__kind kind = plim__dtype_kind(plim__onnx_type(c, a));
    if (kind == PLIM__KIND_INT) return divide_signed(c, a, b, v, err);
    return plim__onnx_ew2(c, kind == PLIM__KIND_FLOAT ? PLIM__EW_DIV : PLIM__EW_FLOOR_DIV, a, b, v, err);
}

plim_status plim__onnx_lower_divide(plim__onnx_call *c, plim_error *err)
{
    uint32_t a, b;
    PLIM_TRY(plim__onnx_in(c, 0, &a, err));
    PLIM_TRY(plim__onnx_in(c, 1, &b, err));
    return plim__onnx_divide(c, a, b, &c->out[0], err);
}

/* fmod = 0 is Python's %, for integers; fmod = 1 is C's fmod, which has the sign of its first operand. */
plim_status plim__onnx_lower_mod(plim__onnx_call *c, plim_error *err)
{
    uint32_t a, b, abs_a, abs_b, m, negative, zero, minus;
    PLIM_TRY(plim__onnx_in(c, 0, &a, err));
    PLIM_TRY(plim__onnx_in(c, 1, &b, err));
    if (plim__onnx_int(c, "fmod", 0) == 0) return plim__onnx_ew2(c, PLIM__EW_MOD, a, b, &c->out[0], err);
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ABS, a, &abs_a, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ABS, b, &abs_b, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MOD, abs_a, abs_b, &m, err));
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, a), 0, &zero, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_LESS, a, zero, &negative, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_NEG, m, &minus, err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){negative, minus, m}, 3, &c->out[0], err);
}

/* The exponent may be of another dtype; the result has the base's. */
plim_status plim__onnx_lower_power(plim__onnx_call *c, plim_error *err)
{
    uint32_t in[2];
    PLIM_TRY(plim__onnx_in(c, 0, &in[0], err));
    PLIM_TRY(plim__onnx_in(c, 1, &in[1], err));
    const plim_dtype base = plim__onnx_type(c, in[0]), exponent = plim__onnx_type(c, in[1]);
    const plim_dtype both = plim__dtype_is_float(base) ? base : plim__dtype_promote(base, exponent);
    return plim__op_elementwise(c->g, PLIM__EW_POW, plim__dtype_compute(both), base, in, 2, &c->out[0], err);
}

plim_status plim__onnx_lower_variadic(plim__onnx_call *c, plim_error *err)
{
    const bool mean = c->arg == PLIM__EW_DIV;
    uint32_t sum, next;
    PLIM_TRY(plim__onnx_in(c, 0, &sum, err));
    for (uint32_t k = 1; k < c->n_in; k++) {
        PLIM_TRY(plim__onnx_in(c, k, &next, err));
        PLIM_TRY(plim__onnx_ew2(c, mean ? PLIM__EW_ADD : (plim__ew)c->arg, sum, next, &sum, err));
    }
    c->out[0] = sum;
    return mean && c->n_in > 1 ? plim__onnx_ew_number(c, PLIM__EW_DIV, sum, c->n_in, &c->out[0], err) : PLIM_OK;
}

plim_status plim__onnx_lower_where(plim__onnx_call *c, plim_error *err)
{
    uint32_t in[3];
    for (uint32_t k = 0; k < 3; k++) PLIM_TRY(plim__onnx_in(c, k, &in[k], err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, in, 3, &c->out[0], err);
}

/* Bounds are attributes before opset 11; a bound that is left out does not bound. */
plim_status plim__onnx_lower_clip(plim__onnx_call *c, plim_error *err)
{
    static const char *const name[] = {"min", "max"};
    uint32_t v, bound;
    PLIM_TRY(plim__onnx_in(c, 0, &v, err));
    for (uint32_t side = 0; side < 2; side++) {
        if (plim__onnx_has(c, 1 + side)) PLIM_TRY(plim__onnx_in(c, 1 + side, &bound, err));
        else if (plim__onnx_attr_of(c, name[side]))
            PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, v), plim__onnx_float(c, name[side], 0), &bound, err));
        else continue;
        PLIM_TRY(plim__onnx_ew2(c, side ? PLIM__EW_MINIMUM : PLIM__EW_MAXIMUM, v, bound, &v, err));
    }
    c->out[0] = v;
    return PLIM_OK;
}

plim_status plim__onnx_lower_isinf(plim__onnx_call *c, plim_error *err)
{
    const bool negative = plim__onnx_int(c, "detect_negative", 1), positive = plim__onnx_int(c, "detect_positive", 1);
    uint32_t x;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    if (negative && positive) return plim__onnx_ew1(c, PLIM__EW_ISINF, x, &c->out[0], err);
    if (negative || positive) return plim__onnx_ew_number(c, PLIM__EW_EQUAL, x, negative ? -INFINITY : INFINITY, &c->out[0], err);
    return plim__onnx_ew2(c, PLIM__EW_LESS, x, x, &c->out[0], err); /* false everywhere */
}

plim_status plim__onnx_lower_cast(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, like;
    plim_dtype to;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    if (c->arg) {
        PLIM_TRY(plim__onnx_in(c, 1, &like, err));
        to = plim__onnx_type(c, like);
    } else {
        PLIM_TRY(plim__onnx_dtype(plim__onnx_int(c, "to", 0), &to, err));
    }
    return plim__op_cast(c->g, x, to, &c->out[0], err);
}

plim_status plim__onnx_lower_bitshift(plim__onnx_call *c, plim_error *err)
{
    const char *direction = plim__onnx_text(c, "direction", "");
    if (!strcmp(direction, "LEFT")) c->arg = PLIM__EW_SHIFT_LEFT;
    else if (!strcmp(direction, "RIGHT")) c->arg = PLIM__EW_SHIFT_RIGHT;
    else return plim__onnx_refuse(c, "direction", err);
    return plim__onnx_lower_arith(c, err);
}

/* ------------------------------------------------------------------------------------------------------ activations */

plim_status plim__onnx_lower_activation(plim__onnx_call *c, plim_error *err)
{
    plim__activation how = (plim__activation)c->arg;
    const double usual = how == PLIM__LEAKY_RELU ? 0.01 : how == PLIM__HARD_SIGMOID ? 0.2 : how == PLIM__SELU ? 1.67326319217681884765625 : 1;
    const double a = plim__onnx_float(c, "alpha", usual);
    const double b = how == PLIM__SELU ? plim__onnx_float(c, "gamma", 1.05070102214813232421875) : plim__onnx_float(c, "beta", 0.5);
    const char *approximate = plim__onnx_text(c, "approximate", "none");
    uint32_t x;
    if (how == PLIM__GELU && !strcmp(approximate, "tanh")) how = PLIM__GELU_TANH;
    else if (strcmp(approximate, "none") != 0) return plim__onnx_refuse(c, "approximate", err);
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    if (how == PLIM__RELU && !plim__dtype_is_float(plim__onnx_type(c, x))) return plim__onnx_ew_number(c, PLIM__EW_MAXIMUM, x, 0, &c->out[0], err);
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_TRY(plim__op_activation(c->g, how, x, a, b, &x, err));
    return plim__onnx_out_like(c, 0, x, err);
}

/* x where it is above the limit, else `other`. */
static plim_status above(plim__onnx_call *c, uint32_t x, double limit, uint32_t other, uint32_t *v, plim_error *err)
{
    uint32_t positive;
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_GREATER, x, limit, &positive, err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){positive, x, other}, 3, v, err);
}

plim_status plim__onnx_lower_prelu(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, slope, scaled;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in(c, 1, &slope, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, x, slope, &scaled, err));
    return above(c, x, 0, scaled, &c->out[0], err);
}

plim_status plim__onnx_lower_thresholded(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, zero;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, x), 0, &zero, err));
    return above(c, x, plim__onnx_float(c, "alpha", 1), zero, &c->out[0], err);
}

/* x + bias below -lambd, x - bias above lambd, 0 between. */
plim_status plim__onnx_lower_shrink(plim__onnx_call *c, plim_error *err)
{
    const double limit = plim__onnx_float(c, "lambd", 0.5), bias = plim__onnx_float(c, "bias", 0);
    uint32_t x, v, test, shifted;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, x), 0, &v, err));
    for (uint32_t side = 0; side < 2; side++) {
        PLIM_TRY(plim__onnx_ew_number(c, side ? PLIM__EW_GREATER : PLIM__EW_LESS, x, side ? limit : -limit, &test, err));
        PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_ADD, x, side ? -bias : bias, &shifted, err));
        PLIM_TRY(plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){test, shifted, v}, 3, &v, err));
    }
    c->out[0] = v;
    return PLIM_OK;
}

/* max(0, x) + alpha * (exp(min(0, x) / alpha) - 1): nothing overflows for large x, in the gradient neither. */
plim_status plim__onnx_lower_celu(plim__onnx_call *c, plim_error *err)
{
    const double alpha = plim__onnx_float(c, "alpha", 1);
    uint32_t x, low, high;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MINIMUM, x, 0, &low, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_DIV, low, alpha, &low, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_EXPM1, low, &low, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, low, alpha, &low, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MAXIMUM, x, 0, &high, err));
    return plim__onnx_ew2(c, PLIM__EW_ADD, high, low, &c->out[0], err);
}

/* Before opset 13 everything from `axis` on is one dimension. *flat is that matrix, or x itself where one dimension is all there is to it. */
static plim_status coerced(plim__onnx_call *c, uint32_t x, uint32_t *flat, uint32_t *axis, plim_error *err)
{
    const bool old = c->x->file.opset < 13;
    const plim_shape s = plim__onnx_shape(c, x);
    *flat = x;
    PLIM_FAIL_IF(s.rank == 0, err, PLIM_E_SHAPE, "a scalar has no axis");
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", old ? 1 : -1), s.rank, old, axis, err));
    plim_shape two = {.rank = 2};
    int64_t behind = 1;
    if (*axis < s.rank) PLIM_TRY(plim__onnx_product(&s, *axis + 1, s.rank, &behind, err));
    if (!old || (*axis < s.rank && behind == 1)) return PLIM_OK;
    PLIM_TRY(plim__onnx_product(&s, 0, *axis, &two.dim[0], err));
    PLIM_TRY(plim__onnx_product(&s, *axis, s.rank, &two.dim[1], err));
    *axis = 1;
    return plim__op_reshape(c->g, x, &two, flat, err);
}

plim_status plim__onnx_lower_softmax(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, flat, axis;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(coerced(c, x, &flat, &axis, err));
    PLIM_TRY(plim__op_softmax(c->g, flat, axis, c->arg, &flat, err));
    PLIM_TRY(plim__op_reshape(c->g, flat, &s, &flat, err));
    return plim__onnx_out_like(c, 0, flat, err);
}

/* 1 at the first largest element, else 0. */
plim_status plim__onnx_lower_hardmax(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, flat, axis, best, at;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(coerced(c, x, &flat, &axis, err));
    const plim_shape f = plim__onnx_shape(c, flat);
    PLIM_TRY(plim__op_argreduce(c->g, true, flat, 1u << axis, true, &best, err));
    PLIM_TRY(plim__onnx_iota(c, f.dim[axis], f.rank, axis, &at, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_EQUAL, best, at, &flat, err));
    PLIM_TRY(plim__op_cast(c->g, flat, plim__onnx_type(c, x), &flat, err));
    return plim__op_reshape(c->g, flat, &s, &c->out[0], err);
}

/* ---------------------------------------------------------------------------------------------------------- dropout */

/* All true, where the mask is asked for: nothing was dropped. */
static plim_status dropout_mask(plim__onnx_call *c, uint32_t x, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    uint32_t one;
    PLIM_TRY(plim__onnx_constant(c, PLIM_BOOL, 1, &one, err));
    return plim__op_broadcast(c->g, one, &s, &c->out[1], err);
}

/* Nothing is dropped unless the model is being trained, or says itself that it is. */
plim_status plim__onnx_lower_dropout(plim__onnx_call *c, plim_error *err)
{
    double ratio = plim__onnx_float(c, "ratio", 0.5), training = c->x->options->training;
    uint32_t x, seed;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    if (plim__onnx_has(c, 2) && !training) PLIM_TRY(plim__onnx_given_number(c, 2, "training_mode", &training, err));
    if (plim__onnx_has(c, 1) && training != 0) PLIM_TRY(plim__onnx_given_number(c, 1, "ratio", &ratio, err));
    PLIM_FAIL_IF(!(ratio >= 0 && ratio < 1), err, PLIM_E_FORMAT, "ratio %g is not in [0, 1)", ratio);
    if (training == 0 || ratio == 0) {
        c->out[0] = x;
        return plim__onnx_wants(c, 1) ? dropout_mask(c, x, err) : PLIM_OK;
    }
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_TRY(plim__model_seed(c->x->model, &seed, err));
    PLIM_TRY(plim__op_dropout(c->g, x, ratio, seed, c->index, &x, err)); /* the mask is not given out: who reads it is told so */
    return plim__onnx_out_like(c, 0, x, err);
}

/* --------------------------------------------------------------------------------------------------------- products */

plim_status plim__onnx_lower_matmul(plim__onnx_call *c, plim_error *err)
{
    uint32_t a, b;
    PLIM_TRY(plim__onnx_in(c, 0, &a, err));
    PLIM_TRY(plim__onnx_in(c, 1, &b, err));
    PLIM_FAIL_IF(plim__onnx_type(c, a) != plim__onnx_type(c, b), err, PLIM_E_TYPE, "operands of %s and %s", plim_dtype_name(plim__onnx_type(c, a)),
                 plim_dtype_name(plim__onnx_type(c, b)));
    return plim__op_matmul(c->g, a, b, plim__onnx_type(c, a), &c->out[0], err);
}

static plim_status turned_product(plim__onnx_call *c, uint32_t a, bool turn_a, uint32_t b, bool turn_b, uint32_t *v, plim_error *err)
{
    const plim_dtype t = plim__onnx_type(c, a);
    if (t == PLIM_F32 || t == PLIM_F64) return plim__op_matmul_turned(c->g, a, turn_a, b, turn_b, v, err);
    const uint32_t perm[] = {1, 0};
    if (turn_a) PLIM_TRY(plim__op_transpose(c->g, a, perm, &a, err));
    if (turn_b) PLIM_TRY(plim__op_transpose(c->g, b, perm, &b, err));
    return plim__op_matmul(c->g, a, b, t, v, err);
}

/* alpha * A' B' + beta * C; factors of 1 cost nothing. */
plim_status plim__onnx_lower_gemm(plim__onnx_call *c, plim_error *err)
{
    const double alpha = plim__onnx_float(c, "alpha", 1), beta = plim__onnx_float(c, "beta", 1);
    uint32_t a, b, add, v;
    PLIM_TRY(plim__onnx_in(c, 0, &a, err));
    PLIM_TRY(plim__onnx_in(c, 1, &b, err));
    const plim_shape sa = plim__onnx_shape(c, a), sb = plim__onnx_shape(c, b);
    PLIM_FAIL_IF(sa.rank != 2 || sb.rank != 2, err, PLIM_E_SHAPE, "operands of %u and %u dimensions; both have to have 2", sa.rank, sb.rank);
    PLIM_FAIL_IF(plim__onnx_type(c, a) != plim__onnx_type(c, b), err, PLIM_E_TYPE, "operands of different dtypes");
    PLIM_TRY(turned_product(c, a, plim__onnx_int(c, "transA", 0), b, plim__onnx_int(c, "transB", 0), &v, err));
    if (alpha != 1) PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, v, alpha, &v, err));
    if (plim__onnx_has(c, 2) && beta != 0) {
        PLIM_TRY(plim__onnx_in(c, 2, &add, err));
        if (beta != 1) PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, add, beta, &add, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, v, add, &v, err));
    }
    c->out[0] = v;
    return PLIM_OK;
}
