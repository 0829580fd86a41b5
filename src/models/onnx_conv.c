/* Lowering: operators over windows in space, x [N, C, space...] with one to three dimensions of space. */
#include "core/dtype.h"
#include "core/size.h"
#include "models/onnx.h"

#include <string.h>

#define EXTENT_MAX (INT64_C(1) << 40) /* of a dimension or a window here: sums and products of a few of them do not overflow */

/* What the attributes of convolutions and pools have in common. */
typedef struct window {
    uint32_t space;
    int64_t in[3], size[3], stride[3], dilation[3], before[3], after[3];
} window;

/* A list of `space` numbers of at least `least`, or `otherwise` for each. */
static plim_status spatial(plim__onnx_call *c, const char *name, uint32_t space, int64_t least, int64_t otherwise, int64_t out[3], plim_error *err)
{
    uint32_t n;
    for (uint32_t d = 0; d < space; d++) out[d] = otherwise;
    PLIM_TRY(plim__onnx_ints(c, name, out, 3, &n, err));
    PLIM_FAIL_IF(n != 0 && n != space, err, PLIM_E_FORMAT, "attribute %s has %u numbers for %u dimensions of space", name, n, space);
    for (uint32_t d = 0; d < space; d++)
        PLIM_FAIL_IF(out[d] < least || out[d] > EXTENT_MAX, err, PLIM_E_FORMAT, "attribute %s has %lld", name, (long long)out[d]);
    return PLIM_OK;
}

/* Space, strides, dilations; the windows' sizes are `otherwise` where no attribute says them. */
static plim_status window_of(plim__onnx_call *c, const plim_shape *x, const int64_t *otherwise, window *w, plim_error *err)
{
    PLIM_FAIL_IF(x->rank < 3 || x->rank > 5, err, PLIM_E_UNSUPPORTED,
                 "an input of %u dimensions; samples, channels and one to three of space are supported", x->rank);
    w->space = x->rank - 2;
    for (uint32_t d = 0; d < x->rank; d++) PLIM_FAIL_IF(x->dim[d] > EXTENT_MAX, err, PLIM_E_UNSUPPORTED, "dimension %u is too long", d);
    for (uint32_t d = 0; d < w->space; d++) w->in[d] = x->dim[2 + d];
    PLIM_TRY(spatial(c, "strides", w->space, 1, 1, w->stride, err));
    PLIM_TRY(spatial(c, "dilations", w->space, 1, 1, w->dilation, err));
    PLIM_TRY(spatial(c, "kernel_shape", w->space, 1, 1, w->size, err));
    const bool said = plim__onnx_attr_of(c, "kernel_shape") != NULL;
    PLIM_FAIL_IF(!said && !otherwise, err, PLIM_E_FORMAT, "no kernel_shape");
    for (uint32_t d = 0; d < w->space; d++) {
        PLIM_FAIL_IF(said && otherwise && w->size[d] != otherwise[d], err, PLIM_E_SHAPE, "kernel_shape has %lld where the weights have %lld",
                     (long long)w->size[d], (long long)otherwise[d]);
        if (otherwise) w->size[d] = otherwise[d];
        PLIM_FAIL_IF(w->size[d] < 1 || w->size[d] > INT32_MAX || w->dilation[d] > INT32_MAX, err, PLIM_E_UNSUPPORTED,
                     "a window of %lld, dilated by %lld", (long long)w->size[d], (long long)w->dilation[d]);
    }
    return PLIM_OK;
}

static int64_t reach(const window *w, uint32_t d) { return (w->size[d] - 1) * w->dilation[d] + 1; }

/* Explicit pads; negative ones are for gradients only. */
static plim_status explicit_pads(plim__onnx_call *c, window *w, plim_error *err)
{
    int64_t pads[6] = {0};
    uint32_t n;
    PLIM_TRY(plim__onnx_ints(c, "pads", pads, 6, &n, err));
    PLIM_FAIL_IF(n != 0 && n != 2 * w->space, err, PLIM_E_FORMAT, "attribute pads has %u numbers for %u dimensions of space", n, w->space);
    for (uint32_t d = 0; d < w->space; d++) {
        w->before[d] = n ? pads[d] : 0;
        w->after[d] = n ? pads[w->space + d] : 0;
        PLIM_FAIL_IF(w->before[d] < 0 || w->after[d] < 0 || w->before[d] > EXTENT_MAX || w->after[d] > EXTENT_MAX, err, PLIM_E_UNSUPPORTED,
                     "attribute pads has %lld and %lld", (long long)w->before[d], (long long)w->after[d]);
    }
    return PLIM_OK;
}

/* SAME: the output has ceil(in / stride) elements; the odd one of the pads goes behind (UPPER) or before (LOWER). */
static void same_pads(window *w, bool upper)
{
    for (uint32_t d = 0; d < w->space; d++) {
        const int64_t out = plim__ceil_div(w->in[d], w->stride[d]);
        const int64_t total = plim__max((out - 1) * w->stride[d] + reach(w, d) - w->in[d], 0);
        w->before[d] = upper ? total / 2 : total - total / 2;
        w->after[d] = total - w->before[d];
    }
}

static plim_status pads_of(plim__onnx_call *c, window *w, plim_error *err)
{
    const char *how = plim__onnx_text(c, "auto_pad", "NOTSET");
    if (!strcmp(how, "NOTSET") || how[0] == 0) return explicit_pads(c, w, err);
    for (uint32_t d = 0; d < w->space; d++) w->before[d] = w->after[d] = 0;
    if (!strcmp(how, "VALID")) return PLIM_OK;
    if (strcmp(how, "SAME_UPPER") != 0 && strcmp(how, "SAME_LOWER") != 0) return plim__onnx_refuse(c, "auto_pad", err);
    same_pads(w, how[5] == 'U');
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------------------- convolution */

static plim__conv conv_of(const window *w, int64_t groups)
{
    plim__conv conv = {.space = w->space, .groups = groups};
    for (uint32_t d = 0; d < w->space; d++) {
        conv.stride[d] = w->stride[d];
        conv.dilation[d] = w->dilation[d];
        conv.before[d] = w->before[d];
        conv.after[d] = w->after[d];
    }
    return conv;
}

static plim_status conv_window(plim__onnx_call *c, uint32_t x, uint32_t w, window *win, int64_t *groups, plim_error *err)
{
    const plim_shape sx = plim__onnx_shape(c, x), sw = plim__onnx_shape(c, w);
    PLIM_FAIL_IF(sw.rank != sx.rank, err, PLIM_E_SHAPE, "weights of %u dimensions for an input of %u", sw.rank, sx.rank);
    *groups = plim__onnx_int(c, "group", 1);
    PLIM_FAIL_IF(*groups < 1, err, PLIM_E_FORMAT, "attribute group = %lld", (long long)*groups);
    return window_of(c, &sx, sw.dim + 2, win, err);
}

static plim_status add_bias(plim__onnx_call *c, uint32_t v, plim_error *err)
{
    uint32_t bias;
    if (plim__onnx_has(c, 2)) {
        PLIM_TRY(plim__onnx_in_float(c, 2, &bias, err));
        PLIM_TRY(plim__onnx_per_channel(c, bias, plim__onnx_shape(c, v).rank, &bias, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, v, bias, &v, err));
    }
    return plim__onnx_out_like(c, 0, v, err);
}

plim_status plim__onnx_conv_of(plim__onnx_call *c, uint32_t x, uint32_t w, plim__conv *conv, plim_error *err)
{
    window win;
    int64_t groups = 1;
    PLIM_TRY(conv_window(c, x, w, &win, &groups, err));
    PLIM_TRY(pads_of(c, &win, err));
    *conv = conv_of(&win, groups);
    return PLIM_OK;
}

plim_status plim__onnx_lower_conv(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, w, v;
    plim__conv conv;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in_float(c, 1, &w, err));
    PLIM_TRY(plim__onnx_conv_of(c, x, w, &conv, err));
    PLIM_TRY(plim__op_conv(c->g, x, w, &conv, &v, err));
    return add_bias(c, v, err);
}

/* Extent of the output and the pads of each dimension, from whichever of output_shape, auto_pad and pads says them. */
static plim_status transpose_window(plim__onnx_call *c, window *w, int64_t out[3], plim_error *err)
{
    int64_t extra[3], shape[5];
    uint32_t n;
    const char *how = plim__onnx_text(c, "auto_pad", "NOTSET");
    const bool upper = !strcmp(how, "SAME_UPPER"), same = upper || !strcmp(how, "SAME_LOWER");
    if (!same && strcmp(how, "NOTSET") != 0 && strcmp(how, "VALID") != 0) return plim__onnx_refuse(c, "auto_pad", err);
    PLIM_TRY(spatial(c, "output_padding", w->space, 0, 0, extra, err));
    PLIM_TRY(plim__onnx_ints(c, "output_shape", shape, 5, &n, err));
    PLIM_FAIL_IF(n != 0 && n != w->space && n != w->space + 2, err, PLIM_E_FORMAT, "attribute output_shape has %u numbers", n);
    PLIM_TRY(explicit_pads(c, w, err));
    for (uint32_t d = 0; d < w->space; d++) {
        PLIM_FAIL_IF(w->stride[d] > INT32_MAX || w->in[d] > INT32_MAX, err, PLIM_E_UNSUPPORTED, "an extent of %lld by strides of %lld",
                     (long long)w->in[d], (long long)w->stride[d]);
        const int64_t full = w->stride[d] * (w->in[d] - 1) + extra[d] + reach(w, d);
        out[d] = full - w->before[d] - w->after[d];
        if (n == 0 && !same) continue;
        out[d] = n ? shape[n - w->space + d] : w->in[d] * w->stride[d];
        PLIM_FAIL_IF(out[d] < 0 || out[d] > EXTENT_MAX, err, PLIM_E_FORMAT, "an output of %lld elements", (long long)out[d]);
        const int64_t total = full - out[d]; /* below 0: zeros that no window reaches, all of them behind */
        w->before[d] = total < 0 ? 0 : upper ? total / 2 : total - total / 2;
        w->after[d] = total - w->before[d];
    }
    return PLIM_OK;
}

/* The gradient of a convolution with respect to its input, w [C, O/groups, kernel...]. */
plim_status plim__onnx_lower_conv_transpose(plim__onnx_call *c, plim_error *err)
{
    window win;
    uint32_t x, w, v;
    int64_t groups = 1, out[3];
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in_float(c, 1, &w, err));
    PLIM_TRY(conv_window(c, x, w, &win, &groups, err));
    PLIM_TRY(transpose_window(c, &win, out, err));
    const plim_shape sx = plim__onnx_shape(c, x), sw = plim__onnx_shape(c, w);
    plim_shape to = {.rank = sx.rank, .dim = {sx.dim[0]}};
    PLIM_FAIL_IF(__builtin_mul_overflow(sw.dim[1], groups, &to.dim[1]), err, PLIM_E_OVERFLOW, "too many channels");
    for (uint32_t d = 0; d < win.space; d++) to.dim[2 + d] = out[d];
    const plim__conv conv = conv_of(&win, groups);
    PLIM_TRY(plim__op_conv_data(c->g, x, w, &conv, &to, &v, err));
    return add_bias(c, v, err);
}

/* --------------------------------------------------------------------------------------------------------------- pools */

plim_status plim__onnx_lower_pool(plim__onnx_call *c, plim_error *err)
{
    window win;
    uint32_t x, v;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    const plim_dtype t = plim__onnx_type(c, x);
    PLIM_TRY(window_of(c, &s, NULL, &win, err));
    PLIM_TRY(pads_of(c, &win, err));
    plim__pool pool = {.average = c->arg, .count_border = plim__onnx_int(c, "count_include_pad", 0), .space = win.space,
                       .round_up = plim__onnx_int(c, "ceil_mode", 0)};
    for (uint32_t d = 0; d < win.space; d++) {
        pool.size[d] = win.size[d];
        pool.stride[d] = win.stride[d];
        pool.dilation[d] = win.dilation[d];
        pool.before[d] = win.before[d];
        pool.after[d] = win.after[d];
    }
    const bool narrow = t == PLIM_U8 || t == PLIM_I8 || t == PLIM_F16 || t == PLIM_BF16; /* exact in f32 */
    if (narrow) PLIM_TRY(plim__op_cast(c->g, x, PLIM_F32, &x, err));
    PLIM_TRY(plim__op_pool(c->g, x, &pool, &v, err));
    return plim__op_cast(c->g, v, t, &c->out[0], err);
}

plim_status plim__onnx_lower_global_pool(plim__onnx_call *c, plim_error *err)
{
    uint32_t x;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_FAIL_IF(s.rank < 3, err, PLIM_E_SHAPE, "an input of %u dimensions has none of space", s.rank);
    const uint32_t mask = ((1u << s.rank) - 1) & ~3u;
    if (c->arg) return plim__onnx_sum(c, x, mask, true, true, &c->out[0], err);
    return plim__op_reduce(c->g, PLIM__REDUCE_MAX, x, mask, true, plim__onnx_type(c, x), &c->out[0], err);
}

plim_status plim__onnx_lower_lrn(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, v;
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_TRY(plim__op_lrn(c->g, x, plim__onnx_int(c, "size", 0), plim__onnx_float(c, "alpha", 1e-4), plim__onnx_float(c, "beta", 0.75),
                          plim__onnx_float(c, "bias", 1), &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}
