/* Activations, composed of elementwise functions.
 *
 * Written for their gradients. A branch that is not taken must not make an infinity, for 0 times its derivative would be NaN: exp only ever sees
 * what is not above 0. Kinks are comparisons whose gradient is known there: 0 for the rectifiers at 0, as frameworks have it. A NaN stays one. */
#include "ops/checks.h"
#include "ops/layers.h"

#include <math.h>

/* Small names for what a composition repeats. */
typedef struct builder {
    plim_graph *g;
    plim_error *err;
} builder;

static plim_status one(builder b, plim__ew fn, uint32_t x, uint32_t *v) { return plim__op_float1(b.g, fn, x, v, b.err); }
static plim_status two(builder b, plim__ew fn, uint32_t x, uint32_t y, uint32_t *v) { return plim__op_float2(b.g, fn, x, y, v, b.err); }
static plim_status by(builder b, plim__ew fn, uint32_t x, double c, uint32_t *v) { return plim__op_float_const(b.g, fn, x, c, v, b.err); }

/* x > 0 ? x : a*x */
static plim_status leaky(builder b, uint32_t x, double a, uint32_t *v)
{
    uint32_t test, below;
    PLIM_TRY(plim__op_compare(b.g, PLIM__EW_GREATER, x, 0, &test, b.err));
    PLIM_TRY(by(b, PLIM__EW_MUL, x, a, &below));
    return plim__op_where(b.g, test, x, below, v, b.err);
}

/* gamma * (x > 0 ? x : a*expm1(x)), as a sum of the part above 0 and the part below. */
static plim_status elu(builder b, uint32_t x, double a, double gamma, uint32_t *v)
{
    uint32_t test, zero, above, below, sum;
    PLIM_TRY(plim__op_compare(b.g, PLIM__EW_GREATER, x, 0, &test, b.err));
    PLIM_TRY(plim__op_scalar(b.g, b.g->value[x].dtype, 0, &zero, b.err));
    PLIM_TRY(plim__op_where(b.g, test, x, zero, &above, b.err));
    PLIM_TRY(plim__op_where(b.g, test, zero, x, &below, b.err));
    PLIM_TRY(one(b, PLIM__EW_EXPM1, below, &below));
    PLIM_TRY(by(b, PLIM__EW_MUL, below, a, &below));
    PLIM_TRY(two(b, PLIM__EW_ADD, above, below, &sum));
    if (gamma == 1) {
        *v = sum;
        return PLIM_OK;
    }
    return by(b, PLIM__EW_MUL, sum, gamma, v);
}

/* x * 0.5 * (1 + erf(x / sqrt 2)) */
static plim_status gelu(builder b, uint32_t x, uint32_t *v)
{
    uint32_t t;
    PLIM_TRY(by(b, PLIM__EW_MUL, x, sqrt(0.5), &t));
    PLIM_TRY(one(b, PLIM__EW_ERF, t, &t));
    PLIM_TRY(by(b, PLIM__EW_ADD, t, 1, &t));
    PLIM_TRY(by(b, PLIM__EW_MUL, t, 0.5, &t));
    return two(b, PLIM__EW_MUL, x, t, v);
}

/* x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x^3))) */
static plim_status gelu_tanh(builder b, uint32_t x, uint32_t *v)
{
    const double scale = sqrt(2 / acos(-1));
    uint32_t t;
    PLIM_TRY(one(b, PLIM__EW_SQUARE, x, &t));
    PLIM_TRY(by(b, PLIM__EW_MUL, t, 0.044715 * scale, &t));
    PLIM_TRY(by(b, PLIM__EW_ADD, t, scale, &t));
    PLIM_TRY(two(b, PLIM__EW_MUL, x, t, &t));
    PLIM_TRY(one(b, PLIM__EW_TANH, t, &t));
    PLIM_TRY(by(b, PLIM__EW_ADD, t, 1, &t));
    PLIM_TRY(by(b, PLIM__EW_MUL, t, 0.5, &t));
    return two(b, PLIM__EW_MUL, x, t, v);
}

static plim_status hard_sigmoid(builder b, uint32_t x, double a, double shift, uint32_t *v)
{
    uint32_t t;
    PLIM_TRY(by(b, PLIM__EW_MUL, x, a, &t));
    PLIM_TRY(by(b, PLIM__EW_ADD, t, shift, &t));
    return plim__op_limit(b.g, t, 0, 1, v, b.err);
}

static plim_status softsign(builder b, uint32_t x, uint32_t *v)
{
    uint32_t t;
    PLIM_TRY(one(b, PLIM__EW_ABS, x, &t));
    PLIM_TRY(by(b, PLIM__EW_ADD, t, 1, &t));
    return two(b, PLIM__EW_DIV, x, t, v);
}

/* log(1 + exp(x)): one function without a kink, whose gradient at 0 is 1/2. */
static plim_status softplus(builder b, uint32_t x, uint32_t *v) { return by(b, PLIM__EW_LOGADDEXP, x, 0, v); }

static plim_status mish(builder b, uint32_t x, uint32_t *v)
{
    uint32_t t;
    PLIM_TRY(softplus(b, x, &t));
    PLIM_TRY(one(b, PLIM__EW_TANH, t, &t));
    return two(b, PLIM__EW_MUL, x, t, v);
}

plim_status plim__op_activation(plim_graph *g, plim__activation how, uint32_t x, double a, double b, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__check_value(g, x, "activation", err));
    PLIM_TRY(plim__check_float(&g->value[x], "activation", err));
    const builder w = {g, err};
    uint32_t t;
    switch (how) {
    case PLIM__RELU: return plim__op_limit(g, x, 0, INFINITY, v, err);
    case PLIM__RELU6: return plim__op_limit(g, x, 0, 6, v, err);
    case PLIM__LEAKY_RELU: return leaky(w, x, a, v);
    case PLIM__ELU: return elu(w, x, a, 1, v);
    case PLIM__SELU: return elu(w, x, a, b, v);
    case PLIM__GELU: return gelu(w, x, v);
    case PLIM__GELU_TANH: return gelu_tanh(w, x, v);
    case PLIM__SIGMOID: return one(w, PLIM__EW_SIGMOID, x, v);
    case PLIM__HARD_SIGMOID: return hard_sigmoid(w, x, a, b, v);
    case PLIM__SWISH: PLIM_TRY(one(w, PLIM__EW_SIGMOID, x, &t)); return two(w, PLIM__EW_MUL, x, t, v);
    case PLIM__HARD_SWISH: PLIM_TRY(hard_sigmoid(w, x, 1.0 / 6, 0.5, &t)); return two(w, PLIM__EW_MUL, x, t, v);
    case PLIM__TANH: return one(w, PLIM__EW_TANH, x, v);
    case PLIM__SOFTPLUS: return softplus(w, x, v);
    case PLIM__SOFTSIGN: return softsign(w, x, v);
    case PLIM__EXPONENTIAL: return one(w, PLIM__EW_EXP, x, v);
    case PLIM__MISH: return mish(w, x, v);
    case PLIM__LINEAR: *v = x; return PLIM_OK;
    }
    return plim__fail(err, PLIM_E_INVALID, "activation %d does not exist", (int)how);
}
