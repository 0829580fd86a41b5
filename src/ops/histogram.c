/* Histogram, and the k best along a dimension: reductions whose output has a dimension of its own, the bins or the places, that no axis indexes.
 *
 * Attributes. Histogram: i[0] bins. Topk: kind 1 largest, mask the one dimension, i[0] k, i[1] the dimension. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "kernels/order.h"
#include "kernels/reduce.h"
#include "ops/reducing.h"

/* ---------------------------------------------------------------------------------------------- histogram */

#define BINS_MAX (INT64_C(1) << 30)

static plim_status histogram_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const int64_t bins = n->attr.i[0];
    PLIM_FAIL_IF(bins < 1 || bins > BINS_MAX, err, PLIM_E_INVALID, "a histogram has 1 to %lld bins, not %lld", (long long)BINS_MAX, (long long)bins);
    for (uint32_t k = 1; k < 3; k++) {
        const plim__value *v = plim__in(g, n, k);
        PLIM_FAIL_IF(v->dtype != PLIM_F64 || v->shape.rank != 0, err, PLIM_E_TYPE, "the bounds of a histogram are f64 scalars, not %s of rank %u",
                     plim_dtype_name(v->dtype), v->shape.rank);
    }
    type[0] = (plim__type){PLIM_I64, {.rank = 1, .dim = {bins}}};
    n->n_out = 1;
    return PLIM_OK;
}

static void histogram_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, ~0u, PLIM__SUM);
}

static void first_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    if (k == 0) plim__reads_same(plim__in(g, n, k)->shape.rank, index); /* the bounds have no dimensions */
}

static uint64_t histogram_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)g;
    (void)len;
    (void)threads;
    return plim__histogram_scratch(n->attr.i[0]);
}

static void histogram_init(const plim__call *c) { plim__reduce_init(PLIM__FOLD_SUM, &c->out[0]); }

static void histogram_run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0);
    const double lo = *(const double *)c->in[1].data, hi = *(const double *)c->in[2].data;
    plim__histogram_run(c->out[0].data, c->out[0].stride[0], c->out[0].n[0], lo, hi, &in, c->scratch);
}

static void histogram_merge(const plim__call *c) { plim__reduce_merge(PLIM__FOLD_SUM, &c->out[0], &c->in[0]); }

static plim__work histogram_work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    (void)n;
    return (plim__work){PLIM_KERNEL_TALLY, 1};
}

const plim__op_row plim__row_histogram = {
    .name = "histogram", .infer = histogram_infer, .axes = histogram_axes, .reads = first_reads, .scratch = histogram_scratch,
    .init = histogram_init, .run = histogram_run, .merge = histogram_merge, .work = histogram_work,
};

plim_status plim__op_histogram(plim_graph *g, uint32_t x, uint32_t lo, uint32_t hi, int64_t bins, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.i = {bins}};
    const uint32_t in[3] = {x, lo, hi};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_HISTOGRAM, in, 3, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------- topk */

static plim_status topk_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const int64_t k = n->attr.i[0], axis = n->attr.i[1];
    PLIM_FAIL_IF(axis < 0 || axis >= x->shape.rank, err, PLIM_E_SHAPE, "topk: dimension %lld of an array of rank %u", (long long)axis, x->shape.rank);
    PLIM_FAIL_IF(k < 1 || k > x->shape.dim[axis], err, PLIM_E_INVALID, "topk: the best %lld of %lld elements", (long long)k,
                 (long long)x->shape.dim[axis]);
    type[0] = (plim__type){x->dtype, x->shape};
    type[0].shape.dim[axis] = k;
    type[1] = (plim__type){PLIM_I64, type[0].shape};
    n->n_out = 2;
    return PLIM_OK;
}

static void topk_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__MERGE);
    for (uint32_t j = 0; j < 2; j++) plim__axes_reduce_out(axes, j, 0, n->attr.mask, true);
}

static void topk_init(const plim__call *c) { plim__topk_init(&c->out[0], &c->out[1]); }

static void topk_run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0);
    plim__topk_run(c->node->attr.kind, &c->out[0], &c->out[1], &in, (uint32_t)c->node->attr.i[1]);
}

static void topk_merge(const plim__call *c)
{
    plim__topk_merge(c->node->attr.kind, &c->out[0], &c->out[1], &c->in[0], &c->in[1], (uint32_t)c->node->attr.i[1]);
}

const plim__op_row plim__row_topk = {
    .name = "topk", .infer = topk_infer, .axes = topk_axes, .reads = first_reads,
    .init = topk_init, .run = topk_run, .merge = topk_merge, .work = histogram_work,
};

plim_status plim__op_topk(plim_graph *g, uint32_t x, int64_t k, uint32_t axis, bool largest, uint32_t *values, uint32_t *positions,
                          plim_error *err)
{
    PLIM_FAIL_IF(axis >= PLIM_MAX_RANK, err, PLIM_E_SHAPE, "topk: dimension %u", axis);
    const plim__attr attr = {.kind = largest, .mask = 1u << axis, .i = {k, axis}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_TOPK, &x, 1, &attr, made, err));
    if (values) *values = made[0];
    if (positions) *positions = made[1];
    return PLIM_OK;
}
