#include "kernels/view.h"
#include "core/dtype.h"

void *plim__view_at(const plim__view *v, const int64_t *at)
{
    int64_t off = 0;
    for (uint32_t d = 0; d < v->rank; d++) {
        PLIM_ASSERT(at[d] >= v->lo[d] && at[d] <= v->lo[d] + v->n[d]);
        off += (at[d] - v->lo[d]) * v->stride[d];
    }
    return (char *)v->data + off * (int64_t)plim_dtype_bytes(v->dtype);
}

plim__view plim__view_part(const plim__view *v, const plim__region *r)
{
    PLIM_ASSERT(v->rank == r->rank);
    plim__view part = *v;
    int64_t off = 0;
    for (uint32_t d = 0; d < v->rank; d++) {
        PLIM_ASSERT(plim__range_len(r->dim[d]) == 0 || (r->dim[d].lo >= v->lo[d] && r->dim[d].hi <= v->lo[d] + v->n[d]));
        off += (r->dim[d].lo - v->lo[d]) * v->stride[d];
        part.lo[d] = r->dim[d].lo;
        part.n[d] = plim__range_len(r->dim[d]);
    }
    part.data = (char *)v->data + off * (int64_t)plim_dtype_bytes(v->dtype);
    return part;
}

plim__view plim__view_dense(void *data, plim_dtype dtype, const plim__region *r)
{
    plim__view v = {.data = data, .dtype = dtype, .rank = r->rank};
    int64_t stride = 1;
    for (uint32_t d = r->rank; d-- > 0;) {
        v.lo[d] = r->dim[d].lo;
        v.n[d] = plim__range_len(r->dim[d]);
        v.stride[d] = stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)(v.n[d] ? v.n[d] : 1)); /* without elements, extents may be absurd: nothing is at any stride */
    }
    return v;
}

uint64_t plim__view_count(const plim__view *v)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < v->rank; d++) n *= (uint64_t)v->n[d];
    return n;
}

plim__region plim__view_region(const plim__view *v)
{
    plim__region r = {.rank = v->rank};
    for (uint32_t d = 0; d < v->rank; d++) r.dim[d] = (plim__range){v->lo[d], v->lo[d] + v->n[d]};
    return r;
}
