/* Dropout: a choice, not a product, so that what is dropped is 0 even where it was NaN or infinite. */
#include "ops/checks.h"
#include "ops/layers.h"

plim_status plim__op_dropout(plim_graph *g, uint32_t x, double rate, uint32_t seed, uint32_t stream, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__check_value(g, x, "dropout", err));
    PLIM_TRY(plim__check_float(&g->value[x], "dropout", err));
    PLIM_FAIL_IF(!(rate >= 0 && rate < 1), err, PLIM_E_INVALID, "dropout: a rate of %g is not in [0, 1)", rate);
    *v = x;
    if (rate == 0) return PLIM_OK;
    const plim_shape shape = g->value[x].shape;
    const plim_dtype t = g->value[x].dtype;
    uint32_t random, keep, zero, scaled;
    PLIM_TRY(plim__op_random(g, &shape, seed, stream, &random, err));
    PLIM_TRY(plim__op_compare(g, PLIM__EW_GREATER_EQUAL, random, rate, &keep, err));
    PLIM_TRY(plim__op_scalar(g, t, 0, &zero, err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, x, 1 / (1 - rate), &scaled, err));
    return plim__op_where(g, keep, scaled, zero, v, err);
}
