/* Lowering: numbers in few bits. A real number is (q - zero point) * scale; scale and zero point are one for all, or one per slice of a dimension.
 * Sums of products of such numbers are whole numbers: they are added up in f64, which holds them exactly (2^53 is more than 2^37 products of bytes),
 * or in i64. */
#include "core/dtype.h"
#include "models/onnx.h"

/* Input k as it meets x: a scalar, or one number per slice of dimension `axis` of `rank`. */
static plim_status along(plim__onnx_call *c, uint32_t k, uint32_t rank, int64_t axis, uint32_t *v, plim_error *err)
{
    uint32_t d;
    PLIM_TRY(plim__onnx_in(c, k, v, err));
    const plim_shape s = plim__onnx_shape(c, *v);
    plim_shape to = {.rank = rank};
    PLIM_FAIL_IF(s.rank > 1, err, PLIM_E_UNSUPPORTED, "input %u has %u dimensions; blocks of their own scale are not supported", k, s.rank);
    if (s.rank == 0 || s.dim[0] == 1) return plim__op_reshape(c->g, *v, &(plim_shape){0}, v, err);
    PLIM_TRY(plim__onnx_axis(axis, rank, false, &d, err));
    for (uint32_t i = 0; i < rank; i++) to.dim[i] = i == d ? s.dim[0] : 1;
    return plim__op_reshape(c->g, *v, &to, v, err);
}

/* q - zero point as whole numbers in `to`; k_zero may be left out. */
static plim_status centred(plim__onnx_call *c, uint32_t k, uint32_t k_zero, int64_t axis, plim_dtype to, uint32_t *v, plim_error *err)
{
    uint32_t zero;
    PLIM_TRY(plim__onnx_in(c, k, v, err));
    const plim_dtype t = plim__onnx_type(c, *v);
    PLIM_FAIL_IF(plim__dtype_is_float(t) || t == PLIM_BOOL || t == PLIM_U64, err, PLIM_E_TYPE, "input %u is of %s, where few bits are needed", k,
                 plim_dtype_name(t));
    PLIM_TRY(plim__op_cast(c->g, *v, PLIM_I64, v, err));
    if (plim__onnx_has(c, k_zero)) {
        PLIM_TRY(along(c, k_zero, plim__onnx_shape(c, *v).rank, axis, &zero, err));
        PLIM_TRY(plim__op_cast(c->g, zero, PLIM_I64, &zero, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, *v, zero, v, err));
    }
    return plim__op_cast(c->g, *v, to, v, err);
}

/* round(x) + zero point, kept inside `to`; x in f32 or f64. Halves round to even. */
static plim_status saturated(plim__onnx_call *c, uint32_t x, uint32_t zero, plim_dtype to, uint32_t *v, plim_error *err)
{
    const plim_dtype t = plim__onnx_type(c, x);
    const uint64_t bits = 8 * plim_dtype_bytes(to);
    const bool is_signed = plim__dtype_kind(to) == PLIM__KIND_INT;
    PLIM_FAIL_IF(plim__dtype_is_float(to) || to == PLIM_BOOL || bits > 16, err, PLIM_E_UNSUPPORTED, "a result of %s", plim_dtype_name(to));
    const double lo = is_signed ? -(double)(1u << (bits - 1)) : 0, hi = is_signed ? (double)((1u << (bits - 1)) - 1) : (double)((1u << bits) - 1);
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ROUND, x, v, err));
    if (zero != PLIM__NONE) {
        PLIM_TRY(plim__op_cast(c->g, zero, t, &zero, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, *v, zero, v, err));
    }
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MAXIMUM, *v, lo, v, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MINIMUM, *v, hi, v, err));
    return plim__op_cast(c->g, *v, to, v, err);
}

plim_status plim__onnx_lower_quantize(plim__onnx_call *c, plim_error *err)
{
    const int64_t axis = plim__onnx_int(c, "axis", 1);
    uint32_t x, scale, zero = PLIM__NONE;
    plim_dtype to = PLIM_U8;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    const uint32_t rank = plim__onnx_shape(c, x).rank;
    PLIM_TRY(along(c, 1, rank, axis, &scale, err));
    PLIM_TRY(plim__op_cast(c->g, scale, plim__onnx_type(c, x), &scale, err));
    if (plim__onnx_has(c, 2)) {
        PLIM_TRY(along(c, 2, rank, axis, &zero, err));
        to = plim__onnx_type(c, zero);
    }
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_DIV, x, scale, &x, err));
    return saturated(c, x, zero, to, &c->out[0], err);
}

plim_status plim__onnx_lower_dequantize(plim__onnx_call *c, plim_error *err)
{
    const int64_t axis = plim__onnx_int(c, "axis", 1);
    uint32_t x, scale;
    PLIM_TRY(centred(c, 0, 2, axis, PLIM_F32, &x, err));
    PLIM_TRY(along(c, 1, plim__onnx_shape(c, x).rank, axis, &scale, err));
    const plim_dtype to = plim__onnx_type(c, scale);
    PLIM_TRY(plim__op_cast(c->g, scale, PLIM_F32, &scale, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, x, scale, &x, err));
    return plim__op_cast(c->g, x, to, &c->out[0], err);
}

/* The smallest or largest of x, and 0. */
static plim_status limit(plim__onnx_call *c, uint32_t x, bool largest, uint32_t *v, plim_error *err)
{
    const uint32_t all = (1u << plim__onnx_shape(c, x).rank) - 1;
    *v = x;
    if (all) PLIM_TRY(plim__op_reduce(c->g, largest ? PLIM__REDUCE_MAX : PLIM__REDUCE_MIN, x, all, false, PLIM_F32, v, err));
    return plim__onnx_ew_number(c, largest ? PLIM__EW_MAXIMUM : PLIM__EW_MINIMUM, *v, 0, v, err);
}

/* The scale that lets 0 ... 255 reach from the smallest to the largest number, with 0 among them. */
plim_status plim__onnx_lower_dynamic_quantize(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, lo, hi, scale, zero;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_FAIL_IF(plim__onnx_type(c, x) != PLIM_F32, err, PLIM_E_TYPE, "an input of %s, not f32", plim_dtype_name(plim__onnx_type(c, x)));
    PLIM_TRY(limit(c, x, false, &lo, err));
    PLIM_TRY(limit(c, x, true, &hi, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, hi, lo, &scale, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_DIV, scale, 255, &scale, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_NEG, lo, &zero, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_DIV, zero, scale, &zero, err));
    PLIM_TRY(saturated(c, zero, PLIM__NONE, PLIM_U8, &zero, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_DIV, x, scale, &x, err));
    PLIM_TRY(saturated(c, x, zero, PLIM_U8, &c->out[0], err));
    if (plim__onnx_wants(c, 1)) c->out[1] = scale;
    if (plim__onnx_wants(c, 2)) c->out[2] = zero;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- products and sums */

/* x * w of inputs k_x and k_w with their zero points, exact, in f64. The border is the zero point, which is 0 by then. */
static plim_status convolved(plim__onnx_call *c, uint32_t k_x, uint32_t k_x_zero, uint32_t k_w, uint32_t k_w_zero, uint32_t *v, plim_error *err)
{
    uint32_t x, w;
    plim__conv conv;
    PLIM_TRY(centred(c, k_x, k_x_zero, 1, PLIM_F64, &x, err));
    PLIM_TRY(centred(c, k_w, k_w_zero, 0, PLIM_F64, &w, err));
    PLIM_TRY(plim__onnx_conv_of(c, x, w, &conv, err));
    return plim__op_conv(c->g, x, w, &conv, v, err);
}

plim_status plim__onnx_lower_conv_integer(plim__onnx_call *c, plim_error *err)
{
    uint32_t v;
    PLIM_TRY(convolved(c, 0, 2, 1, 3, &v, err));
    return plim__op_cast(c->g, v, PLIM_I32, &c->out[0], err);
}

/* The zero point of a may be one per row, that of b one per column. */
static plim_status multiplied(plim__onnx_call *c, uint32_t k_a, uint32_t k_a_zero, uint32_t k_b, uint32_t k_b_zero, uint32_t *v, plim_error *err)
{
    uint32_t a, b;
    PLIM_TRY(centred(c, k_a, k_a_zero, -2, PLIM_I64, &a, err));
    PLIM_TRY(centred(c, k_b, k_b_zero, -1, PLIM_I64, &b, err));
    return plim__op_matmul(c->g, a, b, PLIM_I64, v, err);
}

plim_status plim__onnx_lower_matmul_integer(plim__onnx_call *c, plim_error *err)
{
    uint32_t v;
    PLIM_TRY(multiplied(c, 0, 2, 1, 3, &v, err));
    return plim__op_cast(c->g, v, PLIM_I32, &c->out[0], err);
}

/* v * scale a * scale b / scale y, as few bits again. Scales of b lie along `axis` of v. */
static plim_status rescaled(plim__onnx_call *c, uint32_t v, uint32_t k_a, int64_t axis_a, uint32_t k_b, int64_t axis_b, uint32_t k_y, plim_error *err)
{
    const uint32_t rank = plim__onnx_shape(c, v).rank;
    uint32_t a, b, y, zero;
    PLIM_TRY(along(c, k_a, rank, axis_a, &a, err));
    PLIM_TRY(along(c, k_b, rank, axis_b, &b, err));
    PLIM_TRY(along(c, k_y, rank, axis_b, &y, err));
    PLIM_TRY(along(c, k_y + 1, rank, axis_b, &zero, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, a, b, &a, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_DIV, a, y, &a, err));
    PLIM_TRY(plim__op_cast(c->g, a, PLIM_F64, &a, err));
    PLIM_TRY(plim__op_cast(c->g, v, PLIM_F64, &v, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, v, a, &v, err));
    return saturated(c, v, zero, plim__onnx_type(c, zero), &c->out[0], err);
}

plim_status plim__onnx_lower_qlinear_conv(plim__onnx_call *c, plim_error *err)
{
    uint32_t v, bias;
    PLIM_TRY(convolved(c, 0, 2, 3, 5, &v, err));
    if (plim__onnx_has(c, 8)) {
        PLIM_TRY(plim__onnx_in(c, 8, &bias, err));
        PLIM_TRY(plim__op_cast(c->g, bias, PLIM_F64, &bias, err));
        PLIM_TRY(plim__onnx_per_channel(c, bias, plim__onnx_shape(c, v).rank, &bias, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, v, bias, &v, err));
    }
    return rescaled(c, v, 1, 1, 4, 1, 6, err);
}

plim_status plim__onnx_lower_qlinear_matmul(plim__onnx_call *c, plim_error *err)
{
    uint32_t v;
    PLIM_TRY(multiplied(c, 0, 2, 3, 5, &v, err));
    return rescaled(c, v, 1, -2, 4, -1, 6, err);
}
