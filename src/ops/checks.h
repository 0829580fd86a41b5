/* Checks that the rows of layers share. */
#ifndef PLIM_OPS_CHECKS_H
#define PLIM_OPS_CHECKS_H

#include "graph/op.h"

/** Fails unless x is f32 or f64. */
static inline plim_status plim__check_float(const plim__value *x, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(x->dtype != PLIM_F32 && x->dtype != PLIM_F64, err, PLIM_E_TYPE, "%s: of f32 or f64, not %s", what, plim_dtype_name(x->dtype));
    return PLIM_OK;
}

/** Fails unless y has the dtype and the shape of x. */
static inline plim_status plim__check_alike(const plim__value *x, const plim__value *y, const char *what, plim_error *err)
{
    char tx[160], ty[160];
    PLIM_FAIL_IF(y->dtype != x->dtype, err, PLIM_E_TYPE, "%s: operands of %s and %s", what, plim_dtype_name(x->dtype), plim_dtype_name(y->dtype));
    PLIM_FAIL_IF(!plim__shape_equal(&x->shape, &y->shape), err, PLIM_E_SHAPE, "%s: operands of shapes %s and %s", what,
                 plim_shape_format(tx, sizeof tx, &x->shape), plim_shape_format(ty, sizeof ty, &y->shape));
    return PLIM_OK;
}

/** Fails unless `axis` is a dimension of s. */
static inline plim_status plim__check_axis(const plim_shape *s, int64_t axis, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(axis < 0 || axis >= s->rank, err, PLIM_E_SHAPE, "%s: dimension %lld of an array of rank %u", what, (long long)axis, s->rank);
    return PLIM_OK;
}

/** Fails unless v is a value of the graph: constructors that look at a value before they apply a row call it first. */
static inline plim_status plim__check_value(const plim_graph *g, uint32_t v, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(v >= g->n_values, err, PLIM_E_INVALID, "%s: an input is not a value of this graph", what);
    return PLIM_OK;
}

#endif
