/* Constants and arithmetic that the compositions of layers.h are written in. */
#include "core/dtype.h"
#include "ops/checks.h"
#include "ops/layers.h"

#include <math.h>

plim_status plim__op_scalar(plim_graph *g, plim_dtype dtype, double c, uint32_t *v, plim_error *err)
{
    const plim_shape none = {0};
    _Alignas(8) char element[8];
    plim__convert(element, dtype, &c, PLIM_F64, 1);
    return plim__graph_const(g, dtype, &none, element, v, err);
}

plim_status plim__op_float1(plim_graph *g, plim__ew fn, uint32_t x, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__check_value(g, x, plim__ew_name(fn), err));
    PLIM_TRY(plim__check_float(&g->value[x], plim__ew_name(fn), err));
    const plim_dtype t = g->value[x].dtype;
    return plim__op_elementwise(g, fn, t, t, &x, 1, v, err);
}

plim_status plim__op_float2(plim_graph *g, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__check_value(g, a, plim__ew_name(fn), err));
    PLIM_TRY(plim__check_value(g, b, plim__ew_name(fn), err));
    PLIM_TRY(plim__check_float(&g->value[a], plim__ew_name(fn), err));
    const plim_dtype t = g->value[a].dtype, other = g->value[b].dtype;
    PLIM_FAIL_IF(other != t, err, PLIM_E_TYPE, "%s: operands of %s and %s", plim__ew_name(fn), plim_dtype_name(t), plim_dtype_name(other));
    const uint32_t in[2] = {a, b};
    return plim__op_elementwise(g, fn, t, t, in, 2, v, err);
}

plim_status plim__op_float_const(plim_graph *g, plim__ew fn, uint32_t x, double c, uint32_t *v, plim_error *err)
{
    uint32_t constant;
    PLIM_TRY(plim__check_value(g, x, plim__ew_name(fn), err));
    PLIM_TRY(plim__op_scalar(g, g->value[x].dtype, c, &constant, err));
    return plim__op_float2(g, fn, x, constant, v, err);
}

plim_status plim__op_compare(plim_graph *g, plim__ew fn, uint32_t a, double c, uint32_t *v, plim_error *err)
{
    uint32_t in[2] = {a};
    PLIM_TRY(plim__check_value(g, a, plim__ew_name(fn), err));
    PLIM_FAIL_IF(plim__ew_class_of(fn) != PLIM__EW_COMPARE, err, PLIM_E_INVALID, "%s is not a comparison", plim__ew_name(fn));
    const plim_dtype t = g->value[a].dtype;
    PLIM_TRY(plim__op_scalar(g, t, c, &in[1], err));
    return plim__op_elementwise(g, fn, plim__dtype_compute(t), PLIM_BOOL, in, 2, v, err);
}

plim_status plim__op_where(plim_graph *g, uint32_t test, uint32_t a, uint32_t b, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__check_value(g, a, "where", err));
    PLIM_TRY(plim__check_float(&g->value[a], "where", err));
    const plim_dtype t = g->value[a].dtype;
    const uint32_t in[3] = {test, a, b};
    return plim__op_elementwise(g, PLIM__EW_WHERE, t, t, in, 3, v, err);
}

plim_status plim__op_limit(plim_graph *g, uint32_t x, double lo, double hi, uint32_t *v, plim_error *err)
{
    uint32_t test, bound, above = x;
    PLIM_TRY(plim__check_value(g, x, "limit", err));
    const plim_dtype t = g->value[x].dtype;
    if (hi < INFINITY) {
        PLIM_TRY(plim__op_compare(g, PLIM__EW_GREATER_EQUAL, x, hi, &test, err));
        PLIM_TRY(plim__op_scalar(g, t, hi, &bound, err));
        PLIM_TRY(plim__op_where(g, test, bound, x, &above, err));
    }
    PLIM_TRY(plim__op_compare(g, PLIM__EW_LESS_EQUAL, x, lo, &test, err));
    PLIM_TRY(plim__op_scalar(g, t, lo, &bound, err));
    return plim__op_where(g, test, bound, above, v, err);
}
