/* Convolution as layers have it (correlation), and its gradients. Three values take part, x [N, C, space...], w [O, C/groups, kernel...] and
 * y [N, O, space...]; each row makes one of them from the other two, and each gradient of a row is another row:
 *
 *     row            inputs   makes   axes
 *     conv           x, w     y       n, o, windows,  sum over c
 *     conv_data      y, w     x       n, c, space,    sum over o
 *     conv_weights   x, y     w       o, c,           sum over n and windows
 *
 * With groups the channels and outputs belong together in a way that no index expression says: what is summed is read whole, and the other cannot be
 * cut. Kernels are always whole. `run` adds to what the output holds. Attributes: see ops/spatial.h. */
#include "core/dtype.h"
#include "kernels/conv.h"
#include "kernels/reduce.h"
#include "ops/ops.h"
#include "ops/reducing.h"
#include "ops/spatial.h"

typedef enum part { PART_X, PART_Y, PART_W } part;

/* Which of the three each input is, and which is made. */
typedef struct role {
    part in[2], out;
    plim__conv_into into;
} role;

static role role_of(const plim__node *n)
{
    if (n->op == PLIM__OP_CONV) return (role){{PART_X, PART_W}, PART_Y, PLIM__CONV_Y};
    if (n->op == PLIM__OP_CONV_DATA) return (role){{PART_Y, PART_W}, PART_X, PLIM__CONV_X};
    return (role){{PART_X, PART_Y}, PART_W, PLIM__CONV_W};
}

static bool grouped(const plim__node *n) { return n->attr.i[PLIM__SPATIAL_GROUPS] > 1; }

static const plim_shape *shape_of(const plim_graph *g, const plim__node *n, part p)
{
    const role r = role_of(n);
    return r.out == p ? &plim__out(g, n, 0)->shape : &plim__in(g, n, r.in[0] == p ? 0 : 1)->shape;
}

static plim__filter filter_of(const plim_graph *g, const plim__node *n)
{
    const plim_shape *x = shape_of(g, n, PART_X), *y = shape_of(g, n, PART_Y), *w = shape_of(g, n, PART_W);
    const int64_t groups = n->attr.i[PLIM__SPATIAL_GROUPS];
    return (plim__filter){.window = plim__spatial_windows(&n->attr, w->dim + 2, x, y), .groups = groups, .channels = w->dim[1],
        .outputs = w->dim[0] / groups};
}

/* --------------------------------------------------------------------------------------------------- checks */

/* Do x and w fit each other; which y do they make. */
static plim_status check(const plim__node *n, const char *what, const plim_shape *x, const plim_shape *w, plim_shape *y, plim_error *err)
{
    const int64_t groups = n->attr.i[PLIM__SPATIAL_GROUPS];
    PLIM_FAIL_IF(w->rank != plim__spatial_space(&n->attr) + 2, err, PLIM_E_SHAPE, "%s: weights of rank %u with %u dimensions of space need rank %u",
                 what, w->rank,
                 plim__spatial_space(&n->attr), plim__spatial_space(&n->attr) + 2);
    PLIM_TRY(plim__spatial_check(&n->attr, what, x, w->dim + 2, false, y, err));
    PLIM_FAIL_IF(groups < 1 || x->dim[1] % groups != 0 || w->dim[0] % groups != 0, err, PLIM_E_SHAPE,
                 "%s: %lld channels and %lld outputs in %lld groups", what,
                 (long long)x->dim[1], (long long)w->dim[0], (long long)groups);
    PLIM_FAIL_IF(x->dim[1] / groups != w->dim[1], err, PLIM_E_SHAPE, "%s: weights for %lld channels, an input of %lld channels in %lld groups", what,
                 (long long)w->dim[1], (long long)x->dim[1], (long long)groups);
    y->dim[0] = x->dim[0];
    y->dim[1] = w->dim[0];
    return PLIM_OK;
}

static plim_status check_types(const plim_graph *g, const plim__node *n, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in != 2, err, PLIM_E_INVALID, "%s: %u inputs, not 2", what, n->n_in);
    const plim_dtype a = plim__in(g, n, 0)->dtype, b = plim__in(g, n, 1)->dtype;
    PLIM_FAIL_IF(a != b || (a != PLIM_F32 && a != PLIM_F64), err, PLIM_E_TYPE, "%s: operands of %s and %s, not both f32 or both f64", what,
                 plim_dtype_name(a), plim_dtype_name(b));
    return PLIM_OK;
}

/* The gradient that came in must have the shape that conv gives. */
static plim_status check_gradient(const plim_shape *dy, const plim_shape *y, const char *what, plim_error *err)
{
    char have[160], want[160];
    plim_shape_format(have, sizeof have, dy);
    plim_shape_format(want, sizeof want, y);
    PLIM_FAIL_IF(!plim__shape_equal(dy, y), err, PLIM_E_SHAPE, "%s: an output's gradient of shape %s where the convolution gives %s", what, have,
                 want);
    return PLIM_OK;
}

static plim_status conv_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    PLIM_TRY(check_types(g, n, "conv", err));
    PLIM_TRY(check(n, "conv", &plim__in(g, n, 0)->shape, &plim__in(g, n, 1)->shape, &type[0].shape, err));
    type[0].dtype = plim__in(g, n, 0)->dtype;
    n->n_out = 1;
    return PLIM_OK;
}

static plim_status data_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    PLIM_TRY(check_types(g, n, "conv_data", err));
    const plim_shape x = plim__spatial_shape_get(&n->attr);
    plim_shape y = {0};
    PLIM_TRY(check(n, "conv_data", &x, &plim__in(g, n, 1)->shape, &y, err));
    PLIM_TRY(check_gradient(&plim__in(g, n, 0)->shape, &y, "conv_data", err));
    type[0] = (plim__type){plim__in(g, n, 0)->dtype, x};
    n->n_out = 1;
    return PLIM_OK;
}

static plim_status weights_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    PLIM_TRY(check_types(g, n, "conv_weights", err));
    const plim_shape w = plim__spatial_shape_get(&n->attr);
    plim_shape y = {0};
    PLIM_TRY(check(n, "conv_weights", &plim__in(g, n, 0)->shape, &w, &y, err));
    PLIM_TRY(check_gradient(&plim__in(g, n, 1)->shape, &y, "conv_weights", err));
    type[0] = (plim__type){plim__in(g, n, 0)->dtype, w};
    n->n_out = 1;
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------- axes */

/* The axes' numbers; -1: there is none. Space is that of what is made, of y for the weights. */
typedef struct nest {
    int32_t n, c, o, space;
} nest;

static nest nest_of(const plim__node *n)
{
    const int32_t space = (int32_t)plim__spatial_space(&n->attr);
    const bool together = grouped(n);
    switch (role_of(n).into) {
    case PLIM__CONV_Y: return (nest){.n = 0, .o = 1, .space = 2, .c = together ? -1 : 2 + space};
    case PLIM__CONV_X: return (nest){.n = 0, .c = 1, .space = 2, .o = together ? -1 : 2 + space};
    default: return (nest){.o = 0, .c = together ? -1 : 1, .n = together ? 1 : 2, .space = together ? 2 : 3};
    }
}

static void conv_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    const plim_shape *x = shape_of(g, n, PART_X), *y = shape_of(g, n, PART_Y);
    const plim__conv_into into = role_of(n).into;
    const nest at = nest_of(n);
    const uint32_t space = plim__spatial_space(&n->attr);
    const plim__axis_kind sum_w = into == PLIM__CONV_W ? PLIM__SUM : PLIM__PARALLEL, kept = grouped(n) ? PLIM__WHOLE : PLIM__PARALLEL;
    *axes = (plim__axes){.n = 1 + space};
    axes->axis[at.n] = (plim__axis){x->dim[0], sum_w};
    for (uint32_t d = 0; d < space; d++) axes->axis[(uint32_t)at.space + d] = (plim__axis){into == PLIM__CONV_X ? x->dim[2 + d] : y->dim[2 + d],
        sum_w};
    if (at.o >= 0) axes->axis[at.o] = (plim__axis){y->dim[1], into == PLIM__CONV_X ? PLIM__SUM : kept};
    if (at.c >= 0) axes->axis[at.c] = (plim__axis){x->dim[1], into == PLIM__CONV_Y ? PLIM__SUM : kept};
    axes->n += (at.o >= 0) + (at.c >= 0);
    for (uint32_t d = 0; d < space; d++) axes->out[0][2 + d] = into == PLIM__CONV_W ? -1 : (int8_t)(at.space + (int32_t)d);
    axes->out[0][0] = (int8_t)(into == PLIM__CONV_W ? at.o : at.n);
    axes->out[0][1] = (int8_t)(into == PLIM__CONV_Y ? at.o : at.c);
}

static plim__index along(int32_t axis, int64_t extent) { return axis < 0 ? plim__index_fixed(0, extent) : plim__index_along((uint32_t)axis); }

static void conv_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const role r = role_of(n);
    const nest at = nest_of(n);
    const plim_shape *s = &plim__in(g, n, k)->shape;
    const plim__filter f = filter_of(g, n);
    const uint32_t space = s->rank - 2, front = PLIM__SPACE - space;
    const part p = r.in[k];
    index[0] = along(p == PART_W ? at.o : at.n, s->dim[0]);
    index[1] = along(p == PART_Y ? at.o : p == PART_W && grouped(n) ? -1 : at.c, s->dim[1]);
    for (uint32_t d = 0; d < space; d++) {
        const uint32_t axis = (uint32_t)at.space + d;
        if (p == PART_X) index[2 + d] = plim__spatial_seen(&f.window, front + d, axis);
        else if (p == PART_W) index[2 + d] = plim__index_fixed(0, s->dim[2 + d]);
        else index[2 + d] = r.into == PLIM__CONV_X ? plim__spatial_seeing(&f.window, front + d, axis) : plim__index_along(axis);
    }
}

/* ------------------------------------------------------------------------------------------------------ runs */

/* Windows of a part with these axis lengths, at most. */
static int64_t windows_of(const plim__filter *f, const plim__node *n, const int64_t *len)
{
    const nest at = nest_of(n);
    const uint32_t space = plim__spatial_space(&n->attr), front = PLIM__SPACE - space;
    uint64_t windows = 1;
    for (uint32_t d = 0; d < space; d++) {
        int64_t most = len[(uint32_t)at.space + d];
        if (role_of(n).into == PLIM__CONV_X) { /* the windows over so many elements */
            const plim__index seeing = plim__spatial_seeing(&f->window, front + d, 0);
            most = plim__min(plim__ceil_div(most, seeing.div) + seeing.window, f->window.out[front + d]);
        }
        if (!plim__mul(&windows, windows, (uint64_t)most) || windows > INT64_MAX) return INT64_MAX;
    }
    return (int64_t)windows;
}

static uint64_t conv_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    const plim__filter f = filter_of(g, n);
    const int32_t c = nest_of(n).c;
    return plim__conv_scratch(&f, plim__out(g, n, 0)->dtype, grouped(n) ? f.channels : len[c], windows_of(&f, n, len), threads);
}

static void conv_init(const plim__call *c) { plim__reduce_init(PLIM__FOLD_SUM, &c->out[0]); }

static void conv_merge(const plim__call *c) { plim__reduce_merge(PLIM__FOLD_SUM, &c->out[0], &c->in[0]); }

static void conv_run(const plim__call *c)
{
    const role r = role_of(c->node);
    const plim__filter f = filter_of(c->graph, c->node);
    plim__view v[3];
    for (uint32_t k = 0; k < 2; k++) {
        const plim__view in = plim__call_in(c, k);
        v[r.in[k]] = plim__spatial_view(&in);
    }
    v[r.out] = plim__spatial_view(&c->out[0]);
    plim__conv_run(&f, r.into, &v[PART_Y], &v[PART_X], &v[PART_W], c->scratch, c->threads);
}

/* A multiply-add per tap; matrix products do them, but loops over rows where there are few outputs. */
static plim__work conv_work(const plim_graph *g, const plim__node *n)
{
    const plim__filter f = filter_of(g, n);
    const double wide = plim__out(g, n, 0)->dtype == PLIM_F64 ? 2 : 1;
    plim__work w = {f.outputs < 4 ? PLIM_KERNEL_CONV_FEW : PLIM_KERNEL_CONV, 2 * wide * (double)plim__sliding_count(&f.window)};
    const bool into_x = role_of(n).into == PLIM__CONV_X;
    for (uint32_t d = 0; d < PLIM__SPACE && into_x; d++) w.amount /= (double)f.window.stride[d];
    if (grouped(n)) w.amount *= (double)(into_x ? f.outputs : f.channels);
    return w;
}

/* ------------------------------------------------------------------------------------------------- gradients */

/* The row that makes part `p` from the other two, given by part. */
static plim_status apply(plim_graph *g, part p, const uint32_t value[3], const plim__attr *like, const plim_shape *shape, uint32_t *v,
                         plim_error *err)
{
    static const uint32_t op[3] = {[PART_X] = PLIM__OP_CONV_DATA, [PART_Y] = PLIM__OP_CONV, [PART_W] = PLIM__OP_CONV_WEIGHTS};
    static const char *const name[3] = {[PART_X] = "conv_data", [PART_Y] = "conv", [PART_W] = "conv_weights"};
    const role r = role_of(&(plim__node){.op = op[p]});
    plim__attr attr = *like;
    for (uint32_t d = 0; d < PLIM__SPACE + 2; d++) attr.i[PLIM__SPATIAL_SHAPE + d] = 0;
    if (p != PART_Y) PLIM_TRY(plim__spatial_shape_put(&attr, name[p], shape, err));
    const uint32_t in[2] = {value[r.in[0]], value[r.in[1]]};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, op[p], in, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* The scalar depends on what is made linearly in each input: the gradient takes the place of what was made, and the input that of what is. */
static plim_status conv_grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    const role r = role_of(&n);
    if (d->dout[0] == PLIM__NONE) return PLIM_OK;
    uint32_t value[3];
    for (uint32_t k = 0; k < 2; k++) value[r.in[k]] = n.in[k];
    value[r.out] = d->dout[0];
    for (uint32_t k = 0; k < 2; k++) {
        if (!d->want[k]) continue;
        const plim_shape shape = d->graph->value[n.in[k]].shape;
        PLIM_TRY(apply(d->graph, r.in[k], value, &n.attr, &shape, &d->din[k], d->err));
    }
    return PLIM_OK;
}

#define CONV_ROW .flags = PLIM__OP_POOL, .axes = conv_axes, .reads = conv_reads, .scratch = conv_scratch, .init = conv_init, \
                 .run = conv_run, .merge = conv_merge, .work = conv_work, .grad = conv_grad

const plim__op_row plim__row_conv = {.name = "conv", .infer = conv_infer, CONV_ROW};
const plim__op_row plim__row_conv_data = {.name = "conv_data", .infer = data_infer, CONV_ROW};
const plim__op_row plim__row_conv_weights = {.name = "conv_weights", .infer = weights_infer, CONV_ROW};

/* ---------------------------------------------------------------------------------------------- constructors */

static plim_status attr_of(plim__attr *a, const char *what, const plim__conv *c, plim_error *err)
{
    *a = (plim__attr){0};
    a->i[PLIM__SPATIAL_GROUPS] = c->groups;
    return plim__spatial_attr(a, what, c->space, c->stride, c->dilation, c->before, c->after, err);
}

plim_status plim__op_conv(plim_graph *g, uint32_t x, uint32_t w, const plim__conv *conv, uint32_t *v, plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(attr_of(&attr, "conv", conv, err));
    return apply(g, PART_Y, (const uint32_t[3]){[PART_X] = x, [PART_W] = w}, &attr, NULL, v, err);
}

plim_status plim__op_conv_data(plim_graph *g, uint32_t dy, uint32_t w, const plim__conv *conv, const plim_shape *x_shape, uint32_t *v,
                               plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(attr_of(&attr, "conv_data", conv, err));
    return apply(g, PART_X, (const uint32_t[3]){[PART_Y] = dy, [PART_W] = w}, &attr, x_shape, v, err);
}

plim_status plim__op_conv_weights(plim_graph *g, uint32_t x, uint32_t dy, const plim__conv *conv, const plim_shape *w_shape, uint32_t *v,
                                  plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(attr_of(&attr, "conv_weights", conv, err));
    return apply(g, PART_W, (const uint32_t[3]){[PART_X] = x, [PART_Y] = dy}, &attr, w_shape, v, err);
}
