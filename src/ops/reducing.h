/* What the ops that remove dimensions share: shapes, axes and aligned views. Axis d of such a node is dimension d of its input. */
#ifndef PLIM_OPS_REDUCING_H
#define PLIM_OPS_REDUCING_H

#include "ops/indexing.h"
#include "ops/ops.h"

/** The shape without the dimensions of `mask`, or with extent 1 there. */
static inline plim_shape plim__shape_reduce(const plim_shape *s, uint32_t mask, bool keepdims)
{
    plim_shape out = {0};
    for (uint32_t d = 0; d < s->rank; d++) {
        if (!(mask >> d & 1)) out.dim[out.rank++] = s->dim[d];
        else if (keepdims) out.dim[out.rank++] = 1;
    }
    return out;
}

/** One axis per dimension of `s`; those of `mask` are of kind `kind`, the others parallel. Outputs have no axis yet. */
static inline void plim__axes_reduce(plim__axes *axes, const plim_shape *s, uint32_t mask, plim__axis_kind kind)
{
    *axes = (plim__axes){.n = s->rank};
    for (uint32_t d = 0; d < s->rank; d++) axes->axis[d] = (plim__axis){s->dim[d], mask >> d & 1 ? kind : PLIM__PARALLEL};
    for (uint32_t j = 0; j < PLIM__MAX_OUT; j++)
        for (uint32_t d = 0; d < PLIM_MAX_RANK; d++) axes->out[j][d] = -1;
}

/** Lets the dimensions of output j from `first` on, made by plim__shape_reduce, follow their axes. */
static inline void plim__axes_reduce_out(plim__axes *axes, uint32_t j, uint32_t first, uint32_t mask, bool keepdims)
{
    for (uint32_t d = 0; d < axes->n && first < PLIM_MAX_RANK; d++) {
        const bool reduced = mask >> d & 1;
        if (!reduced) axes->out[j][first] = (int8_t)d;
        first += !reduced || keepdims;
    }
}

/** Every dimension d is read at the iterations of axis d. */
static inline void plim__reads_same(uint32_t rank, plim__index index[PLIM_MAX_RANK])
{
    for (uint32_t d = 0; d < rank; d++) index[d] = plim__index_along(d);
}

/** Exactly what the call's part reads of input k. */
static inline plim__view plim__call_in(const plim__call *c, uint32_t k)
{
    plim__region r;
    plim__region_reads(c->graph, c->node, k, c->axis, &r);
    return plim__view_part(&c->in[k], &r);
}

/** `v`, whose dimensions from `first` on were made by plim__shape_reduce from an input of rank `rank`, as a view of that rank with extent 1
 *  in the dimensions of `mask`. */
static inline plim__view plim__view_align(const plim__view *v, uint32_t first, uint32_t rank, uint32_t mask, bool keepdims)
{
    plim__view a = {.data = v->data, .dtype = v->dtype, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        const bool reduced = mask >> d & 1;
        a.n[d] = reduced ? 1 : v->n[first];
        a.lo[d] = reduced ? 0 : v->lo[first];
        a.stride[d] = reduced ? 0 : v->stride[first];
        first += !reduced || keepdims;
    }
    return a;
}

/** Fails unless `mask` names dimensions of `s` only. */
static inline plim_status plim__mask_check(const plim_shape *s, uint32_t mask, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(mask >> s->rank != 0, err, PLIM_E_SHAPE, "%s: a dimension beyond the rank %u of its input", what, s->rank);
    return PLIM_OK;
}

/** Fails where a reduced dimension has no element: there is no smallest of none. */
static inline plim_status plim__mask_check_filled(const plim_shape *s, uint32_t mask, const char *what, plim_error *err)
{
    for (uint32_t d = 0; d < s->rank; d++)
        PLIM_FAIL_IF((mask >> d & 1) && s->dim[d] == 0, err, PLIM_E_SHAPE, "%s over dimension %u, which is empty", what, d);
    return PLIM_OK;
}

/** The type of quantiles of `dtype` at the constants `q` (f64, each in [0, 1]), whose dimension, if any, stands before those of `kept`. In radix.c. */
plim_status plim__quantile_type(const plim__value *q, const plim_shape *kept, plim_dtype dtype, plim__type *type, plim_error *err);

#endif
