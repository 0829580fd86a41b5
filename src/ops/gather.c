/* gather: x.take(index, axis) with an index that is known only when the program runs, and scatter, its gradient.
 *
 * Gather's axes are its output's dimensions: x's before `axis`, index's, x's behind it. All are parallel; x is read whole along `axis`. Scatter has
 * the same axes, those of dy; over index's it reduces, as any index may name any place: the output is whole along `axis`.
 *
 * Attributes: i[0] the dimension. Scatter: i[1] its extent in the output, kind the reduction (a plim__reduction; 0 is the sum). */
#include "core/dtype.h"
#include "kernels/gather.h"
#include "kernels/reduce.h"
#include "ops/checks.h"
#include "ops/reducing.h"

static uint32_t axis_of(const plim__node *n) { return (uint32_t)n->attr.i[0]; }

static plim_status index_check(const plim__value *index, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(index->dtype != PLIM_I32 && index->dtype != PLIM_I64, err, PLIM_E_TYPE, "%s: indices of i32 or i64, not %s", what,
                 plim_dtype_name(index->dtype));
    return PLIM_OK;
}

static plim__work work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_GATHER, 2 * (double)plim_dtype_bytes(plim__out(g, n, 0)->dtype)};
}

/* The index moves with its own axes. */
static void index_reads(uint32_t axis, uint32_t rank, plim__index index[PLIM_MAX_RANK])
{
    for (uint32_t d = 0; d < rank; d++) index[d] = plim__index_along(axis + d);
}

/* ----------------------------------------------------------------------------------------------- gather */

static plim_status gather_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0), *index = plim__in(g, n, 1);
    PLIM_TRY(index_check(index, "gather", err));
    PLIM_TRY(plim__check_axis(&x->shape, n->attr.i[0], "gather", err));
    const uint32_t axis = axis_of(n), ir = index->shape.rank;
    PLIM_FAIL_IF(x->shape.rank - 1 + ir > PLIM_MAX_RANK, err, PLIM_E_SHAPE,
                 "gather: an array of rank %u by indices of rank %u has too many dimensions", x->shape.rank, ir);
    plim_shape out = {0};
    for (uint32_t d = 0; d < axis; d++) out.dim[out.rank++] = x->shape.dim[d];
    for (uint32_t d = 0; d < ir; d++) out.dim[out.rank++] = index->shape.dim[d];
    for (uint32_t d = axis + 1; d < x->shape.rank; d++) out.dim[out.rank++] = x->shape.dim[d];
    type[0] = (plim__type){x->dtype, out};
    n->n_out = 1;
    return PLIM_OK;
}

static void gather_axes(const plim_graph *g, const plim__node *n, plim__axes *axes) { plim__axes_parallel(axes, &plim__out(g, n, 0)->shape); }

static void gather_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim_shape *x = &plim__in(g, n, 0)->shape;
    const uint32_t axis = axis_of(n), ir = plim__in(g, n, 1)->shape.rank;
    if (k == 1) {
        index_reads(axis, ir, index);
        return;
    }
    for (uint32_t d = 0; d < x->rank; d++)
        index[d] = d == axis ? plim__index_fixed(0, x->dim[d]) : plim__index_along(d < axis ? d : d - 1 + ir);
}

static void gather_run(const plim__call *c)
{
    const plim__view x = plim__call_in(c, 0), index = plim__call_in(c, 1);
    plim__gather_run(&c->out[0], &x, &index, axis_of(c->node));
}

static plim_status gather_grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (!d->want[0] || d->dout[0] == PLIM__NONE) return PLIM_OK;
    const plim_shape x = plim__in(d->graph, &n, 0)->shape;
    return plim__op_scatter(d->graph, d->dout[0], n.in[1], axis_of(&n), &x, &d->din[0], d->err);
}

const plim__op_row plim__row_gather = {
    .name = "gather", .infer = gather_infer, .axes = gather_axes, .reads = gather_reads, .run = gather_run, .work = work, .grad = gather_grad,
};

plim_status plim__op_gather(plim_graph *g, uint32_t x, uint32_t index, uint32_t axis, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.i = {axis}};
    const uint32_t in[2] = {x, index};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_GATHER, in, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------- scatter */

static plim_status scatter_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *dy = plim__in(g, n, 0), *index = plim__in(g, n, 1);
    PLIM_FAIL_IF(n->attr.kind > PLIM__REDUCE_MAX, err, PLIM_E_INVALID, "scatter: reduction %u does not exist", n->attr.kind);
    PLIM_TRY(plim__check_float(dy, "scatter", err));
    PLIM_TRY(index_check(index, "scatter", err));
    const uint32_t ir = index->shape.rank;
    const int64_t axis = n->attr.i[0];
    PLIM_FAIL_IF(dy->shape.rank < ir || axis < 0 || axis > dy->shape.rank - ir, err, PLIM_E_SHAPE,
                 "scatter: indices of rank %u at dimension %lld of an array of rank %u", ir, (long long)axis, dy->shape.rank);
    PLIM_FAIL_IF(dy->shape.rank - ir + 1 > PLIM_MAX_RANK || n->attr.i[1] < 0, err, PLIM_E_SHAPE, "scatter: no array to add to");
    plim_shape out = {0};
    for (uint32_t d = 0; d < dy->shape.rank; d++) {
        if (d == axis) out.dim[out.rank++] = n->attr.i[1];
        if (d < axis || d >= axis + ir) out.dim[out.rank++] = dy->shape.dim[d];
        else PLIM_FAIL_IF(dy->shape.dim[d] != index->shape.dim[d - axis], err, PLIM_E_SHAPE, "scatter: dimension %u of %lld has indices of %lld", d,
                          (long long)dy->shape.dim[d], (long long)index->shape.dim[d - axis]);
    }
    if (axis == dy->shape.rank) out.dim[out.rank++] = n->attr.i[1]; /* a scalar index, at the end */
    type[0] = (plim__type){dy->dtype, out};
    n->n_out = 1;
    return PLIM_OK;
}

static void scatter_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    static const plim__axis_kind kind[] = {PLIM__SUM, PLIM__MERGE, PLIM__MIN, PLIM__MAX};
    const uint32_t axis = axis_of(n), ir = plim__in(g, n, 1)->shape.rank;
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, ((1u << ir) - 1) << axis, kind[n->attr.kind]);
    for (uint32_t d = 0; d < plim__out(g, n, 0)->shape.rank; d++)
        axes->out[0][d] = d == axis ? -1 : (int8_t)(d < axis ? d : d - 1 + ir);
}

static void scatter_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const uint32_t rank = plim__in(g, n, k)->shape.rank;
    if (k == 1) index_reads(axis_of(n), rank, index);
    else plim__reads_same(rank, index);
}

static plim__fold fold_of(const plim__call *c) { return (plim__fold)c->node->attr.kind; }

static void scatter_init(const plim__call *c) { plim__reduce_init(fold_of(c), &c->out[0]); }

static void scatter_run(const plim__call *c)
{
    const plim__view dy = plim__call_in(c, 0), index = plim__call_in(c, 1);
    plim__scatter_run(fold_of(c), &c->out[0], &dy, &index, axis_of(c->node));
}

static void scatter_merge(const plim__call *c) { plim__reduce_merge(fold_of(c), &c->out[0], &c->in[0]); }

static plim_status scatter_grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (!d->want[0] || d->dout[0] == PLIM__NONE) return PLIM_OK;
    PLIM_FAIL_IF(n.attr.kind != PLIM__REDUCE_SUM, d->err, PLIM_E_UNSUPPORTED, "scatter: only a sum has a gradient here");
    return plim__op_gather(d->graph, d->dout[0], n.in[1], axis_of(&n), &d->din[0], d->err);
}

const plim__op_row plim__row_scatter = {
    .name = "scatter", .infer = scatter_infer, .axes = scatter_axes, .reads = scatter_reads, .init = scatter_init, .run = scatter_run,
    .merge = scatter_merge, .work = work, .grad = scatter_grad,
};

plim_status plim__op_scatter(plim_graph *g, uint32_t dy, uint32_t index, uint32_t axis, const plim_shape *x_shape, uint32_t *v, plim_error *err)
{
    return plim__op_scatter_by(g, PLIM__REDUCE_SUM, dy, index, axis, x_shape, v, err);
}

plim_status plim__op_scatter_by(plim_graph *g, plim__reduction how, uint32_t dy, uint32_t index, uint32_t axis, const plim_shape *x_shape,
                                uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__check_axis(x_shape, axis, "scatter", err));
    const plim__attr attr = {.kind = how, .i = {axis, x_shape->dim[axis]}};
    const uint32_t in[2] = {dy, index};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_SCATTER, in, 2, &attr, made, err));
    PLIM_FAIL_IF(!plim__shape_equal(&g->value[made[0]].shape, x_shape), err, PLIM_E_SHAPE,
                 "scatter: what is added up does not have the array's shape");
    *v = made[0];
    return PLIM_OK;
}
