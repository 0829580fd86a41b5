/* Pooling and its gradient. Every axis is parallel: axis d is dimension d of what is made. A mean's gradient has dy for its only input, so that
 * x and y need not be kept for it; for the largest element all three are read.
 *
 * Attributes: kind a set of plim__pool's flags; i as in ops/spatial.h. */
#include "core/dtype.h"
#include "kernels/pool.h"
#include "ops/ops.h"
#include "ops/reducing.h"
#include "ops/spatial.h"

#include <string.h>

enum { POOL_AVERAGE = 1, POOL_COUNT_BORDER = 2, POOL_ROUND_UP = 4 };

static bool averages(const plim__node *n) { return n->attr.kind & POOL_AVERAGE; }

static plim__pooling pooling_of(const plim_graph *g, const plim__node *n)
{
    const bool back = n->op == PLIM__OP_POOLING_BACK;
    const plim_shape *x = back ? &plim__out(g, n, 0)->shape : &plim__in(g, n, 0)->shape;
    const plim_shape *y = back ? &plim__in(g, n, n->n_in - 1)->shape : &plim__out(g, n, 0)->shape;
    return (plim__pooling){.window = plim__spatial_windows(&n->attr, n->attr.i + PLIM__SPATIAL_SIZE, x, y), .average = averages(n),
                           .count_border = n->attr.kind & POOL_COUNT_BORDER};
}

/* Which y pooling makes of x. A window that lies in the border alone would have nothing to give. */
static plim_status check(const plim__node *n, const char *what, const plim_shape *x, plim_dtype dtype, plim_shape *y, plim_error *err)
{
    PLIM_FAIL_IF(dtype != PLIM_F32 && dtype != PLIM_F64, err, PLIM_E_TYPE, "%s: an input of %s, not f32 or f64", what, plim_dtype_name(dtype));
    const int64_t *size = n->attr.i + PLIM__SPATIAL_SIZE;
    PLIM_TRY(plim__spatial_check(&n->attr, what, x, size, n->attr.kind & POOL_ROUND_UP, y, err));
    for (uint32_t d = 0; d < plim__spatial_space(&n->attr); d++) {
        const int64_t before = n->attr.i[PLIM__SPATIAL_BEFORE + d], after = n->attr.i[PLIM__SPATIAL_AFTER + d];
        const int64_t span = n->attr.i[PLIM__SPATIAL_DILATION + d] * (size[d] - 1) + 1;
        PLIM_FAIL_IF(before < 0 || after < 0 || before >= span || after >= span, err, PLIM_E_INVALID,
                     "%s: a border of %lld and %lld elements in dimension %u of space, whose windows reach over %lld", what, (long long)before,
                         (long long)after, d,
                     (long long)span);
    }
    memcpy(y->dim, x->dim, 2 * sizeof *y->dim);
    return PLIM_OK;
}

static void pool_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    *axes = (plim__axes){0};
    plim__axes_parallel(axes, &plim__out(g, n, 0)->shape);
}

/* -------------------------------------------------------------------------------------------------- forward */

static plim_status pool_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    PLIM_TRY(check(n, "pool", &x->shape, x->dtype, &type[0].shape, err));
    type[0].dtype = x->dtype;
    n->n_out = 1;
    return PLIM_OK;
}

static void pool_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim__pooling p = pooling_of(g, n);
    const uint32_t rank = plim__in(g, n, k)->shape.rank, front = PLIM__SPACE + 2 - rank;
    plim__reads_same(2, index);
    for (uint32_t d = 2; d < rank; d++) index[d] = plim__spatial_seen(&p.window, front + d - 2, d);
}

static void pool_run(const plim__call *c)
{
    const plim__pooling p = pooling_of(c->graph, c->node);
    const plim__view y = plim__spatial_view(&c->out[0]), x = plim__spatial_view(&c->in[0]);
    plim__pool_run(&p, &y, &x);
}

static plim__work pool_work(const plim_graph *g, const plim__node *n)
{
    const plim__pooling p = pooling_of(g, n);
    return (plim__work){PLIM_KERNEL_POOL, (double)plim__sliding_count(&p.window)};
}

static plim_status pool_grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (d->dout[0] == PLIM__NONE || !d->want[0]) return PLIM_OK;
    const plim_shape x = d->graph->value[n.in[0]].shape;
    plim__attr attr = n.attr;
    PLIM_TRY(plim__spatial_shape_put(&attr, "pool_back", &x, d->err));
    const uint32_t in[3] = {n.in[0], n.out[0], d->dout[0]};
    const uint32_t skip = averages(&n) ? 2 : 0;
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(d->graph, PLIM__OP_POOLING_BACK, in + skip, 3 - skip, &attr, made, d->err));
    d->din[0] = made[0];
    return PLIM_OK;
}

const plim__op_row plim__row_pool = {
    .name = "pool", .infer = pool_infer, .axes = pool_axes, .reads = pool_reads, .run = pool_run, .work = pool_work, .grad = pool_grad,
};

/* ------------------------------------------------------------------------------------------------- backward */

static plim_status back_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const uint32_t n_in = averages(n) ? 1 : 3;
    PLIM_FAIL_IF(n->n_in != n_in, err, PLIM_E_INVALID, "pool_back: %u inputs, not %u", n->n_in, n_in);
    const plim__value *dy = plim__in(g, n, n_in - 1);
    const plim_shape x = plim__spatial_shape_get(&n->attr);
    plim_shape y = {0};
    PLIM_TRY(check(n, "pool_back", &x, dy->dtype, &y, err));
    for (uint32_t k = 0; k < n_in; k++) {
        static const char *const name[3] = {"the input", "the output", "the output's gradient"};
        const plim__value *v = plim__in(g, n, k);
        const char *which = name[n_in == 1 ? 2 : k];
        const plim_shape *want = n_in == 3 && k == 0 ? &x : &y;
        char has[160], should[160];
        plim_shape_format(has, sizeof has, &v->shape);
        plim_shape_format(should, sizeof should, want);
        PLIM_FAIL_IF(v->dtype != dy->dtype, err, PLIM_E_TYPE, "pool_back: %s is of %s, the output's gradient of %s", which, plim_dtype_name(v->dtype),
                     plim_dtype_name(dy->dtype));
        PLIM_FAIL_IF(!plim__shape_equal(&v->shape, want), err, PLIM_E_SHAPE, "pool_back: %s has the shape %s, not %s", which, has, should);
    }
    type[0] = (plim__type){dy->dtype, x};
    n->n_out = 1;
    return PLIM_OK;
}

static void back_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim__pooling p = pooling_of(g, n);
    const uint32_t rank = plim__in(g, n, k)->shape.rank, front = PLIM__SPACE + 2 - rank;
    const bool input = n->n_in == 3 && k == 0;
    plim__reads_same(2, index);
    for (uint32_t d = 2; d < rank; d++)
        index[d] = input ? plim__spatial_around(&p.window, front + d - 2, d) : plim__spatial_seeing(&p.window, front + d - 2, d);
}

static void back_run(const plim__call *c)
{
    const plim__pooling p = pooling_of(c->graph, c->node);
    const plim__view dx = plim__spatial_view(&c->out[0]), dy = plim__spatial_view(&c->in[c->node->n_in - 1]);
    if (p.average) {
        plim__pool_back(&p, &dx, NULL, NULL, &dy);
        return;
    }
    const plim__view x = plim__spatial_view(&c->in[0]), y = plim__spatial_view(&c->in[1]);
    plim__pool_back(&p, &dx, &x, &y, &dy);
}

/* Windows that an element lies in; at least one is looked for. */
static plim__work back_work(const plim_graph *g, const plim__node *n)
{
    const plim__pooling p = pooling_of(g, n);
    double windows = (double)plim__sliding_count(&p.window);
    for (uint32_t d = 0; d < PLIM__SPACE; d++) windows /= (double)p.window.stride[d];
    return (plim__work){PLIM_KERNEL_POOL_BACK, windows > 1 ? windows : 1};
}

const plim__op_row plim__row_pool_back = {
    .name = "pool_back", .infer = back_infer, .axes = pool_axes, .reads = back_reads, .run = back_run, .work = back_work,
};

/* --------------------------------------------------------------------------------------------- constructors */

static plim_status attr_of(plim__attr *a, const char *what, const plim__pool *p, plim_error *err)
{
    *a = (plim__attr){.kind = p->round_up ? POOL_ROUND_UP : 0};
    if (p->average) a->kind |= POOL_AVERAGE | (p->count_border ? POOL_COUNT_BORDER : 0);
    PLIM_TRY(plim__spatial_attr(a, what, p->space, p->stride, p->dilation, p->before, p->after, err));
    memcpy(a->i + PLIM__SPATIAL_SIZE, p->size, p->space * sizeof *p->size);
    return PLIM_OK;
}

plim_status plim__op_pool(plim_graph *g, uint32_t x, const plim__pool *pool, uint32_t *v, plim_error *err)
{
    plim__attr attr;
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(attr_of(&attr, "pool", pool, err));
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_POOLING, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

plim_status plim__op_pool_back(plim_graph *g, uint32_t x, uint32_t y, uint32_t dy, const plim__pool *pool, uint32_t *v, plim_error *err)
{
    plim__attr attr;
    const uint32_t in[3] = {x, y, dy}, skip = pool->average ? 2 : 0;
    uint32_t made[PLIM__MAX_OUT];
    PLIM_FAIL_IF(x >= g->n_values, err, PLIM_E_INVALID, "pool_back: the input is not a value of this graph");
    PLIM_TRY(attr_of(&attr, "pool_back", pool, err));
    PLIM_TRY(plim__spatial_shape_put(&attr, "pool_back", &g->value[x].shape, err));
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_POOLING_BACK, in + skip, 3 - skip, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
