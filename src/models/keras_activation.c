/* Activations: functions by name (an option or a layer of its own), and the layers with options. */
#include "models/keras.h"

#include <math.h>
#include <string.h>

#define SELU_ALPHA 1.6732632423543772
#define SELU_SCALE 1.0507009873554805

/* A named function: one of layers.h with its constants, or one that is put together here. */
typedef struct function {
    const char *name;
    plim__activation how;
    double a, b;
    plim_status (*build)(plim__keras_call *c, plim__keras_tensor *t);
} function;

/* -------------------------------------------------------------------------------------------------- put together */

static plim_status softmax(plim__keras_call *c, plim__keras_tensor *t, uint32_t axis, bool log)
{
    return plim__op_softmax(c->k->graph, t->v, plim__keras_dim_of(c, *t, axis), log, &t->v, c->err);
}

static plim_status last_axis(plim__keras_call *c, const plim__keras_tensor *t, uint32_t *axis)
{
    const uint32_t rank = plim__keras_rank(c, *t);
    PLIM_FAIL_IF(rank < 2, c->err, PLIM_E_SHAPE, "softmax needs an input of rank 2 or more, not %u", rank);
    *axis = rank - 1;
    return PLIM_OK;
}

static plim_status fn_softmax(plim__keras_call *c, plim__keras_tensor *t)
{
    uint32_t axis = 0;
    PLIM_TRY(last_axis(c, t, &axis));
    return softmax(c, t, axis, false);
}

static plim_status fn_log_softmax(plim__keras_call *c, plim__keras_tensor *t)
{
    uint32_t axis = 0;
    PLIM_TRY(last_axis(c, t, &axis));
    return softmax(c, t, axis, true);
}

static plim_status where(plim__keras_call *c, uint32_t condition, uint32_t yes, uint32_t no, uint32_t *v)
{
    const uint32_t in[] = {condition, yes, no};
    const plim_dtype dtype = c->k->graph->value[yes].dtype;
    return plim__op_elementwise(c->k->graph, PLIM__EW_WHERE, dtype, dtype, in, 3, v, c->err);
}

static plim_status clip(plim__keras_call *c, uint32_t x, double lo, double hi, uint32_t *v)
{
    PLIM_TRY(plim__op_float_const(c->k->graph, PLIM__EW_MAXIMUM, x, lo, v, c->err));
    return plim__op_float_const(c->k->graph, PLIM__EW_MINIMUM, *v, hi, v, c->err);
}

/* -softplus(-x) */
static plim_status fn_log_sigmoid(plim__keras_call *c, plim__keras_tensor *t)
{
    plim_graph *g = c->k->graph;
    PLIM_TRY(plim__op_float1(g, PLIM__EW_NEG, t->v, &t->v, c->err));
    PLIM_TRY(plim__op_activation(g, PLIM__SOFTPLUS, t->v, 0, 0, &t->v, c->err));
    return plim__op_float1(g, PLIM__EW_NEG, t->v, &t->v, c->err);
}

static plim_status fn_hard_tanh(plim__keras_call *c, plim__keras_tensor *t) { return clip(c, t->v, -1, 1, &t->v); }

static plim_status fn_tanh_shrink(plim__keras_call *c, plim__keras_tensor *t)
{
    uint32_t tanh_x;
    PLIM_TRY(plim__op_float1(c->k->graph, PLIM__EW_TANH, t->v, &tanh_x, c->err));
    return plim__op_float2(c->k->graph, PLIM__EW_SUB, t->v, tanh_x, &t->v, c->err);
}

/* x - clip(x, -0.5, 0.5) */
static plim_status fn_soft_shrink(plim__keras_call *c, plim__keras_tensor *t)
{
    uint32_t inner;
    PLIM_TRY(clip(c, t->v, -0.5, 0.5, &inner));
    return plim__op_float2(c->k->graph, PLIM__EW_SUB, t->v, inner, &t->v, c->err);
}

static plim_status fn_hard_shrink(plim__keras_call *c, plim__keras_tensor *t)
{
    plim_graph *g = c->k->graph;
    uint32_t size, far, zero;
    PLIM_TRY(plim__op_float1(g, PLIM__EW_ABS, t->v, &size, c->err));
    PLIM_TRY(plim__op_compare(g, PLIM__EW_GREATER, size, 0.5, &far, c->err));
    PLIM_TRY(plim__op_scalar(g, g->value[t->v].dtype, 0, &zero, c->err));
    return where(c, far, t->v, zero, &t->v);
}

/* (x + sqrt(x*x + 4)) / 2 */
static plim_status fn_squareplus(plim__keras_call *c, plim__keras_tensor *t)
{
    plim_graph *g = c->k->graph;
    uint32_t root;
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQUARE, t->v, &root, c->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_ADD, root, 4, &root, c->err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQRT, root, &root, c->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_ADD, t->v, root, &t->v, c->err));
    return plim__op_float_const(g, PLIM__EW_MUL, t->v, 0.5, &t->v, c->err);
}

/* ------------------------------------------------------------------------------------------------------------ by name */

static const function functions[] = {
    {"linear", PLIM__LINEAR, 0, 0, NULL},
    {"relu", PLIM__RELU, 0, 0, NULL},
    {"relu6", PLIM__RELU6, 0, 0, NULL},
    {"leaky_relu", PLIM__LEAKY_RELU, 0.2, 0, NULL},
    {"elu", PLIM__ELU, 1, 0, NULL},
    {"celu", PLIM__ELU, 1, 0, NULL}, /* the same where alpha is 1 */
    {"selu", PLIM__SELU, SELU_ALPHA, SELU_SCALE, NULL},
    {"gelu", PLIM__GELU, 0, 0, NULL},
    {"sigmoid", PLIM__SIGMOID, 0, 0, NULL},
    {"hard_sigmoid", PLIM__HARD_SIGMOID, 1.0 / 6, 0.5, NULL},
    {"swish", PLIM__SWISH, 0, 0, NULL},
    {"silu", PLIM__SWISH, 0, 0, NULL},
    {"hard_swish", PLIM__HARD_SWISH, 0, 0, NULL},
    {"hard_silu", PLIM__HARD_SWISH, 0, 0, NULL},
    {"tanh", PLIM__TANH, 0, 0, NULL},
    {"softplus", PLIM__SOFTPLUS, 0, 0, NULL},
    {"softsign", PLIM__SOFTSIGN, 0, 0, NULL},
    {"exponential", PLIM__EXPONENTIAL, 0, 0, NULL},
    {"mish", PLIM__MISH, 0, 0, NULL},
    {"softmax", PLIM__LINEAR, 0, 0, fn_softmax},
    {"log_softmax", PLIM__LINEAR, 0, 0, fn_log_softmax},
    {"log_sigmoid", PLIM__LINEAR, 0, 0, fn_log_sigmoid},
    {"hard_tanh", PLIM__LINEAR, 0, 0, fn_hard_tanh},
    {"tanh_shrink", PLIM__LINEAR, 0, 0, fn_tanh_shrink},
    {"soft_shrink", PLIM__LINEAR, 0, 0, fn_soft_shrink},
    {"hard_shrink", PLIM__LINEAR, 0, 0, fn_hard_shrink},
    {"squareplus", PLIM__LINEAR, 0, 0, fn_squareplus},
};

static plim_status activate_by_name(plim__keras_call *c, const char *name, plim__keras_tensor *t)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        function f = functions[i];
        if (strcmp(f.name, name) != 0) continue;
        if (f.build) return f.build(c, t);
        if (f.how == PLIM__LINEAR) return PLIM_OK;
        if (f.how == PLIM__HARD_SIGMOID && c->k->version < 3) f.a = 0.2; /* Keras 3 changed it */
        return plim__op_activation(c->k->graph, f.how, t->v, f.a, f.b, &t->v, c->err);
    }
    return plim__fail(c->err, PLIM_E_UNSUPPORTED, "activation '%.60s' is not supported", name);
}

/* A layer in the place of a function: {"class_name": "LeakyReLU", "config": {...}}. */
static plim_status activate_by_layer(plim__keras_call *c, const char *kind, const plim__json *config, plim__keras_tensor *t)
{
    static const char *const stateless[] = {"ReLU", "LeakyReLU", "ELU", "Softmax", "ThresholdedReLU"};
    for (size_t i = 0; i < sizeof stateless / sizeof *stateless; i++) {
        if (strcmp(stateless[i], kind) != 0) continue;
        plim__keras_call inner = {.k = c->k, .row = plim__keras_row_of(kind), .layer = c->layer, .config = config, .in = t, .n_in = 1, .err = c->err};
        PLIM_TRY(plim__keras_check_options(&inner));
        PLIM_TRY(inner.row->build(&inner));
        *t = inner.out;
        return PLIM_OK;
    }
    return activate_by_name(c, kind, t);
}

plim_status plim__keras_activate(plim__keras_call *c, const char *key, plim__keras_tensor *t)
{
    plim__json j, kind, config;
    const char *name;
    if (!plim__json_find(&j, c->config, key)) return PLIM_OK;
    if (plim__json_kind_of(&j) != PLIM__JSON_OBJECT) {
        PLIM_TRY(plim__json_string(&name, &j, c->err));
        return activate_by_name(c, name, t);
    }
    PLIM_TRY(plim__json_get(&kind, &j, "class_name", c->err));
    PLIM_TRY(plim__json_string(&name, &kind, c->err));
    PLIM_TRY(plim__json_get(&config, &j, "config", c->err));
    if (strcmp(name, "function") != 0) return activate_by_layer(c, name, &config, t);
    PLIM_TRY(plim__json_string(&name, &config, c->err));
    return activate_by_name(c, name, t);
}

/* ------------------------------------------------------------------------------------------------------------- layers */

plim_status plim__keras_activation(plim__keras_call *c)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, c->config, "activation", c->err));
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    return plim__keras_activate(c, "activation", &c->out);
}

/* x from the threshold on, slope * (x - threshold) below it; nothing above max_value */
static plim_status relu(plim__keras_call *c, double slope, double threshold, double most)
{
    plim_graph *g = c->k->graph;
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    uint32_t *v = &c->out.v, above, low;
    if (threshold == 0) {
        PLIM_TRY(plim__op_activation(g, slope == 0 ? PLIM__RELU : PLIM__LEAKY_RELU, *v, slope, 0, v, c->err));
    } else {
        PLIM_TRY(plim__op_compare(g, PLIM__EW_GREATER_EQUAL, *v, threshold, &above, c->err));
        PLIM_TRY(plim__op_float_const(g, PLIM__EW_SUB, *v, threshold, &low, c->err));
        PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, low, slope, &low, c->err));
        PLIM_TRY(where(c, above, *v, low, v));
    }
    return isinf(most) ? PLIM_OK : plim__op_float_const(g, PLIM__EW_MINIMUM, *v, most, v, c->err);
}

/* Keras 2 wrote numbers of ReLU as lists of one. */
static plim_status number(plim__keras_call *c, const char *key, double fallback, double *out)
{
    plim__json j, e;
    *out = fallback;
    if (!plim__json_find(&j, c->config, key)) return PLIM_OK;
    if (plim__json_kind_of(&j) != PLIM__JSON_ARRAY) return plim__json_number(out, &j, c->err);
    PLIM_TRY(plim__json_at(&e, &j, 0, c->err));
    return plim__json_number(out, &e, c->err);
}

plim_status plim__keras_relu(plim__keras_call *c)
{
    double slope, threshold, most;
    PLIM_TRY(number(c, "negative_slope", 0, &slope));
    PLIM_TRY(number(c, "threshold", 0, &threshold));
    PLIM_TRY(number(c, "max_value", INFINITY, &most));
    return relu(c, slope, threshold, most);
}

plim_status plim__keras_leaky_relu(plim__keras_call *c)
{
    double slope;
    PLIM_TRY(number(c, "alpha", 0.3, &slope));
    PLIM_TRY(number(c, "negative_slope", slope, &slope));
    return relu(c, slope, 0, INFINITY);
}

/* x where it exceeds theta, else 0 */
plim_status plim__keras_thresholded_relu(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    double theta;
    uint32_t above, zero;
    PLIM_TRY(number(c, "theta", 1, &theta));
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    PLIM_TRY(plim__op_compare(g, PLIM__EW_GREATER, c->out.v, theta, &above, c->err));
    PLIM_TRY(plim__op_scalar(g, c->layer->dtype, 0, &zero, c->err));
    return where(c, above, c->out.v, zero, &c->out.v);
}

plim_status plim__keras_elu(plim__keras_call *c)
{
    double alpha;
    PLIM_TRY(number(c, "alpha", 1, &alpha));
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    return plim__op_activation(c->k->graph, PLIM__ELU, c->out.v, alpha, 0, &c->out.v, c->err);
}

/* max(x, 0) + alpha * min(x, 0), alpha of the input's shape without the batch, one wide in the shared axes */
plim_status plim__keras_prelu(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    plim__keras_tensor x;
    PLIM_TRY(plim__keras_in(c, 0, &x));
    const plim_shape s = plim__keras_shape(c, x);
    uint32_t shared = 0, alpha, low, high, perm[PLIM_MAX_RANK] = {0};
    plim__json j;
    if (plim__json_find(&j, c->config, "shared_axes")) PLIM_TRY(plim__keras_axes(c, "shared_axes", 0, s.rank, &shared));
    PLIM_FAIL_IF(s.rank < 2, c->err, PLIM_E_SHAPE, "expects an input of rank 2 or more, not %u", s.rank);
    plim_shape of = {.rank = s.rank - 1};
    for (uint32_t d = 1; d < s.rank; d++) of.dim[d - 1] = shared >> d & 1 ? 1 : s.dim[d];
    PLIM_TRY(plim__keras_param(c, &(plim__keras_spec){.name = "alpha", .init = "alpha_initializer", .otherwise = "zeros"}, &of, &alpha));
    if (x.turned) {
        perm[0] = of.rank - 1;
        for (uint32_t d = 1; d < of.rank; d++) perm[d] = d - 1;
        PLIM_TRY(plim__op_transpose(g, alpha, perm, &alpha, c->err));
    }
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MAXIMUM, x.v, 0, &high, c->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MINIMUM, x.v, 0, &low, c->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, low, alpha, &low, c->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_ADD, high, low, &c->out.v, c->err));
    c->out.turned = x.turned;
    return PLIM_OK;
}

plim_status plim__keras_softmax(plim__keras_call *c)
{
    uint32_t mask;
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    PLIM_TRY(plim__keras_axes(c, "axis", -1, plim__keras_rank(c, c->out), &mask));
    PLIM_FAIL_IF(__builtin_popcount(mask) != 1, c->err, PLIM_E_UNSUPPORTED, "softmax over several axes together is not supported");
    return softmax(c, &c->out, (uint32_t)__builtin_ctz(mask), false);
}
