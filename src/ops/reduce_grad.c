/* Gradients of reductions, and the sums that undo a broadcast. */
#include "ops/gradient.h"
#include "ops/reducing.h"

plim_status plim__grad_like(plim_graph *g, uint32_t dy, uint32_t like, uint32_t *v, plim_error *err)
{
    const plim_shape from = g->value[dy].shape, to = g->value[like].shape;
    uint32_t mask = 0;
    for (uint32_t d = 0; d < from.rank; d++) {
        const bool new = d + to.rank < from.rank;
        if (new || (to.dim[d + to.rank - from.rank] == 1 && from.dim[d] != 1)) mask |= 1u << d;
    }
    if (mask) PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, dy, mask, false, g->value[dy].dtype, &dy, err));
    if (g->value[dy].shape.rank != to.rank) PLIM_TRY(plim__op_reshape(g, dy, &to, &dy, err));
    return plim__op_cast(g, dy, g->value[like].dtype, v, err);
}

/* What a reduction over `mask` of x made, as it stands against x: elementwise functions spread it themselves, and no array of x's size is made for it. */
static plim_status stand_against(plim_graph *g, uint32_t y, uint32_t x, uint32_t mask, uint32_t *v, plim_error *err)
{
    const plim_shape kept = plim__shape_reduce(&g->value[x].shape, mask, true);
    *v = y;
    return g->value[y].shape.rank == kept.rank ? PLIM_OK : plim__op_reshape(g, y, &kept, v, err);
}

plim_status plim__grad_spread(plim_graph *g, uint32_t dy, uint32_t x, uint32_t mask, uint32_t *v, plim_error *err)
{
    const plim_shape whole = g->value[x].shape;
    PLIM_TRY(stand_against(g, dy, x, mask, &dy, err));
    return plim__op_broadcast(g, dy, &whole, v, err);
}

/* Of several equal extremes each gets its share. */
static plim_status grad_extreme(plim__gradient *d, uint32_t x, uint32_t y, uint32_t dy, uint32_t mask, uint32_t *v)
{
    plim_graph *g = d->graph;
    const plim_dtype t = g->value[x].dtype;
    uint32_t there, count;
    PLIM_TRY(stand_against(g, y, x, mask, &y, d->err));
    PLIM_TRY(plim__op_elementwise(g, PLIM__EW_EQUAL, t, t, (const uint32_t[]){x, y}, 2, &there, d->err));
    PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, there, mask, true, t, &count, d->err));
    PLIM_TRY(stand_against(g, dy, x, mask, &dy, d->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_DIV, dy, count, &dy, d->err));
    return plim__op_float2(g, PLIM__EW_MUL, dy, there, v, d->err);
}

plim_status plim__grad_reduce(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const uint32_t x = n.in[0], mask = n.attr.mask;
    uint32_t dy, y;
    PLIM_TRY(plim__op_cast(g, d->dout[0], g->value[x].dtype, &dy, d->err));
    PLIM_TRY(plim__op_cast(g, n.out[0], g->value[x].dtype, &y, d->err));
    switch ((plim__reduction)n.attr.kind) {
    case PLIM__REDUCE_SUM: return plim__grad_spread(g, dy, x, mask, &d->din[0], d->err);
    case PLIM__REDUCE_PROD:
        PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, dy, y, &dy, d->err));
        PLIM_TRY(stand_against(g, dy, x, mask, &dy, d->err));
        return plim__op_float2(g, PLIM__EW_DIV, dy, x, &d->din[0], d->err);
    case PLIM__REDUCE_MIN:
    case PLIM__REDUCE_MAX: return grad_extreme(d, x, y, dy, mask, &d->din[0]);
    }
    return PLIM_OK;
}

/* Row `which` of the stack (count, mean, sum of squares), in x's dtype. */
static plim_status moment(plim__gradient *d, uint32_t stack, int64_t which, plim_dtype t, uint32_t *v)
{
    plim_graph *g = d->graph;
    const plim_shape s = g->value[stack].shape;
    plim_shape row = {.rank = s.rank - 1};
    for (uint32_t k = 0; k < row.rank; k++) row.dim[k] = s.dim[k + 1];
    PLIM_TRY(plim__op_slice_axis(g, stack, 0, which, 1, 1, v, d->err));
    PLIM_TRY(plim__op_reshape(g, *v, &row, v, d->err));
    return plim__op_cast(g, *v, t, v, d->err);
}

/* d mean / dx = 1 / count, d squares / dx = 2 (x - mean). */
plim_status plim__grad_moments(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const uint32_t x = n.in[0], mask = n.attr.mask;
    const plim_dtype t = g->value[x].dtype;
    uint32_t mean, dmean, dsquares, v;
    uint64_t count = 1;
    for (uint32_t k = 0; k < g->value[x].shape.rank; k++)
        if (mask >> k & 1) count *= (uint64_t)g->value[x].shape.dim[k];
    PLIM_TRY(moment(d, n.out[0], 1, t, &mean));
    PLIM_TRY(moment(d, d->dout[0], 1, t, &dmean));
    PLIM_TRY(moment(d, d->dout[0], 2, t, &dsquares));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, dmean, 1 / (double)count, &dmean, d->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, dsquares, 2, &dsquares, d->err));
    PLIM_TRY(stand_against(g, mean, x, mask, &mean, d->err));
    PLIM_TRY(stand_against(g, dmean, x, mask, &dmean, d->err));
    PLIM_TRY(stand_against(g, dsquares, x, mask, &dsquares, d->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_SUB, x, mean, &v, d->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, v, dsquares, &v, d->err));
    return plim__op_float2(g, PLIM__EW_ADD, v, dmean, &d->din[0], d->err);
}
