/* What every layer needs, and the table of layers. Messages here need not name the layer: plim__keras_apply does that. */
#include "core/dtype.h"
#include "core/size.h"
#include "models/keras.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- the table */

#define ANY UINT32_MAX
#define CONV_KEYS "filters kernel_size strides padding data_format dilation_rate groups activation use_bias "
#define POOL_KEYS "pool_size strides padding data_format "

static const plim__keras_row rows[] = {
    {"Dense", plim__keras_dense, 1, 1, 0, "units activation use_bias"},
    {"Conv1D", plim__keras_conv, 1, 1, 1, CONV_KEYS},
    {"Conv2D", plim__keras_conv, 1, 1, 2, CONV_KEYS},
    {"Conv3D", plim__keras_conv, 1, 1, 3, CONV_KEYS},
    {"DepthwiseConv1D", plim__keras_conv_depthwise, 1, 1, 1, CONV_KEYS "depth_multiplier"},
    {"DepthwiseConv2D", plim__keras_conv_depthwise, 1, 1, 2, CONV_KEYS "depth_multiplier"},
    {"SeparableConv1D", plim__keras_conv_separable, 1, 1, 1, CONV_KEYS "depth_multiplier"},
    {"SeparableConv2D", plim__keras_conv_separable, 1, 1, 2, CONV_KEYS "depth_multiplier"},
    {"Conv1DTranspose", plim__keras_conv_transpose, 1, 1, 1, CONV_KEYS "output_padding"},
    {"Conv2DTranspose", plim__keras_conv_transpose, 1, 1, 2, CONV_KEYS "output_padding"},
    {"Conv3DTranspose", plim__keras_conv_transpose, 1, 1, 3, CONV_KEYS "output_padding"},
    {"MaxPooling1D", plim__keras_pool, 1, 1, 1, POOL_KEYS},
    {"MaxPooling2D", plim__keras_pool, 1, 1, 2, POOL_KEYS},
    {"MaxPooling3D", plim__keras_pool, 1, 1, 3, POOL_KEYS},
    {"AveragePooling1D", plim__keras_pool, 1, 1, 1 | PLIM__KERAS_AVERAGE, POOL_KEYS},
    {"AveragePooling2D", plim__keras_pool, 1, 1, 2 | PLIM__KERAS_AVERAGE, POOL_KEYS},
    {"AveragePooling3D", plim__keras_pool, 1, 1, 3 | PLIM__KERAS_AVERAGE, POOL_KEYS},
    {"GlobalMaxPooling1D", plim__keras_pool_global, 1, 1, 1, "data_format keepdims"},
    {"GlobalMaxPooling2D", plim__keras_pool_global, 1, 1, 2, "data_format keepdims"},
    {"GlobalMaxPooling3D", plim__keras_pool_global, 1, 1, 3, "data_format keepdims"},
    {"GlobalAveragePooling1D", plim__keras_pool_global, 1, 1, 1 | PLIM__KERAS_AVERAGE, "data_format keepdims"},
    {"GlobalAveragePooling2D", plim__keras_pool_global, 1, 1, 2 | PLIM__KERAS_AVERAGE, "data_format keepdims"},
    {"GlobalAveragePooling3D", plim__keras_pool_global, 1, 1, 3 | PLIM__KERAS_AVERAGE, "data_format keepdims"},
    {"ZeroPadding1D", plim__keras_zero_padding, 1, 1, 1, "padding data_format"},
    {"ZeroPadding2D", plim__keras_zero_padding, 1, 1, 2, "padding data_format"},
    {"ZeroPadding3D", plim__keras_zero_padding, 1, 1, 3, "padding data_format"},
    {"Cropping1D", plim__keras_cropping, 1, 1, 1, "cropping data_format"},
    {"Cropping2D", plim__keras_cropping, 1, 1, 2, "cropping data_format"},
    {"Cropping3D", plim__keras_cropping, 1, 1, 3, "cropping data_format"},
    {"UpSampling1D", plim__keras_up_sampling, 1, 1, 1, "size data_format interpolation"},
    {"UpSampling2D", plim__keras_up_sampling, 1, 1, 2, "size data_format interpolation"},
    {"UpSampling3D", plim__keras_up_sampling, 1, 1, 3, "size data_format interpolation"},
    {"Flatten", plim__keras_flatten, 1, 1, 0, "data_format"},
    {"Reshape", plim__keras_reshape, 1, 1, 0, "target_shape"},
    {"Permute", plim__keras_permute, 1, 1, 0, "dims"},
    {"RepeatVector", plim__keras_repeat_vector, 1, 1, 0, "n"},
    {"Activation", plim__keras_activation, 1, 1, 0, "activation"},
    {"ReLU", plim__keras_relu, 1, 1, 0, "max_value negative_slope threshold"},
    {"LeakyReLU", plim__keras_leaky_relu, 1, 1, 0, "alpha negative_slope"},
    {"ThresholdedReLU", plim__keras_thresholded_relu, 1, 1, 0, "theta"},
    {"PReLU", plim__keras_prelu, 1, 1, 0, "shared_axes"},
    {"ELU", plim__keras_elu, 1, 1, 0, "alpha"},
    {"Softmax", plim__keras_softmax, 1, 1, 0, "axis robust_masking"},
    {"BatchNormalization", plim__keras_batch_norm, 1, 1, 0, "axis momentum epsilon center scale fused synchronized renorm_momentum"},
    {"LayerNormalization", plim__keras_layer_norm, 1, 1, 0, "axis epsilon center scale"},
    {"GroupNormalization", plim__keras_group_norm, 1, 1, 0, "groups axis epsilon center scale"},
    {"UnitNormalization", plim__keras_unit_norm, 1, 1, 0, "axis"},
    {"Rescaling", plim__keras_rescaling, 1, 1, 0, "scale offset"},
    {"Normalization", plim__keras_normalization, 1, 1, 0, "axis mean variance invert"},
    {"Dropout", plim__keras_dropout, 1, 1, 0, "rate seed noise_shape"},
    {"SpatialDropout1D", plim__keras_spatial_dropout, 1, 1, 1, "rate seed noise_shape data_format"},
    {"SpatialDropout2D", plim__keras_spatial_dropout, 1, 1, 2, "rate seed noise_shape data_format"},
    {"SpatialDropout3D", plim__keras_spatial_dropout, 1, 1, 3, "rate seed noise_shape data_format"},
    {"GaussianNoise", plim__keras_identity, 1, 1, 0, "stddev seed"},
    {"GaussianDropout", plim__keras_identity, 1, 1, 0, "rate seed"},
    {"AlphaDropout", plim__keras_identity, 1, 1, 0, "rate seed noise_shape"},
    {"ActivityRegularization", plim__keras_identity, 1, 1, 0, "l1 l2"},
    {"Add", plim__keras_merge, 2, ANY, PLIM__KERAS_ADD, ""},
    {"Subtract", plim__keras_merge, 2, 2, PLIM__KERAS_SUBTRACT, ""},
    {"Multiply", plim__keras_merge, 2, ANY, PLIM__KERAS_MULTIPLY, ""},
    {"Average", plim__keras_merge, 2, ANY, PLIM__KERAS_MEAN, ""},
    {"Maximum", plim__keras_merge, 2, ANY, PLIM__KERAS_MAXIMUM, ""},
    {"Minimum", plim__keras_merge, 2, ANY, PLIM__KERAS_MINIMUM, ""},
    {"Concatenate", plim__keras_concatenate, 1, ANY, 0, "axis"},
    {"Dot", plim__keras_dot, 2, 2, 0, "axes normalize"},
    {"Embedding", plim__keras_embedding, 1, 1, 0, "input_dim output_dim input_length sparse"},
    {"MultiHeadAttention", plim__keras_attention, 2, 3, 0,
     "num_heads key_dim value_dim dropout use_bias output_shape attention_axes seed query_shape key_shape value_shape softmax_robust_masking"},
    {"TimeDistributed", plim__keras_time_distributed, 1, 1, 0, "layer"},
};

const plim__keras_row *plim__keras_row_of(const char *kind)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].kind, kind) == 0) return &rows[i];
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- options */

/* Is `word` one of the words of `list`. */
static bool listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    if (n == 0) return false; /* it is found everywhere, also behind the end */
    for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0)) return true;
    return false;
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

plim_status plim__keras_check_options(plim__keras_call *c)
{
    static const char common[] = "name trainable dtype batch_input_shape batch_shape input_shape";
    void *iter = NULL;
    const char *key;
    plim__json value;
    while (plim__json_each(c->config, &iter, &key, &value)) {
        if (listed(common, key) || listed(c->row->keys, key) || ends_in(key, "_initializer") || plim__json_is_empty(&value)) continue;
        const bool bound = ends_in(key, "_regularizer") || ends_in(key, "_constraint");
        if (bound && !c->k->options->training) continue; /* they say how to train */
        return plim__json_fail(c->err, PLIM_E_UNSUPPORTED, &value, "layer '%.60s' (%.40s): this option is not supported%s", c->layer->path,
                               c->layer->kind, bound ? " in training" : "");
    }
    return PLIM_OK;
}

/* A dtype or a policy: text, or an object whose config holds the name. Mixed policies keep variables in f32; all is computed in that. */
plim_status plim__keras_dtype(plim_dtype *out, const plim__json *config, plim_error *err)
{
    plim__json j, inner;
    const char *name = NULL;
    *out = PLIM_F32;
    if (!plim__json_find(&j, config, "dtype")) return PLIM_OK;
    if (plim__json_kind_of(&j) == PLIM__JSON_OBJECT) {
        PLIM_TRY(plim__json_get(&inner, &j, "config", err));
        PLIM_TRY(plim__json_get(&j, &inner, "name", err));
    }
    PLIM_TRY(plim__json_string(&name, &j, err));
    if (strcmp(name, "mixed_float16") == 0 || strcmp(name, "mixed_bfloat16") == 0) return PLIM_OK;
    if (plim_dtype_parse(out, name, NULL) == PLIM_OK) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_UNSUPPORTED, &j, "dtype or policy '%.40s' is not supported", name);
}

plim_status plim__keras_flag(plim__keras_call *c, const char *key, bool fallback, bool *out)
{
    return plim__json_get_boolean(out, c->config, key, fallback, c->err);
}

plim_status plim__keras_sizes(plim__keras_call *c, const char *key, uint32_t n, int64_t least, int64_t fallback, int64_t *out)
{
    plim__json j;
    for (uint32_t d = 0; d < n; d++) out[d] = fallback;
    if (!plim__json_find(&j, c->config, key)) {
        if (fallback == 0 && least > 0) return plim__json_fail(c->err, PLIM_E_FORMAT, c->config, "'%s' is missing", key);
        return PLIM_OK;
    }
    if (plim__json_kind_of(&j) == PLIM__JSON_INTEGER) {
        PLIM_TRY(plim__json_integer(&out[0], &j, c->err));
        for (uint32_t d = 1; d < n; d++) out[d] = out[0];
    } else {
        PLIM_TRY(plim__json_integers(out, n, &j, c->err));
    }
    for (uint32_t d = 0; d < n; d++)
        if (out[d] < least || out[d] > PLIM__KERAS_SIZE)
            return plim__json_fail(c->err, PLIM_E_FORMAT, &j, "%lld is not between %lld and %d", (long long)out[d], (long long)least,
                                   PLIM__KERAS_SIZE);
    return PLIM_OK;
}

plim_status plim__keras_axis(plim__keras_call *c, int64_t axis, uint32_t rank, uint32_t *out)
{
    const int64_t from = axis < 0 ? axis + rank : axis;
    PLIM_FAIL_IF(axis < -(int64_t)rank || from >= rank, c->err, PLIM_E_SHAPE, "axis %lld of a tensor of rank %u", (long long)axis, rank);
    *out = (uint32_t)from;
    return PLIM_OK;
}

plim_status plim__keras_axes(plim__keras_call *c, const char *key, int64_t fallback, uint32_t rank, uint32_t *mask)
{
    plim__json j, e;
    int64_t axis = fallback;
    uint32_t d = 0;
    const bool there = plim__json_find(&j, c->config, key), list = there && plim__json_kind_of(&j) == PLIM__JSON_ARRAY;
    const uint32_t n = list ? plim__json_count(&j) : 1;
    *mask = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (list) PLIM_TRY(plim__json_at(&e, &j, i, c->err));
        if (there) PLIM_TRY(plim__json_integer(&axis, list ? &e : &j, c->err));
        PLIM_TRY(plim__keras_axis(c, axis, rank, &d));
        *mask |= 1u << d;
    }
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- tensors */

uint32_t plim__keras_rank(const plim__keras_call *c, plim__keras_tensor t) { return c->k->graph->value[t.v].shape.rank; }

plim_shape plim__keras_shape(const plim__keras_call *c, plim__keras_tensor t)
{
    const plim_shape s = c->k->graph->value[t.v].shape;
    if (!t.turned) return s;
    plim_shape plain = s;
    for (uint32_t d = 2; d < s.rank; d++) plain.dim[d - 1] = s.dim[d];
    plain.dim[s.rank - 1] = s.dim[1];
    return plain;
}

uint32_t plim__keras_dim_of(const plim__keras_call *c, plim__keras_tensor t, uint32_t axis)
{
    const uint32_t rank = plim__keras_rank(c, t);
    return !t.turned || axis == 0 ? axis : axis == rank - 1 ? 1 : axis + 1;
}

/* Elements keep their places in memory when the channels, or all of space, are one element wide. */
static bool order_kept(const plim_shape *plain)
{
    bool point = true;
    for (uint32_t d = 1; d + 1 < plain->rank; d++) point = point && plain->dim[d] == 1;
    return point || plain->dim[plain->rank - 1] == 1;
}

plim_status plim__keras_plain(plim__keras_call *c, plim__keras_tensor t, uint32_t *v)
{
    *v = t.v;
    if (!t.turned) return PLIM_OK;
    const plim_shape plain = plim__keras_shape(c, t);
    if (order_kept(&plain)) return plim__op_reshape(c->k->graph, t.v, &plain, v, c->err);
    uint32_t perm[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 1; d + 1 < plain.rank; d++) perm[d] = d + 1;
    perm[plain.rank - 1] = 1;
    return plim__op_transpose(c->k->graph, t.v, perm, v, c->err);
}

plim_status plim__keras_turn(plim__keras_call *c, plim__keras_tensor t, uint32_t *v)
{
    *v = t.v;
    const plim_shape plain = c->k->graph->value[t.v].shape;
    if (t.turned || plain.rank < 3) return PLIM_OK;
    uint32_t perm[PLIM_MAX_RANK] = {0, plain.rank - 1};
    for (uint32_t d = 2; d < plain.rank; d++) perm[d] = d - 1;
    if (!order_kept(&plain)) return plim__op_transpose(c->k->graph, t.v, perm, v, c->err);
    plim_shape turned = plain;
    for (uint32_t d = 1; d < plain.rank; d++) turned.dim[d] = plain.dim[perm[d]];
    return plim__op_reshape(c->k->graph, t.v, &turned, v, c->err);
}

plim_status plim__keras_in(plim__keras_call *c, uint32_t i, plim__keras_tensor *t)
{
    *t = c->in[i];
    PLIM_FAIL_IF(c->layer->dtype != PLIM_F32 && c->layer->dtype != PLIM_F64, c->err, PLIM_E_UNSUPPORTED,
                 "dtype %s: only float32, float64 and the mixed policies are supported", plim_dtype_name(c->layer->dtype));
    return plim__op_cast(c->k->graph, c->in[i].v, c->layer->dtype, &t->v, c->err);
}

plim_status plim__keras_image(plim__keras_call *c, uint32_t space, bool *first, uint32_t *v)
{
    const char *format;
    plim__keras_tensor t;
    PLIM_TRY(plim__json_get_string(&format, c->config, "data_format", "channels_last", c->err));
    *first = strcmp(format, "channels_first") == 0;
    PLIM_FAIL_IF(!*first && strcmp(format, "channels_last") != 0, c->err, PLIM_E_FORMAT,
                 "data_format '%.40s' is neither channels_last nor channels_first", format);
    PLIM_TRY(plim__keras_in(c, 0, &t));
    PLIM_FAIL_IF(plim__keras_rank(c, t) != space + 2, c->err, PLIM_E_SHAPE, "expects an input of rank %u, not %u", space + 2, plim__keras_rank(c, t));
    return *first ? plim__keras_plain(c, t, v) : plim__keras_turn(c, t, v);
}

plim_status plim__keras_add_along(plim__keras_call *c, uint32_t x, uint32_t vector, uint32_t dim, uint32_t *v)
{
    plim_graph *g = c->k->graph;
    plim_shape along = {.rank = g->value[x].shape.rank - dim};
    for (uint32_t d = 0; d < along.rank; d++) along.dim[d] = 1;
    along.dim[0] = g->value[x].shape.dim[dim];
    PLIM_TRY(plim__op_reshape(g, vector, &along, &vector, c->err));
    return plim__op_float2(g, PLIM__EW_ADD, x, vector, v, c->err);
}

/* ------------------------------------------------------------------------------------------------------- parameters */

static plim_status weight_add(plim__keras_call *c, plim__keras_weight w)
{
    plim__keras_layer *l = c->layer;
    PLIM_FAIL_IF(l->n_weights == PLIM__KERAS_WEIGHTS, c->err, PLIM_E_UNSUPPORTED, "it has more than %d parameters", PLIM__KERAS_WEIGHTS);
    l->weight[l->n_weights++] = w;
    c->n_weights++;
    return PLIM_OK;
}

plim_status plim__keras_skip(plim__keras_call *c, uint32_t slot)
{
    if (c->n_weights < c->layer->n_weights) return c->n_weights++, PLIM_OK;
    return weight_add(c, (plim__keras_weight){.param = PLIM__NONE, .sub = "", .slot = slot});
}

bool plim__keras_trained(const plim__keras *k, const plim__keras_layer *l)
{
    while (l->trainable && l->parent != PLIM__NONE) l = &k->layer[l->parent];
    return l->trainable;
}

plim_status plim__keras_param(plim__keras_call *c, const plim__keras_spec *spec, const plim_shape *shape, uint32_t *v)
{
    plim__keras *k = c->k;
    if (c->n_weights < c->layer->n_weights) { /* a later call of a shared layer */
        *v = k->model->param[c->layer->weight[c->n_weights++].param].value;
        const plim_shape *made = &k->graph->value[*v].shape;
        char was[80], now[80];
        PLIM_FAIL_IF(!plim__shape_equal(made, shape), c->err, PLIM_E_SHAPE, "%s has shape %s in one call and %s in another", spec->name,
                     plim_shape_format(was, sizeof was, made), plim_shape_format(now, sizeof now, shape));
        return PLIM_OK;
    }
    plim__keras_weight w = {.sub = spec->sub ? spec->sub : "", .slot = spec->slot, .trainable = !spec->frozen};
    plim__param p = {.trainable = w.trainable && plim__keras_trained(k, c->layer), .update = PLIM__NONE};
    snprintf(p.name, sizeof p.name, "%.60s/%s%s%s", c->layer->path, w.sub, w.sub[0] ? "/" : "", spec->name);
    PLIM_TRY(plim__keras_init(&p, c->config, spec, shape, &w.initializer, c->err));
    PLIM_TRY(plim__model_param(k->model, &p, c->layer->dtype, shape, NULL, v, c->err));
    w.param = k->model->n_params - 1;
    return weight_add(c, w);
}
