#include "kernels/softmax.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/order.h"
#include "kernels/reduce.h"

#define LANES(name) name##_base
#include "kernels/softmax_lanes.inc"

#define BLOCK 16384     /* elements: two blocks of f64 stay in the second-level cache */
#define COLUMNS_MAX 512 /* of a block; one number each is on the stack */
#define COLUMNS_MIN 128 /* where columns lie side by side: a few cache lines of each row */

static const plim__softmax_lanes *lanes_for(plim_dtype t) { return &PLIM__BEST(plim__softmax_lanes)[t == PLIM_F64]; }

/* ---------------------------------------------------------------------------------------------- blocks */

/* A block is a box of columns, whole along the axis. */
typedef struct blocks {
    plim__region whole, at;
    int64_t take[PLIM_MAX_RANK];
} blocks;

/* As many columns as fit, the last dimensions first: neighbours in memory more often than not. `v` is not empty. */
static blocks blocks_new(const plim__view *v, uint32_t axis)
{
    blocks b = {.whole = plim__view_region(v)};
    b.at = b.whole;
    int64_t left = plim__clamp(BLOCK / v->n[axis], v->stride[axis] == 1 ? 1 : COLUMNS_MIN, COLUMNS_MAX);
    for (uint32_t d = v->rank; d-- > 0;) {
        b.take[d] = d == axis ? v->n[d] : plim__min(v->n[d], left);
        if (d != axis) left /= b.take[d];
        b.at.dim[d].hi = b.at.dim[d].lo + b.take[d];
    }
    return b;
}

static bool blocks_next(blocks *b)
{
    for (uint32_t d = b->whole.rank; d-- > 0;) {
        plim__range *r = &b->at.dim[d];
        const bool more = r->hi < b->whole.dim[d].hi;
        r->lo = more ? r->hi : b->whole.dim[d].lo;
        r->hi = plim__min(r->lo + b->take[d], b->whole.dim[d].hi);
        if (more) return true;
    }
    return false;
}

/* One number per column of `block`, dense at `data`: with extent 1 along the axis, or repeated along it. */
static plim__view per_column(void *data, plim_dtype t, const plim__view *block, uint32_t axis, bool repeated)
{
    plim__region r = plim__view_region(block);
    r.dim[axis] = (plim__range){0, 1};
    plim__view v = plim__view_dense(data, t, &r);
    v.stride[axis] = 0;
    if (repeated) {
        v.n[axis] = block->n[axis];
        v.lo[axis] = block->lo[axis];
    }
    return v;
}

/* The next stretch of the axis in a block whose columns are too long for the cache. @return false after the last */
static bool stretch_next(plim__region *r, uint32_t axis, const plim__region *block, int64_t length)
{
    const int64_t from = r->dim[axis].hi;
    r->dim[axis] = (plim__range){from, plim__min(from + length, block->dim[axis].hi)};
    return plim__range_len(r->dim[axis]) > 0;
}

static int64_t stretch_length(const plim__view *block, uint32_t axis)
{
    const int64_t columns = (int64_t)plim__view_count(block) / block->n[axis];
    return plim__max(BLOCK / columns, 1);
}

static plim__region stretch_first(const plim__region *block, uint32_t axis)
{
    plim__region r = *block;
    r.dim[axis].hi = r.dim[axis].lo;
    return r;
}

static void ew2(plim__ew fn, const plim__view *out, const plim__view *a, const plim__view *b)
{
    const plim__view in[2] = {*a, *b};
    plim__ew_run(fn, out->dtype, out, in, 2);
}

/* ------------------------------------------------------------------------------------------- dense rows */

/* Where the columns of a block begin. */
static int64_t rows_find(char *row[COLUMNS_MAX], const plim__view *block, uint32_t axis)
{
    const int64_t columns = plim__column_count(block, 1u << axis);
    for (int64_t c = 0; c < columns; c++) row[c] = plim__column(block, 1u << axis, c);
    return columns;
}

/* A block of rows: out = exp(in - top) by stretches, then divided by the sum, or the logarithm from `in` again. */
static void rows_run(const plim__view *out, const plim__view *in, uint32_t axis, bool logarithm)
{
    const plim__softmax_lanes *lanes = lanes_for(out->dtype);
    const plim__region block = plim__view_region(out);
    const int64_t n = out->n[axis], item = (int64_t)plim_dtype_bytes(out->dtype);
    char *to[COLUMNS_MAX], *from[COLUMNS_MAX];
    double top[COLUMNS_MAX], sum[COLUMNS_MAX];
    const int64_t columns = rows_find(to, out, axis);
    rows_find(from, in, axis);
    for (int64_t c = 0; c < columns; c++) {
        top[c] = lanes->top(from[c], n);
        sum[c] = 0;
    }
    plim__region r = stretch_first(&block, axis);
    while (stretch_next(&r, axis, &block, stretch_length(out, axis))) {
        const int64_t at = (r.dim[axis].lo - out->lo[axis]) * item, m = plim__range_len(r.dim[axis]);
        const plim__view o = plim__view_part(out, &r);
        for (int64_t c = 0; c < columns; c++) lanes->shift(to[c] + at, from[c] + at, top[c], m);
        plim__ew_run(PLIM__EW_EXP, o.dtype, &o, &o, 1);
        for (int64_t c = 0; c < columns; c++) sum[c] += lanes->sum(to[c] + at, m);
    }
    for (int64_t c = 0; c < columns; c++) {
        if (logarithm) lanes->lower(to[c], from[c], top[c], log(sum[c]), n);
        else lanes->scale(to[c], 1 / sum[c], n);
    }
}

static void rows_back_run(const plim__view *dx, const plim__view *y, const plim__view *dy, uint32_t axis, bool log)
{
    const plim__softmax_lanes *lanes = lanes_for(dx->dtype);
    const int64_t n = dx->n[axis];
    char *to[COLUMNS_MAX], *from[COLUMNS_MAX], *by[COLUMNS_MAX];
    const int64_t columns = rows_find(to, dx, axis);
    rows_find(from, y, axis);
    rows_find(by, dy, axis);
    if (log) plim__ew_run(PLIM__EW_EXP, dx->dtype, dx, y, 1);
    for (int64_t c = 0; c < columns; c++) {
        if (log) lanes->back_log(to[c], by[c], lanes->sum(by[c], n), n);
        else lanes->back(to[c], from[c], by[c], lanes->dot(from[c], by[c], n), n);
    }
}

/* ------------------------------------------------------------------------------------------- softmax */

/* out = exp(in - top), `sum` their sums: one pass over the memory. */
static void exponentials(const plim__view *out, const plim__view *in, void *top, const plim__view *sum, uint32_t axis)
{
    const plim__region block = plim__view_region(out);
    plim__region r = stretch_first(&block, axis);
    while (stretch_next(&r, axis, &block, stretch_length(out, axis))) {
        const plim__view o = plim__view_part(out, &r), i = plim__view_part(in, &r), t = per_column(top, in->dtype, &o, axis, true);
        ew2(PLIM__EW_SUB, &o, &i, &t);
        plim__ew_run(PLIM__EW_EXP, o.dtype, &o, &o, 1);
        plim__reduce_run(PLIM__FOLD_SUM, sum, &o, 1u << axis);
    }
}

/* out = (in - top) - log(sum): not in - (top + log(sum)), where a large top would take the digits. */
static void logarithms(const plim__view *out, const plim__view *in, void *top, double *sum, uint32_t axis)
{
    const plim__view s = per_column(sum, PLIM_F64, out, axis, false);
    plim__ew_run(PLIM__EW_LOG, PLIM_F64, &s, &s, 1);
    const plim__region block = plim__view_region(out);
    plim__region r = stretch_first(&block, axis);
    while (stretch_next(&r, axis, &block, stretch_length(out, axis))) {
        const plim__view o = plim__view_part(out, &r), i = plim__view_part(in, &r);
        const plim__view t = per_column(top, in->dtype, &o, axis, true), l = per_column(sum, PLIM_F64, &o, axis, true);
        ew2(PLIM__EW_SUB, &o, &i, &t);
        ew2(PLIM__EW_SUB, &o, &o, &l);
    }
}

static void block_run(const plim__view *out, const plim__view *in, uint32_t axis, bool log)
{
    double top[COLUMNS_MAX], sum[COLUMNS_MAX];
    const plim__view t = per_column(top, in->dtype, out, axis, false), s = per_column(sum, PLIM_F64, out, axis, false);
    plim__reduce_init(PLIM__FOLD_MAX, &t);
    plim__reduce_init(PLIM__FOLD_SUM, &s);
    plim__reduce_run(PLIM__FOLD_MAX, &t, in, 1u << axis);
    exponentials(out, in, top, &s, axis);
    const plim__view all = per_column(sum, PLIM_F64, out, axis, true);
    if (log) logarithms(out, in, top, sum, axis);
    else ew2(PLIM__EW_DIV, out, out, &all);
}

void plim__softmax_run(const plim__view *out, const plim__view *in, uint32_t axis, bool log)
{
    if (plim__view_count(out) == 0) return;
    const bool dense = out->stride[axis] == 1 && in->stride[axis] == 1;
    blocks b = blocks_new(out, axis);
    do {
        const plim__view o = plim__view_part(out, &b.at), i = plim__view_part(in, &b.at);
        (dense ? rows_run : block_run)(&o, &i, axis, log);
    } while (blocks_next(&b));
}

/* ------------------------------------------------------------------------------------------ gradients */

/* The sums of dy * y, or of dy. `spare` has the block's extents and holds nothing yet. */
static void back_sums(const plim__view *sum, const plim__view *spare, const plim__view *y, const plim__view *dy, uint32_t axis, bool log)
{
    if (log) {
        plim__reduce_run(PLIM__FOLD_SUM, sum, dy, 1u << axis);
        return;
    }
    const plim__region block = plim__view_region(spare);
    plim__region r = stretch_first(&block, axis);
    while (stretch_next(&r, axis, &block, stretch_length(spare, axis))) {
        const plim__view o = plim__view_part(spare, &r), a = plim__view_part(y, &r), b = plim__view_part(dy, &r);
        ew2(PLIM__EW_MUL, &o, &a, &b);
        plim__reduce_run(PLIM__FOLD_SUM, sum, &o, 1u << axis);
    }
}

static void block_back_run(const plim__view *dx, const plim__view *y, const plim__view *dy, uint32_t axis, bool log)
{
    double sum[COLUMNS_MAX];
    const plim__view s = per_column(sum, PLIM_F64, dx, axis, false);
    const plim__region block = plim__view_region(dx);
    plim__reduce_init(PLIM__FOLD_SUM, &s);
    back_sums(&s, dx, y, dy, axis, log);
    plim__region r = stretch_first(&block, axis);
    while (stretch_next(&r, axis, &block, stretch_length(dx, axis))) {
        const plim__view o = plim__view_part(dx, &r), a = plim__view_part(y, &r), d = plim__view_part(dy, &r);
        const plim__view all = per_column(sum, PLIM_F64, &o, axis, true);
        if (log) {
            plim__ew_run(PLIM__EW_EXP, o.dtype, &o, &a, 1);
            ew2(PLIM__EW_MUL, &o, &o, &all);
            ew2(PLIM__EW_SUB, &o, &d, &o);
        } else {
            ew2(PLIM__EW_SUB, &o, &d, &all);
            ew2(PLIM__EW_MUL, &o, &o, &a);
        }
    }
}

void plim__softmax_back_run(const plim__view *dx, const plim__view *y, const plim__view *dy, uint32_t axis, bool log)
{
    if (plim__view_count(dx) == 0) return;
    const bool dense = dx->stride[axis] == 1 && y->stride[axis] == 1 && dy->stride[axis] == 1;
    blocks b = blocks_new(dx, axis);
    do {
        const plim__view o = plim__view_part(dx, &b.at), a = plim__view_part(y, &b.at), d = plim__view_part(dy, &b.at);
        (dense ? rows_back_run : block_back_run)(&o, &a, &d, axis, log);
    } while (blocks_next(&b));
}
