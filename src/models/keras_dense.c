/* Dense, Embedding and attention: matrix products over the last dimension, in the model's own order. */
#include "core/dtype.h"
#include "models/keras.h"

#include <math.h>
#include <string.h>

static plim_status read_positive(plim__keras_call *c, const char *key, int64_t *out)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, c->config, key, c->err));
    PLIM_TRY(plim__json_integer(out, &j, c->err));
    if (*out < 1 || *out > INT32_MAX) return plim__json_fail(c->err, PLIM_E_FORMAT, &j, "%lld is not a positive number below 2^31", (long long)*out);
    return PLIM_OK;
}

static plim_status bias_param(plim__keras_call *c, const char *sub, const plim_shape *s, uint32_t *v)
{
    return plim__keras_param(c, &(plim__keras_spec){.name = "bias", .init = "bias_initializer", .otherwise = "zeros", .sub = sub, .slot = 1}, s, v);
}

plim_status plim__keras_dense(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    int64_t units;
    bool use_bias;
    uint32_t x, w, bias;
    plim__keras_tensor t;
    PLIM_TRY(read_positive(c, "units", &units));
    PLIM_TRY(plim__keras_flag(c, "use_bias", true, &use_bias));
    PLIM_TRY(plim__keras_in(c, 0, &t));
    PLIM_TRY(plim__keras_plain(c, t, &x));
    const uint32_t rank = g->value[x].shape.rank;
    PLIM_FAIL_IF(rank < 2, c->err, PLIM_E_SHAPE, "expects an input of rank 2 or more, not %u", rank);
    const plim_shape s = {2, {g->value[x].shape.dim[rank - 1], units}}, b = {1, {units}};
    PLIM_TRY(plim__keras_param(c, &(plim__keras_spec){.name = "kernel", .init = "kernel_initializer", .otherwise = "glorot_uniform"}, &s, &w));
    PLIM_TRY(plim__op_matmul(g, x, w, c->layer->dtype, &x, c->err));
    if (use_bias) {
        PLIM_TRY(bias_param(c, NULL, &b, &bias));
        PLIM_TRY(plim__op_float2(g, PLIM__EW_ADD, x, bias, &x, c->err));
    }
    c->out = (plim__keras_tensor){x, false};
    return plim__keras_activate(c, "activation", &c->out);
}

plim_status plim__keras_embedding(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    int64_t rows, columns;
    uint32_t x, w;
    PLIM_TRY(read_positive(c, "input_dim", &rows));
    PLIM_TRY(read_positive(c, "output_dim", &columns));
    PLIM_TRY(plim__keras_plain(c, c->in[0], &x));
    const plim_dtype t = g->value[x].dtype;
    if (t != PLIM_I32 && t != PLIM_I64) PLIM_TRY(plim__op_cast(g, x, plim__dtype_is_float(t) ? PLIM_I32 : PLIM_I64, &x, c->err));
    const plim_shape s = {2, {rows, columns}};
    PLIM_TRY(plim__keras_param(c, &(plim__keras_spec){.name = "embeddings", .init = "embeddings_initializer", .otherwise = "uniform"}, &s, &w));
    c->out.turned = false;
    return plim__op_gather(g, w, x, 0, &c->out.v, c->err);
}

/* --------------------------------------------------------------------------------------------------------- attention
 * query [N, T, D], value and key [N, S, D']: every head projects them to [.., K], softmax(q k' / sqrt(K)) v, and all heads together
 * are projected back. */

typedef struct attention {
    int64_t heads, key, value;
    bool use_bias;
    double dropout;
} attention;

static plim_status attention_options(plim__keras_call *c, attention *a)
{
    plim__json j;
    uint32_t axes = 2;
    PLIM_TRY(read_positive(c, "num_heads", &a->heads));
    PLIM_TRY(read_positive(c, "key_dim", &a->key));
    a->value = a->key;
    if (plim__json_find(&j, c->config, "value_dim")) PLIM_TRY(read_positive(c, "value_dim", &a->value));
    PLIM_TRY(plim__keras_flag(c, "use_bias", true, &a->use_bias));
    PLIM_TRY(plim__json_get_number(&a->dropout, c->config, "dropout", 0, c->err));
    if (plim__json_find(&j, c->config, "attention_axes")) PLIM_TRY(plim__keras_axes(c, "attention_axes", 1, 3, &axes));
    PLIM_FAIL_IF(axes != 2, c->err, PLIM_E_UNSUPPORTED, "attention_axes other than 1 are not supported");
    PLIM_FAIL_IF(!(a->dropout >= 0 && a->dropout < 1), c->err, PLIM_E_FORMAT, "a dropout of %g", a->dropout);
    return PLIM_OK;
}

/* Input i, projected to [N, T, heads, n], in another order of dimensions. */
static plim_status project(plim__keras_call *c, const attention *a, uint32_t i, const char *sub, int64_t n, const uint32_t order[4], uint32_t *v)
{
    plim_graph *g = c->k->graph;
    plim__keras_tensor t;
    uint32_t x, w, bias;
    PLIM_TRY(plim__keras_in(c, i, &t));
    PLIM_TRY(plim__keras_plain(c, t, &x));
    const plim_shape s = g->value[x].shape;
    PLIM_FAIL_IF(s.rank != 3, c->err, PLIM_E_UNSUPPORTED, "only inputs of rank 3 are supported, not %u", s.rank);
    const plim_shape kernel = {3, {s.dim[2], a->heads, n}}, flat = {2, {s.dim[2], a->heads * n}}, b = {2, {a->heads, n}},
                     b_flat = {1, {a->heads * n}};
    const plim__keras_spec spec = {.name = "kernel", .init = "kernel_initializer", .otherwise = "glorot_uniform", .sub = sub};
    PLIM_TRY(plim__keras_param(c, &spec, &kernel, &w));
    PLIM_TRY(plim__op_reshape(g, w, &flat, &w, c->err));
    PLIM_TRY(plim__op_matmul(g, x, w, c->layer->dtype, &x, c->err));
    if (a->use_bias) {
        PLIM_TRY(bias_param(c, sub, &b, &bias));
        PLIM_TRY(plim__op_reshape(g, bias, &b_flat, &bias, c->err));
        PLIM_TRY(plim__op_float2(g, PLIM__EW_ADD, x, bias, &x, c->err));
    }
    const plim_shape heads = {4, {s.dim[0], s.dim[1], a->heads, n}};
    PLIM_TRY(plim__op_reshape(g, x, &heads, &x, c->err));
    return plim__op_transpose(g, x, order, v, c->err);
}

static plim_status attention_output(plim__keras_call *c, const attention *a, int64_t width, uint32_t x, uint32_t *v)
{
    plim_graph *g = c->k->graph;
    uint32_t w, bias;
    const plim_shape s = g->value[x].shape; /* [N, heads, T, value] */
    const plim_shape joined = {3, {s.dim[0], s.dim[2], a->heads * a->value}}, kernel = {3, {a->heads, a->value, width}},
                     flat = {2, {a->heads * a->value, width}}, b = {1, {width}};
    PLIM_TRY(plim__op_transpose(g, x, (const uint32_t[]){0, 2, 1, 3}, &x, c->err));
    PLIM_TRY(plim__op_reshape(g, x, &joined, &x, c->err));
    const plim__keras_spec spec = {.name = "kernel", .init = "kernel_initializer", .otherwise = "glorot_uniform", .sub = "output_dense"};
    PLIM_TRY(plim__keras_param(c, &spec, &kernel, &w));
    PLIM_TRY(plim__op_reshape(g, w, &flat, &w, c->err));
    PLIM_TRY(plim__op_matmul(g, x, w, c->layer->dtype, v, c->err));
    if (!a->use_bias) return PLIM_OK;
    PLIM_TRY(bias_param(c, "output_dense", &b, &bias));
    return plim__op_float2(g, PLIM__EW_ADD, *v, bias, v, c->err);
}

plim_status plim__keras_attention(plim__keras_call *c)
{
    static const uint32_t rows[] = {0, 2, 1, 3}, columns[] = {0, 2, 3, 1};
    plim_graph *g = c->k->graph;
    attention a;
    uint32_t q, k, v, seed;
    int64_t width = plim__keras_shape(c, c->in[0]).dim[2];
    PLIM_TRY(attention_options(c, &a));
    PLIM_FAIL_IF(a.heads > INT32_MAX / a.key || a.heads > INT32_MAX / a.value, c->err, PLIM_E_OVERFLOW, "%lld heads are too many",
                 (long long)a.heads);
    PLIM_TRY(project(c, &a, 0, "query_dense", a.key, rows, &q));
    PLIM_TRY(project(c, &a, c->n_in == 3 ? 2 : 1, "key_dense", a.key, columns, &k));
    PLIM_TRY(project(c, &a, 1, "value_dense", a.value, rows, &v));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, q, 1 / sqrt((double)a.key), &q, c->err));
    PLIM_TRY(plim__op_matmul(g, q, k, c->layer->dtype, &q, c->err));
    PLIM_TRY(plim__op_softmax(g, q, 3, false, &q, c->err));
    if (c->k->training && a.dropout > 0) {
        PLIM_TRY(plim__model_seed(c->k->model, &seed, c->err));
        PLIM_TRY(plim__op_dropout(g, q, a.dropout, seed, c->k->streams++, &q, c->err));
    }
    PLIM_TRY(plim__op_matmul(g, q, v, c->layer->dtype, &q, c->err));
    plim__json j;
    if (plim__json_find(&j, c->config, "output_shape")) {
        const bool list = plim__json_kind_of(&j) == PLIM__JSON_ARRAY;
        PLIM_TRY(list ? plim__json_integers(&width, 1, &j, c->err) : plim__json_integer(&width, &j, c->err));
        PLIM_FAIL_IF(width < 1 || width > INT32_MAX, c->err, PLIM_E_FORMAT, "an output_shape of %lld", (long long)width);
    }
    c->out.turned = false;
    return attention_output(c, &a, width, q, &c->out.v);
}
