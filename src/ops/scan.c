/* Cumulative sums and products. The axis that is scanned is of kind SCAN: its parts must be run in order, and output 1, the carry, holds for every
 * column what went before. The carry is f64 for floats whatever the output's dtype: a long f32 cumulative sum does not drift.
 *
 * Attributes: kind the reduction, mask the one dimension, i[0] the dimension, i[1] the output's dtype. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "kernels/order.h"
#include "kernels/reduce.h"
#include "ops/gradient.h"
#include "ops/reducing.h"

#include <stdlib.h>

#define SCAN_CHUNK 512

static plim_dtype carry_dtype(plim_dtype out)
{
    return plim__dtype_is_float(out) ? PLIM_F64 : out == PLIM_U64 ? PLIM_U64 : PLIM_I64;
}

static plim_status scan_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const int64_t axis = n->attr.i[0];
    const plim_dtype out = (plim_dtype)n->attr.i[1];
    const bool sum = n->attr.kind == PLIM__REDUCE_SUM;
    PLIM_FAIL_IF(!sum && n->attr.kind != PLIM__REDUCE_PROD, err, PLIM_E_INVALID, "only sums and products are cumulative, not reduction %u", n->attr.kind);
    PLIM_FAIL_IF(axis < 0 || axis >= x->shape.rank, err, PLIM_E_SHAPE, "%s: dimension %lld of an array of rank %u", sum ? "cumsum" : "cumprod",
                 (long long)axis, x->shape.rank);
    PLIM_FAIL_IF(plim__dtype_is_float(x->dtype) && !plim__dtype_is_float(out), err, PLIM_E_TYPE, "a cumulative %s of %s cannot be %s",
                 sum ? "sum" : "product", plim_dtype_name(x->dtype), plim_dtype_name(out));
    type[0] = (plim__type){out, x->shape};
    type[1] = (plim__type){carry_dtype(out), plim__shape_reduce(&x->shape, n->attr.mask, false)};
    n->n_out = 2;
    return PLIM_OK;
}

static void scan_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__SCAN);
    plim__axes_reduce_out(axes, 0, 0, 0, false);
    plim__axes_reduce_out(axes, 1, 0, n->attr.mask, false);
}

static void scan_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
}

static void scan_init(const plim__call *c) { plim__reduce_init((plim__fold)c->node->attr.kind, &c->out[1]); }

typedef union chunk {
    double f64[SCAN_CHUNK];
    uint64_t u64[SCAN_CHUNK];
} chunk;

/* x[i] becomes the running value after element i; the carry goes on. */
static void scan_along(chunk *x, void *carry, int64_t n, bool is_float, bool sum)
{
    if (is_float) {
        double acc = *(double *)carry;
        for (int64_t i = 0; i < n; i++) x->f64[i] = acc = sum ? acc + x->f64[i] : acc * x->f64[i];
        *(double *)carry = acc;
    } else {
        uint64_t acc = *(uint64_t *)carry;
        for (int64_t i = 0; i < n; i++) x->u64[i] = acc = sum ? acc + x->u64[i] : acc * x->u64[i];
        *(uint64_t *)carry = acc;
    }
}

/* acc[j] takes in x[j]. */
static void scan_across(chunk *restrict acc, const chunk *restrict x, int64_t n, bool is_float, bool sum)
{
    if (is_float && sum) for (int64_t j = 0; j < n; j++) acc->f64[j] += x->f64[j];
    else if (is_float) for (int64_t j = 0; j < n; j++) acc->f64[j] *= x->f64[j];
    else if (sum) for (int64_t j = 0; j < n; j++) acc->u64[j] += x->u64[j];
    else for (int64_t j = 0; j < n; j++) acc->u64[j] *= x->u64[j];
}

/* n elements of a view, from p on, in steps of `stride`. */
static plim__view line(void *p, plim_dtype t, int64_t n, int64_t stride)
{
    return (plim__view){.data = p, .dtype = t, .rank = 1, .n = {n}, .stride = {stride}};
}

static void *step(const void *p, int64_t i, plim_dtype t)
{
    return (char *)(uintptr_t)p + i * (int64_t)plim_dtype_bytes(t);
}

static void run_along(const plim__call *c, const plim__view *in, const plim__view *carry, uint32_t axis)
{
    const plim__view *out = &c->out[0];
    const bool sum = c->node->attr.kind == PLIM__REDUCE_SUM, is_float = carry->dtype == PLIM_F64;
    const int64_t columns = plim__column_count(in, 1u << axis);
    chunk x;
    for (int64_t col = 0; col < columns; col++) {
        const void *from = plim__column(in, 1u << axis, col), *to = plim__column(out, 1u << axis, col);
        void *held = plim__column(carry, 1u << axis, col);
        for (int64_t i = 0; i < in->n[axis]; i += SCAN_CHUNK) {
            const int64_t n = plim__min(SCAN_CHUNK, in->n[axis] - i);
            const plim__view here = line(&x, carry->dtype, n, 1);
            const plim__view src = line(step(from, i * in->stride[axis], in->dtype), in->dtype, n, in->stride[axis]);
            const plim__view dst = line(step(to, i * out->stride[axis], out->dtype), out->dtype, n, out->stride[axis]);
            plim__copy(&here, &src);
            scan_along(&x, held, n, is_float, sum);
            plim__copy(&dst, &here);
        }
    }
}

/* Rows along `fast`, a dimension that is not scanned: the columns go on side by side. */
static void run_across(const plim__call *c, const plim__view *in, const plim__view *carry, uint32_t axis, uint32_t fast)
{
    const plim__view *out = &c->out[0];
    const bool sum = c->node->attr.kind == PLIM__REDUCE_SUM, is_float = carry->dtype == PLIM_F64;
    const uint32_t skip = 1u << axis | 1u << fast;
    const int64_t columns = plim__column_count(in, skip);
    chunk x, acc;
    for (int64_t col = 0; col < columns; col++) {
        const void *from = plim__column(in, skip, col), *to = plim__column(out, skip, col), *held = plim__column(carry, skip, col);
        for (int64_t j = 0; j < in->n[fast]; j += SCAN_CHUNK) {
            const int64_t n = plim__min(SCAN_CHUNK, in->n[fast] - j);
            const plim__view here = line(&x, carry->dtype, n, 1), sums = line(&acc, carry->dtype, n, 1);
            const plim__view kept = line(step(held, j * carry->stride[fast], carry->dtype), carry->dtype, n, carry->stride[fast]);
            plim__copy(&sums, &kept);
            for (int64_t i = 0; i < in->n[axis]; i++) {
                const int64_t in_at = i * in->stride[axis] + j * in->stride[fast], out_at = i * out->stride[axis] + j * out->stride[fast];
                const plim__view src = line(step(from, in_at, in->dtype), in->dtype, n, in->stride[fast]);
                const plim__view dst = line(step(to, out_at, out->dtype), out->dtype, n, out->stride[fast]);
                plim__copy(&here, &src);
                scan_across(&acc, &x, n, is_float, sum);
                plim__copy(&dst, &sums);
            }
            plim__copy(&kept, &sums);
        }
    }
}

static void scan_run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0);
    if (plim__view_count(&in) == 0) return;
    const uint32_t axis = (uint32_t)c->node->attr.i[0];
    const plim__view carry = plim__view_align(&c->out[1], 0, in.rank, c->node->attr.mask, false);
    uint32_t fast = axis;
    for (uint32_t d = 0; d < in.rank; d++)
        if (d != axis && in.n[d] > 1 && llabs(in.stride[d]) < llabs(in.stride[fast])) fast = d;
    if (fast == axis) run_along(c, &in, &carry, axis);
    else run_across(c, &in, &carry, axis, fast);
}

static plim__work scan_work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    (void)n;
    return (plim__work){PLIM_KERNEL_SCAN, 1};
}

const plim__op_row plim__row_scan = {
    .name = "scan", .infer = scan_infer, .axes = scan_axes, .reads = scan_reads, .init = scan_init, .run = scan_run, .work = scan_work,
    .grad = plim__grad_scan,
};

plim_status plim__op_scan(plim_graph *g, plim__reduction how, uint32_t x, uint32_t axis, plim_dtype out, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(axis >= PLIM_MAX_RANK, err, PLIM_E_SHAPE, "cumulative: dimension %u", axis);
    const plim__attr attr = {.kind = how, .mask = 1u << axis, .i = {axis, out}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_SCAN, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
