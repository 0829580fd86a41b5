/* Sorting and selecting along a dimension that fits in memory (radix.c does the ones that do not). The dimension is WHOLE, the others parallel.
 *
 * Sorting: NaN comes last. Descending order is the ascending order's values reversed, so NaN comes first; positions are stable both ways: equal elements
 * keep their order. A column's keys and positions are gathered into the scratch, sorted there, and the elements fetched by position.
 * Selecting: a column's keys are gathered and partitioned; the scratch is one column of keys.
 *
 * Attributes. Sort: kind 1 descending, mask the one dimension, i[0] the dimension, i[1] 1 when positions are wanted. Select: mask, i[0] as sort's,
 * i[1] keepdims. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "kernels/order.h"
#include "ops/reducing.h"

#include <math.h>
#include <string.h>

static uint32_t axis_of(const plim__node *n) { return (uint32_t)n->attr.i[0]; }

static plim_status axis_check(const plim__node *n, const plim__value *x, const char *what, plim_error *err)
{
    const int64_t axis = n->attr.i[0];
    PLIM_FAIL_IF(axis < 0 || axis >= x->shape.rank, err, PLIM_E_SHAPE, "%s: dimension %lld of an array of rank %u", what, (long long)axis,
                 x->shape.rank);
    return PLIM_OK;
}

/* Log2 of the length: what a comparison sort would take, and more than these take, per element. */
static plim__work order_work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_SORT, 1 + log2((double)plim__in(g, n, 0)->shape.dim[n->attr.i[0]] + 1)};
}

/* --------------------------------------------------------------------------------------------------- sort */

static plim_status sort_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    PLIM_TRY(axis_check(n, x, "sort", err));
    type[0] = (plim__type){x->dtype, x->shape};
    type[1] = (plim__type){PLIM_I64, x->shape};
    n->n_out = n->attr.i[1] ? 2 : 1;
    return PLIM_OK;
}

static void sort_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__WHOLE);
    for (uint32_t j = 0; j < 2; j++) plim__axes_reduce_out(axes, j, 0, 0, false);
}

static void sort_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
}

/* Positions of 32 bits share a word with the key. */
static bool packs(plim_dtype t, int64_t n) { return !plim__key_wide(t) && n <= (INT64_C(1) << 32); }

static uint64_t sort_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)threads;
    const int64_t m = len[axis_of(n)];
    return 2 * (uint64_t)m * (packs(plim__in(g, n, 0)->dtype, m) ? sizeof(uint64_t) : sizeof(plim__keyed));
}

#define GATHER 512

/* Where the result takes its elements from: position i of the sorted column. */
typedef struct sorted {
    const uint64_t *packed; /* the low half is the position */
    const plim__keyed *keyed;
} sorted;

static inline int64_t sorted_at(const sorted *s, int64_t i)
{
    return s->packed ? (int64_t)(s->packed[i] & UINT32_MAX) : (int64_t)s->keyed[i].pos;
}

static sorted sort_packed(const char *x, plim_dtype t, int64_t stride, int64_t n, bool descending, void *scratch)
{
    uint64_t *a = scratch;
    uint32_t key[GATHER];
    const uint32_t flip = descending ? (uint32_t)plim__key_max(t) : 0;
    for (int64_t i = 0; i < n; i += GATHER) {
        const int64_t m = plim__min(GATHER, n - i);
        plim__keys32(key, x + i * stride * (int64_t)plim_dtype_bytes(t), t, stride, m);
        for (int64_t k = 0; k < m; k++) a[i + k] = (uint64_t)(key[k] ^ flip) << 32 | (uint64_t)(i + k);
    }
    return (sorted){.packed = plim__sort_packed(a, a + n, n, plim__key_bits(t))};
}

static sorted sort_keyed(const char *x, plim_dtype t, int64_t stride, int64_t n, bool descending, void *scratch)
{
    plim__keyed *a = scratch;
    uint64_t key[GATHER];
    uint32_t narrow[GATHER];
    const uint64_t flip = descending ? plim__key_max(t) : 0;
    for (int64_t i = 0; i < n; i += GATHER) {
        const int64_t m = plim__min(GATHER, n - i);
        const void *from = x + i * stride * (int64_t)plim_dtype_bytes(t);
        if (plim__key_wide(t)) {
            plim__keys64(key, from, t, stride, m);
        } else {
            plim__keys32(narrow, from, t, stride, m);
            for (int64_t k = 0; k < m; k++) key[k] = narrow[k];
        }
        for (int64_t k = 0; k < m; k++) a[i + k] = (plim__keyed){key[k] ^ flip, (uint64_t)(i + k)};
    }
    return (sorted){.keyed = plim__sort_keyed(a, a + n, n, plim__key_bits(t))};
}

#define FETCH_FN(name, T)                                                                                                    \
    static void name(void *to, int64_t to_stride, const void *from, int64_t from_stride, const sorted *s, int64_t n)         \
    {                                                                                                                        \
        for (int64_t i = 0; i < n; i++) ((T *)to)[i * to_stride] = ((const T *)from)[sorted_at(s, i) * from_stride];         \
    }

FETCH_FN(fetch_1, uint8_t)
FETCH_FN(fetch_2, uint16_t)
FETCH_FN(fetch_4, uint32_t)
FETCH_FN(fetch_8, uint64_t)

static void sort_run(const plim__call *c)
{
    const plim__view in = plim__call_in(c, 0);
    const uint32_t axis = axis_of(c->node), skip = 1u << axis;
    const int64_t n = in.n[axis], columns = plim__column_count(&in, skip);
    if (n == 0) return;
    const uint64_t bytes = plim_dtype_bytes(in.dtype);
    for (int64_t col = 0; col < columns; col++) {
        const void *x = plim__column(&in, skip, col);
        const sorted s = (packs(in.dtype, n) ? sort_packed : sort_keyed)(x, in.dtype, in.stride[axis], n, c->node->attr.kind, c->scratch);
        (bytes == 1 ? fetch_1 : bytes == 2 ? fetch_2 : bytes == 4 ? fetch_4 : fetch_8)(plim__column(&c->out[0], skip, col), c->out[0].stride[axis], x,
                                                                                     in.stride[axis], &s, n);
        if (c->node->n_out < 2) continue;
        int64_t *pos = plim__column(&c->out[1], skip, col);
        for (int64_t i = 0; i < n; i++) pos[i * c->out[1].stride[axis]] = sorted_at(&s, i);
    }
}

const plim__op_row plim__row_sort = {
    .name = "sort", .infer = sort_infer, .axes = sort_axes, .reads = sort_reads, .scratch = sort_scratch, .run = sort_run, .work = order_work,
};

plim_status plim__op_sort(plim_graph *g, uint32_t x, uint32_t axis, bool descending, uint32_t *values, uint32_t *positions, plim_error *err)
{
    PLIM_FAIL_IF(axis >= PLIM_MAX_RANK, err, PLIM_E_SHAPE, "sort: dimension %u", axis);
    const plim__attr attr = {.kind = descending, .mask = 1u << axis, .i = {axis, positions != NULL}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_SORT, &x, 1, &attr, made, err));
    if (values) *values = made[0];
    if (positions) *positions = made[1];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- select */

static plim_status select_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0), *q = plim__in(g, n, 1);
    PLIM_TRY(axis_check(n, x, "quantile", err));
    PLIM_TRY(plim__mask_check_filled(&x->shape, n->attr.mask, "quantile", err));
    const plim_shape kept = plim__shape_reduce(&x->shape, n->attr.mask, n->attr.i[1] != 0);
    PLIM_TRY(plim__quantile_type(q, &kept, x->dtype, type, err));
    n->n_out = 1;
    return PLIM_OK;
}

static void select_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__WHOLE);
    plim__axes_reduce_out(axes, 0, plim__in(g, n, 1)->shape.rank, n->attr.mask, n->attr.i[1] != 0);
}

static void select_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim_shape *s = &plim__in(g, n, k)->shape;
    if (k == 0) plim__reads_same(s->rank, index);
    else if (s->rank == 1) index[0] = plim__index_fixed(0, s->dim[0]);
}

static uint64_t select_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)threads;
    return (uint64_t)len[axis_of(n)] * (plim__key_wide(plim__in(g, n, 0)->dtype) ? 8 : 4);
}

/* The keys at two neighbouring ranks, from keys of which those before `from` are known to be the smallest. */
#define NEIGHBOURS_FN(name, T, select)                                                                                       \
    static void name(T *key, int64_t n, int64_t from, const plim__rank *r, uint64_t *below, uint64_t *above)                 \
    {                                                                                                                        \
        select(key + from, n - from, r->below - from);                                                                       \
        T next = key[r->below];                                                                                              \
        *below = next;                                                                                                       \
        if (r->above > r->below) {                                                                                           \
            next = key[r->above];                                                                                            \
            for (int64_t i = r->above; i < n; i++) next = key[i] < next ? key[i] : next;                                     \
        }                                                                                                                    \
        *above = next;                                                                                                       \
    }

NEIGHBOURS_FN(neighbours32, uint32_t, plim__select32)
NEIGHBOURS_FN(neighbours64, uint64_t, plim__select64)

/* Gathers a column's keys. @return whether there is a NaN among them */
static bool gather(void *key, const void *x, plim_dtype t, int64_t stride, int64_t n)
{
    bool nan = false;
    if (plim__key_wide(t)) {
        plim__keys64(key, x, t, stride, n);
        for (int64_t i = 0; i < n; i++) nan |= ((const uint64_t *)key)[i] == UINT64_MAX;
    } else {
        const uint32_t largest = (uint32_t)plim__key_max(t);
        plim__keys32(key, x, t, stride, n);
        for (int64_t i = 0; i < n; i++) nan |= ((const uint32_t *)key)[i] == largest;
    }
    return nan && plim__dtype_is_float(t);
}

static void select_column(const plim__call *c, char *out, const void *x, int64_t stride, int64_t n)
{
    const plim__view *q = &c->in[1], *to = &c->out[0];
    const plim_dtype t = c->in[0].dtype;
    const bool nan = gather(c->scratch, x, t, stride, n);
    const int64_t n_q = q->rank ? q->n[0] : 1, q_step = q->rank ? q->stride[0] : 0, out_step = q->rank ? to->stride[0] : 0;
    int64_t known = 0;
    for (int64_t k = 0; k < n_q; k++) {
        const plim__rank r = plim__rank_of(((const double *)q->data)[k * q_step], n);
        uint64_t below, above;
        if (r.below < known) known = 0;
        if (plim__key_wide(t)) neighbours64(c->scratch, n, known, &r, &below, &above);
        else neighbours32(c->scratch, n, known, &r, &below, &above);
        known = r.below;
        const double value = nan ? (double)NAN : plim__lerp(plim__key_value(t, below), plim__key_value(t, above), r.t);
        plim__convert(out + k * out_step * (int64_t)plim_dtype_bytes(to->dtype), to->dtype, &value, PLIM_F64, 1);
    }
}

static void select_run(const plim__call *c)
{
    const plim__node *n = c->node;
    const plim__view in = plim__call_in(c, 0);
    const uint32_t axis = axis_of(n);
    const plim__view out = plim__view_align(&c->out[0], c->in[1].rank, in.rank, n->attr.mask, n->attr.i[1] != 0);
    const int64_t columns = plim__column_count(&in, n->attr.mask);
    for (int64_t col = 0; col < columns; col++)
        select_column(c, plim__column(&out, n->attr.mask, col), plim__column(&in, n->attr.mask, col), in.stride[axis], in.n[axis]);
}

const plim__op_row plim__row_select = {
    .name = "select", .infer = select_infer, .axes = select_axes, .reads = select_reads, .scratch = select_scratch, .run = select_run,
    .work = order_work,
};

plim_status plim__op_select(plim_graph *g, uint32_t x, uint32_t q, uint32_t axis, bool keepdims, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(axis >= PLIM_MAX_RANK, err, PLIM_E_SHAPE, "quantile: dimension %u", axis);
    const plim__attr attr = {.mask = 1u << axis, .i = {axis, keepdims}};
    const uint32_t in[2] = {x, q};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_SELECT, in, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
