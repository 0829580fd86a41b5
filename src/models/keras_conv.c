/* Convolutions. A kernel is [window..., in, out] in Keras and [out, in, window...] in the row: the parameter keeps its own order, the graph has a
 * transpose of it. "same" is TensorFlow's: as many outputs as ceil(input / stride), the border's odd element behind. */
#include "core/size.h"
#include "models/keras.h"

#include <string.h>

typedef struct options {
    uint32_t space;
    bool first; /* channels_first */
    bool same, causal;
    int64_t kernel[3];
    plim__conv conv;
} options;

static plim_status read_options(plim__keras_call *c, options *o)
{
    const char *padding;
    *o = (options){.space = c->row->arg, .conv = {.space = c->row->arg}};
    PLIM_TRY(plim__keras_sizes(c, "kernel_size", o->space, 1, 0, o->kernel));
    PLIM_TRY(plim__keras_sizes(c, "strides", o->space, 1, 1, o->conv.stride));
    PLIM_TRY(plim__keras_sizes(c, "dilation_rate", o->space, 1, 1, o->conv.dilation));
    PLIM_TRY(plim__json_get_integer(&o->conv.groups, c->config, "groups", 1, c->err));
    PLIM_TRY(plim__json_get_string(&padding, c->config, "padding", "valid", c->err));
    o->same = strcmp(padding, "same") == 0;
    o->causal = strcmp(padding, "causal") == 0 && o->space == 1;
    PLIM_FAIL_IF(!o->same && !o->causal && strcmp(padding, "valid") != 0, c->err, PLIM_E_UNSUPPORTED, "padding '%.40s' is not supported", padding);
    return PLIM_OK;
}

static int64_t reach(const options *o, uint32_t d) { return (o->kernel[d] - 1) * o->conv.dilation[d] + 1; }

/* The border for an input of these extents. */
static void set_border(options *o, const plim_shape *x)
{
    for (uint32_t d = 0; d < o->space; d++) {
        const int64_t n = x->dim[2 + d], out = plim__ceil_div(n, o->conv.stride[d]);
        const int64_t border = o->same ? plim__max((out - 1) * o->conv.stride[d] + reach(o, d) - n, 0) : o->causal ? reach(o, d) - 1 : 0;
        o->conv.before[d] = o->causal ? border : border / 2;
        o->conv.after[d] = border - o->conv.before[d];
    }
}

/* [window..., a, b], from which [b, a, window...] is made */
static plim_status kernel_param(plim__keras_call *c, const options *o, const char *name, const char *init, uint32_t slot, int64_t a, int64_t b,
                                uint32_t *v)
{
    plim_shape s = {.rank = o->space + 2};
    for (uint32_t d = 0; d < o->space; d++) s.dim[d] = o->kernel[d];
    s.dim[o->space] = a;
    s.dim[o->space + 1] = b;
    return plim__keras_param(c, &(plim__keras_spec){.name = name, .init = init, .otherwise = "glorot_uniform", .slot = slot}, &s, v);
}

static plim_status kernel_turn(plim__keras_call *c, uint32_t space, uint32_t kernel, uint32_t *v)
{
    uint32_t perm[5] = {space + 1, space};
    for (uint32_t d = 0; d < space; d++) perm[2 + d] = d;
    return plim__op_transpose(c->k->graph, kernel, perm, v, c->err);
}

/* Bias and activation. */
static plim_status finish(plim__keras_call *c, const options *o, uint32_t slot, uint32_t v)
{
    bool use_bias;
    uint32_t bias;
    PLIM_TRY(plim__keras_flag(c, "use_bias", true, &use_bias));
    if (use_bias) {
        const plim_shape s = {1, {c->k->graph->value[v].shape.dim[1]}};
        PLIM_TRY(
            plim__keras_param(c, &(plim__keras_spec){.name = "bias", .init = "bias_initializer", .otherwise = "zeros", .slot = slot}, &s, &bias));
        PLIM_TRY(plim__keras_add_along(c, v, bias, 1, &v));
    }
    c->out = plim__keras_from_image(v, o->first);
    return plim__keras_activate(c, "activation", &c->out);
}

static plim_status read_filters(plim__keras_call *c, int64_t *filters)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, c->config, "filters", c->err));
    PLIM_TRY(plim__json_integer(filters, &j, c->err));
    PLIM_FAIL_IF(*filters < 1 || *filters > INT32_MAX, c->err, PLIM_E_FORMAT, "%lld filters", (long long)*filters);
    return PLIM_OK;
}

/* What every convolution begins with. @param filters  NULL: it has none of its own */
static plim_status begin(plim__keras_call *c, options *o, int64_t *filters, uint32_t *x)
{
    PLIM_TRY(read_options(c, o));
    if (filters) PLIM_TRY(read_filters(c, filters));
    return plim__keras_image(c, o->space, &o->first, x);
}

plim_status plim__keras_conv(plim__keras_call *c)
{
    options o;
    int64_t filters;
    uint32_t x, w, v;
    PLIM_TRY(begin(c, &o, &filters, &x));
    const plim_shape s = c->k->graph->value[x].shape;
    PLIM_FAIL_IF(o.conv.groups < 1 || s.dim[1] % o.conv.groups != 0 || filters % o.conv.groups != 0, c->err, PLIM_E_SHAPE,
                 "%lld groups do not divide %lld channels and %lld filters", (long long)o.conv.groups, (long long)s.dim[1], (long long)filters);
    set_border(&o, &s);
    PLIM_TRY(kernel_param(c, &o, "kernel", "kernel_initializer", 0, s.dim[1] / o.conv.groups, filters, &w));
    PLIM_TRY(kernel_turn(c, o.space, w, &w));
    PLIM_TRY(plim__op_conv(c->k->graph, x, w, &o.conv, &v, c->err));
    return finish(c, &o, 1, v);
}

/* One group per channel. The kernel [window..., in, times] is [window..., 1, in * times] to the row: outputs of a channel are neighbours. */
static plim_status depthwise(plim__keras_call *c, options *o, uint32_t x, const char *name, uint32_t *v)
{
    plim_graph *g = c->k->graph;
    int64_t times;
    uint32_t w;
    const plim_shape s = g->value[x].shape;
    PLIM_TRY(plim__json_get_integer(&times, c->config, "depth_multiplier", 1, c->err));
    PLIM_FAIL_IF(times < 1 || times > PLIM__KERAS_SIZE || s.dim[1] < 1 || s.dim[1] > INT32_MAX, c->err, PLIM_E_SHAPE,
                 "a depth multiplier of %lld for %lld channels", (long long)times, (long long)s.dim[1]);
    set_border(o, &s);
    PLIM_TRY(kernel_param(c, o, name, "depthwise_initializer", 0, s.dim[1], times, &w));
    plim_shape as = g->value[w].shape;
    as.dim[o->space] = 1;
    as.dim[o->space + 1] = s.dim[1] * times;
    PLIM_TRY(plim__op_reshape(g, w, &as, &w, c->err));
    PLIM_TRY(kernel_turn(c, o->space, w, &w));
    o->conv.groups = s.dim[1];
    return plim__op_conv(g, x, w, &o->conv, v, c->err);
}

plim_status plim__keras_conv_depthwise(plim__keras_call *c)
{
    options o;
    uint32_t x, v;
    PLIM_TRY(begin(c, &o, NULL, &x));
    PLIM_TRY(depthwise(c, &o, x, "depthwise_kernel", &v));
    return finish(c, &o, 1, v);
}

plim_status plim__keras_conv_separable(plim__keras_call *c)
{
    options o;
    int64_t filters;
    uint32_t x, w, v;
    PLIM_TRY(begin(c, &o, &filters, &x));
    PLIM_TRY(depthwise(c, &o, x, "depthwise_kernel", &v));
    options point = {.space = o.space, .kernel = {1, 1, 1}, .conv = {.space = o.space, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1}};
    PLIM_TRY(kernel_param(c, &point, "pointwise_kernel", "pointwise_initializer", 1, c->k->graph->value[v].shape.dim[1], filters, &w));
    PLIM_TRY(kernel_turn(c, o.space, w, &w));
    PLIM_TRY(plim__op_conv(c->k->graph, v, w, &point.conv, &v, c->err));
    return finish(c, &o, 2, v);
}

/* The extents that a convolution would have had as its input. */
static plim_status transposed_shape(plim__keras_call *c, options *o, const plim_shape *x, int64_t filters, plim_shape *out)
{
    int64_t extra[3];
    plim__json j;
    const bool given = plim__json_find(&j, c->config, "output_padding");
    PLIM_TRY(plim__keras_sizes(c, "output_padding", o->space, 0, 0, extra));
    *out = (plim_shape){.rank = x->rank, .dim = {x->dim[0], filters}};
    for (uint32_t d = 0; d < o->space; d++) {
        const int64_t n = x->dim[2 + d], stride = o->conv.stride[d], k = reach(o, d);
        PLIM_FAIL_IF(n < 1 || n > INT32_MAX, c->err, PLIM_E_SHAPE, "an extent of %lld", (long long)n);
        const int64_t tight = (n - 1) * stride, full = tight + (o->same ? k % 2 : k) + extra[d];
        out->dim[2 + d] = given ? full : o->same ? n * stride : tight + plim__max(k, stride);
        const int64_t border = o->same ? plim__max(tight + k - out->dim[2 + d], 0) : 0;
        o->conv.before[d] = border / 2;
        o->conv.after[d] = border - border / 2;
    }
    return PLIM_OK;
}

/* The gradient of a convolution with respect to its input; the kernel is [window..., out, in]. */
plim_status plim__keras_conv_transpose(plim__keras_call *c)
{
    options o;
    int64_t filters;
    uint32_t x, w, v;
    plim_shape out;
    PLIM_TRY(begin(c, &o, &filters, &x));
    PLIM_FAIL_IF(o.causal || o.conv.groups != 1, c->err, PLIM_E_UNSUPPORTED, "causal padding and groups are not supported here");
    const plim_shape s = c->k->graph->value[x].shape;
    PLIM_TRY(transposed_shape(c, &o, &s, filters, &out));
    PLIM_TRY(kernel_param(c, &o, "kernel", "kernel_initializer", 0, filters, s.dim[1], &w));
    PLIM_TRY(kernel_turn(c, o.space, w, &w));
    PLIM_TRY(plim__op_conv_data(c->k->graph, x, w, &o.conv, &out, &v, c->err));
    return finish(c, &o, 1, v);
}
