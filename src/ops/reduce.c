/* Reductions: sum, product, minimum, maximum; moments; argmin and argmax. Axis d is dimension d of the input. Reduced axes may be cut anywhere and
 * the parts run in any order: `run` adds a part to what the outputs hold.
 *
 * Attributes: kind the reduction (argreduce: 1 largest), mask the reduced dimensions, i[0] keepdims, i[1] the output's dtype. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "ops/gradient.h"
#include "ops/reducing.h"

#include <string.h>

static bool keepdims_of(const plim__node *n) { return n->attr.i[0] != 0; }

static void same_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
}

/* Output 0 of the call, aligned with the input. */
static plim__view aligned(const plim__call *c, uint32_t j, uint32_t first)
{
    const plim__node *n = c->node;
    return plim__view_align(&c->out[j], first, plim__in(c->graph, n, 0)->shape.rank, n->attr.mask, keepdims_of(n));
}

static plim__work work_one(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_REDUCE, (double)plim_dtype_bytes(plim__in(g, n, 0)->dtype)};
}

/* ------------------------------------------------------------------------------------------------- reduce */

static const char *const reduce_name[] = {"sum", "prod", "min", "max"};

static plim_status reduce_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    PLIM_FAIL_IF(n->attr.kind > PLIM__REDUCE_MAX, err, PLIM_E_INVALID, "reduction %u does not exist", n->attr.kind);
    const char *name = reduce_name[n->attr.kind];
    const plim_dtype out = (plim_dtype)n->attr.i[1];
    PLIM_TRY(plim__mask_check(&x->shape, n->attr.mask, name, err));
    if (n->attr.kind == PLIM__REDUCE_MIN || n->attr.kind == PLIM__REDUCE_MAX) {
        PLIM_TRY(plim__mask_check_filled(&x->shape, n->attr.mask, name, err));
        PLIM_FAIL_IF(out != x->dtype, err, PLIM_E_TYPE, "%s of %s gives %s, not %s", name, plim_dtype_name(x->dtype), plim_dtype_name(x->dtype),
                     plim_dtype_name(out));
    } else {
        const bool wide = out == PLIM_F64 || out == PLIM_F32 || out == PLIM_I64 || out == PLIM_U64;
        PLIM_FAIL_IF(!wide, err, PLIM_E_TYPE, "%s accumulates in f64, f32, i64 or u64, not %s", name, plim_dtype_name(out));
        PLIM_FAIL_IF(plim__dtype_is_float(x->dtype) && !plim__dtype_is_float(out), err, PLIM_E_TYPE, "%s of %s cannot accumulate in %s", name,
                     plim_dtype_name(x->dtype), plim_dtype_name(out));
    }
    type[0] = (plim__type){out, plim__shape_reduce(&x->shape, n->attr.mask, keepdims_of(n))};
    n->n_out = 1;
    return PLIM_OK;
}

static void reduce_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    static const plim__axis_kind kind[] = {PLIM__SUM, PLIM__MERGE, PLIM__MIN, PLIM__MAX};
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, kind[n->attr.kind]);
    plim__axes_reduce_out(axes, 0, 0, n->attr.mask, keepdims_of(n));
}

static void reduce_init(const plim__call *c) { plim__reduce_init((plim__fold)c->node->attr.kind, &c->out[0]); }

static void reduce_run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0), out = aligned(c, 0, 0);
    plim__reduce_run((plim__fold)c->node->attr.kind, &out, &in, c->node->attr.mask);
}

static void reduce_merge(const plim__call *c) { plim__reduce_merge((plim__fold)c->node->attr.kind, &c->out[0], &c->in[0]); }

const plim__op_row plim__row_reduce = {
    .name = "reduce", .infer = reduce_infer, .axes = reduce_axes, .reads = same_reads,
    .init = reduce_init, .run = reduce_run, .merge = reduce_merge, .work = work_one,
    .grad = plim__grad_reduce,
};

plim_status plim__op_reduce(plim_graph *g, plim__reduction how, uint32_t x, uint32_t mask, bool keepdims, plim_dtype out, uint32_t *v,
                            plim_error *err)
{
    const plim__attr attr = {.kind = how, .mask = mask, .i = {keepdims, out}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_REDUCE, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ moments */

static plim_status moments_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    PLIM_TRY(plim__mask_check(&x->shape, n->attr.mask, "moments", err));
    const plim_shape kept = plim__shape_reduce(&x->shape, n->attr.mask, keepdims_of(n));
    PLIM_FAIL_IF(kept.rank == PLIM_MAX_RANK, err, PLIM_E_SHAPE, "moments that leave %u dimensions have no room for one more", kept.rank);
    type[0] = (plim__type){PLIM_F64, {.rank = kept.rank + 1, .dim = {3}}};
    memcpy(type[0].shape.dim + 1, kept.dim, kept.rank * sizeof *kept.dim);
    n->n_out = 1;
    return PLIM_OK;
}

static void moments_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__MERGE);
    plim__axes_reduce_out(axes, 0, 1, n->attr.mask, keepdims_of(n));
}

static void moments_init(const plim__call *c) { plim__reduce_init(PLIM__FOLD_SUM, &c->out[0]); }

static void moments_run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0), out = aligned(c, 0, 1);
    plim__moments_run(&out, c->out[0].stride[0], &in, c->node->attr.mask);
}

/* The part of the stack that holds the counts. */
static plim__view counts_of(const plim__view *v) { return plim__view_align(v, 1, v->rank - 1, 0, false); }

static void moments_merge(const plim__call *c)
{
    const plim__view out = counts_of(&c->out[0]), part = counts_of(&c->in[0]);
    plim__moments_merge(&out, c->out[0].stride[0], &part, c->in[0].stride[0]);
}

/* Counts, means and squares are three sums. */
static plim__work moments_work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_REDUCE, 3 * (double)plim_dtype_bytes(plim__in(g, n, 0)->dtype)};
}

const plim__op_row plim__row_moments = {
    .name = "moments", .infer = moments_infer, .axes = moments_axes, .reads = same_reads,
    .init = moments_init, .run = moments_run, .merge = moments_merge, .work = moments_work,
    .grad = plim__grad_moments,
};

plim_status plim__op_moments(plim_graph *g, uint32_t x, uint32_t mask, bool keepdims, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.mask = mask, .i = {keepdims}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_MOMENTS, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------- argreduce */

static plim_status arg_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const uint32_t mask = n->attr.mask, all = (1u << x->shape.rank) - 1;
    PLIM_TRY(plim__mask_check(&x->shape, mask, "argreduce", err));
    PLIM_TRY(plim__mask_check_filled(&x->shape, mask, n->attr.kind ? "argmax" : "argmin", err));
    PLIM_FAIL_IF(mask != all && (mask == 0 || (mask & (mask - 1)) != 0), err, PLIM_E_INVALID,
                 "a position is along one dimension or in the whole array, not along %d of %u dimensions", __builtin_popcount(mask), x->shape.rank);
    const plim_shape kept = plim__shape_reduce(&x->shape, mask, keepdims_of(n));
    type[0] = (plim__type){PLIM_I64, kept};
    type[1] = (plim__type){x->dtype, kept};
    n->n_out = 2;
    return PLIM_OK;
}

static void arg_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__MERGE);
    for (uint32_t j = 0; j < 2; j++) plim__axes_reduce_out(axes, j, 0, n->attr.mask, keepdims_of(n));
}

static void arg_init(const plim__call *c)
{
    int64_t none = -1;
    plim__view from = c->out[0];
    from.data = &none;
    memset(from.stride, 0, sizeof from.stride);
    plim__copy(&c->out[0], &from);
    plim__reduce_init(PLIM__FOLD_SUM, &c->out[1]);
}

static void arg_run(const plim__call *c)
{
    const plim_shape *s = &plim__in(c->graph, c->node, 0)->shape;
    const plim__view in = plim__call_in(c, 0), pos = aligned(c, 0, 0), val = aligned(c, 1, 0);
    int64_t weight[PLIM_MAX_RANK] = {0}, next = 1;
    for (uint32_t d = s->rank; d-- > 0;) {
        if (!(c->node->attr.mask >> d & 1)) continue;
        weight[d] = next;
        next *= s->dim[d];
    }
    plim__arg_run(c->node->attr.kind, &pos, &val, &in, c->node->attr.mask, weight);
}

static void arg_merge(const plim__call *c) { plim__arg_merge(c->node->attr.kind, &c->out[0], &c->out[1], &c->in[0], &c->in[1]); }

const plim__op_row plim__row_argreduce = {
    .name = "argreduce", .infer = arg_infer, .axes = arg_axes, .reads = same_reads,
    .init = arg_init, .run = arg_run, .merge = arg_merge, .work = work_one,
};

plim_status plim__op_argreduce(plim_graph *g, bool largest, uint32_t x, uint32_t mask, bool keepdims, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.kind = largest, .mask = mask, .i = {keepdims}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_ARGREDUCE, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
