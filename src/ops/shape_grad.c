/* Gradients of the rows that only say where elements come from: they say where they go back to. */
#include "ops/gradient.h"

#include <string.h>

plim_status plim__grad_transpose(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    uint32_t back[PLIM_MAX_RANK] = {0};
    for (uint32_t k = 0; k < plim__in(d->graph, &n, 0)->shape.rank; k++) back[n.attr.i[k]] = k;
    return plim__op_transpose(d->graph, d->dout[0], back, &d->din[0], d->err);
}

plim_status plim__grad_reshape(plim__gradient *d)
{
    const plim_shape to = plim__in(d->graph, &d->graph->node[d->node], 0)->shape;
    return plim__op_reshape(d->graph, d->dout[0], &to, &d->din[0], d->err);
}

plim_status plim__grad_broadcast(plim__gradient *d)
{
    return plim__grad_like(d->graph, d->dout[0], d->graph->node[d->node].in[0], &d->din[0], d->err);
}

/* A slice [start, start + count) of dimension `axis` of v, the others whole. */
static plim_status slice_of(plim_graph *g, uint32_t v, uint32_t axis, int64_t start, int64_t count, uint32_t *out, plim_error *err)
{
    return plim__op_slice_axis(g, v, axis, start, 1, count, out, err);
}

/* v with its dimension `axis` backwards. */
static plim_status flip(plim_graph *g, uint32_t v, uint32_t axis, uint32_t *out, plim_error *err)
{
    const int64_t n = g->value[v].shape.dim[axis];
    return plim__op_slice_axis(g, v, axis, n - 1, -1, n, out, err);
}

/* Zeros around v in dimension `axis`. */
static plim_status pad_axis(plim_graph *g, uint32_t v, uint32_t axis, int64_t before, int64_t after, uint32_t *out, plim_error *err)
{
    int64_t b[PLIM_MAX_RANK] = {0}, a[PLIM_MAX_RANK] = {0};
    *out = v;
    if (before == 0 && after == 0) return PLIM_OK;
    b[axis] = before;
    a[axis] = after;
    return plim__op_pad(g, v, b, a, PLIM__EDGE_CONSTANT, 0, out, err);
}

/* step - 1 zeros after each element of dimension `axis` but the last: a dimension of its own for them, and joined again. */
static plim_status stretch(plim_graph *g, uint32_t v, uint32_t axis, int64_t step, uint32_t *out, plim_error *err)
{
    const plim_shape s = g->value[v].shape;
    PLIM_FAIL_IF(s.rank == PLIM_MAX_RANK, err, PLIM_E_SHAPE, "the gradient of a slice with a step needs one dimension more than %u", s.rank);
    plim_shape wide = {.rank = s.rank + 1}, joined = s;
    for (uint32_t d = 0; d < wide.rank; d++) wide.dim[d] = d <= axis ? s.dim[d] : d == axis + 1 ? 1 : s.dim[d - 1];
    joined.dim[axis] = s.dim[axis] * step;
    PLIM_TRY(plim__op_reshape(g, v, &wide, &v, err));
    PLIM_TRY(pad_axis(g, v, axis + 1, 0, step - 1, &v, err));
    PLIM_TRY(plim__op_reshape(g, v, &joined, &v, err));
    return slice_of(g, v, axis, 0, (s.dim[axis] - 1) * step + 1, out, err);
}

plim_status plim__grad_slice(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const plim_shape to = plim__in(g, &n, 0)->shape, from = g->value[n.out[0]].shape;
    uint32_t v = d->dout[0];
    for (uint32_t a = 0; a < to.rank; a++) {
        int64_t start = n.attr.i[a], step = n.attr.i[PLIM_MAX_RANK + a];
        const int64_t count = from.dim[a];
        if (count == 0) continue;
        if (step < 0) {
            PLIM_TRY(flip(g, v, a, &v, d->err));
            start += step * (count - 1);
            step = -step;
        }
        if (step > 1) PLIM_TRY(stretch(g, v, a, step, &v, d->err));
        PLIM_TRY(pad_axis(g, v, a, start, to.dim[a] - start - ((count - 1) * step + 1), &v, d->err));
    }
    bool empty = false;
    for (uint32_t a = 0; a < from.rank; a++) empty |= from.dim[a] == 0;
    if (!empty) d->din[0] = v;
    return PLIM_OK;
}

plim_status plim__grad_concat(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const uint32_t axis = (uint32_t)n.attr.i[0];
    int64_t start = 0;
    for (uint32_t k = 0; k < n.n_in; k++) {
        const int64_t count = plim__in(g, &n, k)->shape.dim[axis];
        if (d->want[k]) PLIM_TRY(slice_of(g, d->dout[0], axis, start, count, &d->din[k], d->err));
        start += count;
    }
    return PLIM_OK;
}

plim_status plim__grad_pad(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    PLIM_FAIL_IF(n.attr.kind != PLIM__EDGE_CONSTANT, d->err, PLIM_E_UNSUPPORTED, "pad passes a gradient in constant mode only");
    const plim_shape to = plim__in(g, &n, 0)->shape;
    uint32_t v = d->dout[0];
    for (uint32_t a = 0; a < to.rank; a++) PLIM_TRY(slice_of(g, v, a, n.attr.i[a], to.dim[a], &v, d->err));
    d->din[0] = v;
    return PLIM_OK;
}

plim_status plim__grad_take(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const plim_shape to = plim__in(g, &n, 0)->shape;
    return plim__op_scatter(g, d->dout[0], n.in[1], (uint32_t)n.attr.i[0], &to, &d->din[0], d->err);
}

/* Each element is in all sums from itself on: the sum from the other end. */
plim_status plim__grad_scan(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const uint32_t axis = (uint32_t)n.attr.i[0];
    PLIM_FAIL_IF(n.attr.kind != PLIM__REDUCE_SUM, d->err, PLIM_E_UNSUPPORTED, "a cumulative product passes no gradient");
    if (d->dout[0] == PLIM__NONE) return PLIM_OK; /* the carry alone is nobody's result */
    uint32_t v;
    PLIM_TRY(flip(g, d->dout[0], axis, &v, d->err));
    PLIM_TRY(plim__op_scan(g, PLIM__REDUCE_SUM, v, axis, g->value[v].dtype, &v, d->err));
    PLIM_TRY(flip(g, v, axis, &v, d->err));
    return plim__op_cast(g, v, plim__in(g, &n, 0)->dtype, &d->din[0], d->err);
}
