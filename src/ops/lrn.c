/* Local response normalisation, and its gradient. Axis d is dimension d; all are parallel. An element reads a window of channels (dimension 1), its
 * gradient the windows of the elements whose windows hold it.
 *
 * Attributes: i[0] the size, f[0...2] alpha, beta, bias. */
#include "kernels/lrn.h"
#include "core/size.h"
#include "ops/checks.h"
#include "ops/reducing.h"

#include <math.h>

static plim__lrn lrn_of(const plim_graph *g, const plim__node *n)
{
    return (plim__lrn){.size = n->attr.i[0], .channels = plim__in(g, n, 0)->shape.dim[1], .alpha = n->attr.f[0], .beta = n->attr.f[1],
                       .bias = n->attr.f[2]};
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    PLIM_TRY(plim__check_float(x, "lrn", err));
    PLIM_FAIL_IF(x->shape.rank < 2, err, PLIM_E_SHAPE, "lrn: an array of rank %u has no channels", x->shape.rank);
    PLIM_FAIL_IF(n->attr.i[0] < 1 || n->attr.i[0] > INT64_MAX / 4, err, PLIM_E_INVALID, "lrn: a window of %lld channels", (long long)n->attr.i[0]);
    for (int k = 0; k < 3; k++) PLIM_FAIL_IF(!isfinite(n->attr.f[k]), err, PLIM_E_INVALID, "lrn: alpha, beta and bias must be finite");
    if (n->op == PLIM__OP_LRN_BACK) PLIM_TRY(plim__check_alike(x, plim__in(g, n, 1), "the gradient of lrn", err));
    type[0] = (plim__type){x->dtype, x->shape};
    n->n_out = 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a) { plim__axes_parallel(a, &plim__in(g, n, 0)->shape); }

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim__lrn l = lrn_of(g, n);
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
    index[1].offset = -plim__lrn_down(&l);
    index[1].window = l.size;
}

static void run(const plim__call *c)
{
    const plim__lrn l = lrn_of(c->graph, c->node);
    plim__lrn_run(&l, &c->out[0], &c->in[0]);
}

/* A power, and a window of squares. */
/* A power, and a sum over neighbours. */
static plim__work work(const plim_graph *g, const plim__node *n)
{
    const double sum = (double)plim__min(n->attr.i[0], lrn_of(g, n).channels) / 8;
    return (plim__work){PLIM_KERNEL_FUNCTION, (2.75 + sum) * (plim__in(g, n, 0)->dtype == PLIM_F64 ? 2 : 1)};
}

static plim_status grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (!d->want[0] || d->dout[0] == PLIM__NONE) return PLIM_OK;
    return plim__op_lrn_back(d->graph, n.in[0], d->dout[0], n.attr.i[0], n.attr.f[0], n.attr.f[1], n.attr.f[2], &d->din[0], d->err);
}

const plim__op_row plim__row_lrn = {
    .name = "lrn", .infer = infer, .axes = axes, .reads = reads, .run = run, .work = work, .grad = grad,
};

plim_status plim__op_lrn(plim_graph *g, uint32_t x, int64_t size, double alpha, double beta, double bias, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.i = {size}, .f = {alpha, beta, bias}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_LRN, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------- gradient */

/* dy over the mirrored window; x over the windows of all of it. */
static void back_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim__lrn l = lrn_of(g, n);
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
    index[1].offset = k == 0 ? 1 - l.size : -plim__lrn_up(&l);
    index[1].window = k == 0 ? 2 * l.size - 1 : l.size;
}

static uint64_t back_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)len;
    (void)threads;
    const plim__lrn l = lrn_of(g, n);
    return plim__lrn_back_scratch(&l, plim__in(g, n, 0)->dtype);
}

static void back_run(const plim__call *c)
{
    const plim__lrn l = lrn_of(c->graph, c->node);
    plim__lrn_back_run(&l, &c->out[0], &c->in[0], &c->in[1], c->scratch);
}

static plim__work back_work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_FUNCTION, 2 * work(g, n).amount};
}

const plim__op_row plim__row_lrn_back = {
    .name = "lrn_back", .infer = infer, .axes = axes, .reads = back_reads, .scratch = back_scratch, .run = back_run, .work = back_work,
};

plim_status plim__op_lrn_back(plim_graph *g, uint32_t x, uint32_t dy, int64_t size, double alpha, double beta, double bias, uint32_t *v,
                              plim_error *err)
{
    const plim__attr attr = {.i = {size}, .f = {alpha, beta, bias}};
    const uint32_t in[2] = {x, dy};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_LRN_BACK, in, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
