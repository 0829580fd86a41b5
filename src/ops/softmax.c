/* softmax and its gradient. The dimension is WHOLE, the others are parallel.
 *
 * Attributes: kind 1 the logarithm, mask the one dimension, i[0] the dimension. */
#include "kernels/softmax.h"
#include "ops/checks.h"
#include "ops/reducing.h"

static const char *name_of(const plim__node *n) { return n->attr.kind ? "log softmax" : "softmax"; }

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    PLIM_TRY(plim__check_float(x, name_of(n), err));
    PLIM_TRY(plim__check_axis(&x->shape, n->attr.i[0], name_of(n), err));
    if (n->op == PLIM__OP_SOFTMAX_BACK) PLIM_TRY(plim__check_alike(x, plim__in(g, n, 1), "the gradient of softmax", err));
    type[0] = (plim__type){x->dtype, x->shape};
    n->n_out = 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a)
{
    plim__axes_reduce(a, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__WHOLE);
    plim__axes_reduce_out(a, 0, 0, 0, false);
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
}

static void run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0);
    plim__softmax_run(&c->out[0], &in, (uint32_t)c->node->attr.i[0], c->node->attr.kind);
}

/* exp, and four passes over what is in the cache; the logarithm takes one more. */
/* An exponential, a maximum, a sum and a division. */
static plim__work work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_FUNCTION, 1.7 * (plim__in(g, n, 0)->dtype == PLIM_F64 ? 2 : 1)};
}

static plim_status grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (!d->want[0] || d->dout[0] == PLIM__NONE) return PLIM_OK;
    return plim__op_softmax_back(d->graph, n.out[0], d->dout[0], (uint32_t)n.attr.i[0], n.attr.kind, &d->din[0], d->err);
}

const plim__op_row plim__row_softmax = {
    .name = "softmax", .infer = infer, .axes = axes, .reads = reads, .run = run, .work = work, .grad = grad,
};

static plim_status apply(plim_graph *g, uint32_t op, const uint32_t *in, uint32_t n_in, uint32_t axis, bool log, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(axis >= PLIM_MAX_RANK, err, PLIM_E_SHAPE, "softmax: dimension %u", axis);
    const plim__attr attr = {.kind = log, .mask = 1u << axis, .i = {axis}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, op, in, n_in, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

plim_status plim__op_softmax(plim_graph *g, uint32_t x, uint32_t axis, bool log, uint32_t *v, plim_error *err)
{
    return apply(g, PLIM__OP_SOFTMAX, &x, 1, axis, log, v, err);
}

/* ------------------------------------------------------------------------------------------ the gradient */

static void back_run(const plim__call *c)
{
    const plim__view y = plim__call_in(c, 0), dy = plim__call_in(c, 1);
    plim__softmax_back_run(&c->out[0], &y, &dy, (uint32_t)c->node->attr.i[0], c->node->attr.kind);
}

/* An exponential again where its logarithm was taken; else a sum and a product. */
static plim__work back_work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_FUNCTION, (n->attr.kind ? 1.4 : 0.5) * (plim__in(g, n, 0)->dtype == PLIM_F64 ? 2 : 1)};
}

const plim__op_row plim__row_softmax_back = {
    .name = "softmax_back", .infer = infer, .axes = axes, .reads = reads, .run = back_run, .work = back_work,
};

plim_status plim__op_softmax_back(plim_graph *g, uint32_t y, uint32_t dy, uint32_t axis, bool log, uint32_t *v, plim_error *err)
{
    const uint32_t in[2] = {y, dy};
    return apply(g, PLIM__OP_SOFTMAX_BACK, in, 2, axis, log, v, err);
}
