/* The one question that everything is built on: which region of each input does this region of the output need.
 * Index arithmetic on the caller's arrays; any thread. What an op's row declares (axes, strides, windows) is taken as
 * true; the bounds of the result are made to hold here, by clamping. */
#include "graph/op.h"
#include "core/size.h"

plim__range plim__index_range(const plim__index *x, const plim__range *axis, int64_t extent)
{
    int64_t lo, hi;
    PLIM_ASSERT(x->axis < PLIM__MAX_AXES && x->window >= 0 && extent >= 0);
    if (x->axis < 0) {
        lo = x->offset;
        hi = x->offset + x->window;
    } else {
        const plim__range r = axis[x->axis];
        const int64_t div = x->div > 1 ? x->div : 1;
        PLIM_ASSERT(r.lo <= r.hi); /* an empty one reads the one element next to it */
        const int64_t first = x->stride >= 0 ? r.lo : r.hi - 1; /* a negative stride reads the last iteration lowest */
        const int64_t last = x->stride >= 0 ? r.hi - 1 : r.lo;
        lo = plim__floor_div(x->stride * first + x->offset, div);
        hi = plim__floor_div(x->stride * last + x->offset, div) + x->window;
    }
    /* Clamp into the extent, never to nothing: a window that lies beyond a border reads the border element. */
    lo = plim__clamp(lo, 0, extent > 0 ? extent - 1 : 0);
    hi = plim__clamp(hi, lo + (extent > 0), extent);
    return (plim__range){lo, hi};
}

void plim__region_reads(const plim_graph *g, const plim__node *n, uint32_t k, const plim__range *axis, plim__region *out)
{
    const plim__value *v = plim__in(g, n, k);
    plim__index index[PLIM_MAX_RANK];
    PLIM_ASSERT(k < n->n_in && v->shape.rank <= PLIM_MAX_RANK);
    plim__op_row_of(n->op)->reads(g, n, k, index);
    out->rank = v->shape.rank;
    for (uint32_t d = 0; d < v->shape.rank; d++) out->dim[d] = plim__index_range(&index[d], axis, v->shape.dim[d]);
}

void plim__region_writes(const plim_graph *g, const plim__node *n, const plim__axes *axes, uint32_t j, const plim__range *axis, plim__region *out)
{
    const plim__value *v = plim__out(g, n, j);
    out->rank = v->shape.rank;
    for (uint32_t d = 0; d < v->shape.rank; d++) {
        const int a = axes->out[j][d];
        PLIM_ASSERT(a < (int)axes->n && (a < 0 || !plim__axis_reduces(axes->axis[a].kind))); /* an output carries no axis that reduces */
        out->dim[d] = a < 0 ? (plim__range){0, v->shape.dim[d]} : axis[a];
    }
}
