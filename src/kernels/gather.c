#include "kernels/gather.h"

#include "core/dtype.h"
#include "kernels/elementwise.h"
#include "kernels/strided.h"

#include <math.h>
#include <string.h>

/* What happens to the elements of one index: `a` and `x` are walked together; x is NULL where the index names nothing. */
typedef struct lookup lookup;
typedef void visit_fn(const lookup *l, char *a, char *x);
typedef void fold_fn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n);

struct lookup {
    plim__strided before, index, behind; /* each walks a and, in this order, x, the index, x */
    plim_dtype index_dtype;
    int64_t extent, step; /* of x along the dimension; bytes */
    uint64_t item;        /* bytes of an element */
    char fill[8];
    visit_fn *visit;
    fold_fn *fold;        /* scatter: what becomes of x and a */
};

/* Dimensions [first, first + n) of v. */
static plim__view dims_of(const plim__view *v, uint32_t first, uint32_t n)
{
    plim__view part = {.data = v->data, .dtype = v->dtype, .rank = n};
    for (uint32_t d = 0; d < n; d++) {
        part.n[d] = v->n[first + d];
        part.stride[d] = v->stride[first + d];
    }
    return part;
}

static void walk_together(plim__strided *s, const plim__view *a, const plim__view *b)
{
    const plim__view *const view[2] = {a, b};
    plim__strided_new(s, view, 2);
}

static int64_t position(const char *at, plim_dtype t, int64_t extent)
{
    int64_t i;
    if (t == PLIM_I32) {
        int32_t narrow;
        memcpy(&narrow, at, sizeof narrow);
        i = narrow;
    } else {
        memcpy(&i, at, sizeof i);
    }
    if (i < 0) i += extent;
    return i < 0 || i >= extent ? -1 : i;
}

/* Every index of the box, for one place in the dimensions before it. */
static void visit_indices(const lookup *l, char *a, char *x)
{
    const plim__strided *s = &l->index;
    const uint32_t last = s->rank - 1;
    char *data[PLIM__STRIDED_MAX] = {a, s->data[1]};
    int64_t at[PLIM_MAX_RANK] = {0};
    do {
        for (int64_t j = 0; j < s->n[last]; j++) {
            const int64_t p = position(data[1] + j * s->step[1][last], l->index_dtype, l->extent);
            l->visit(l, data[0] + j * s->step[0][last], p < 0 ? NULL : x + p * l->step);
        }
    } while (plim__strided_next(s, data, at, last));
}

static void lookup_run(lookup *l, const plim__view *a, const plim__view *x, const plim__view *index, uint32_t axis)
{
    const uint32_t ir = index->rank, rest = x->rank - axis - 1;
    const plim__view a_before = dims_of(a, 0, axis), a_index = dims_of(a, axis, ir), a_behind = dims_of(a, axis + ir, rest);
    const plim__view x_before = dims_of(x, 0, axis), x_behind = dims_of(x, axis + 1, rest);
    l->item = plim_dtype_bytes(x->dtype);
    l->index_dtype = index->dtype;
    l->extent = x->n[axis];
    l->step = x->stride[axis] * (int64_t)l->item;
    walk_together(&l->before, &a_before, &x_before);
    walk_together(&l->index, &a_index, index);
    walk_together(&l->behind, &a_behind, &x_behind);
    char *data[PLIM__STRIDED_MAX] = {a->data, x->data};
    int64_t at[PLIM_MAX_RANK] = {0};
    do visit_indices(l, data[0], data[1]);
    while (plim__strided_next(&l->before, data, at, l->before.rank));
}

/* ----------------------------------------------------------------------------------------------- gather */

static void copy_items(char *a, int64_t a_step, const char *x, int64_t x_step, uint64_t item, int64_t n)
{
    if (a_step == (int64_t)item) plim__gather(a, x, item, 1, n, 0, x_step);
    else for (int64_t j = 0; j < n; j++) memcpy(a + j * a_step, x + j * x_step, item);
}

static void visit_gather(const lookup *l, char *a, char *x)
{
    const plim__strided *s = &l->behind;
    const uint32_t last = s->rank - 1;
    const char *from = x ? x : l->fill;
    if (last == 0 && s->n[0] == 1) {
        if (l->item == 4) memcpy(a, from, 4);
        else memcpy(a, from, l->item);
        return;
    }
    char *data[PLIM__STRIDED_MAX] = {a, x ? x : a};
    int64_t at[PLIM_MAX_RANK] = {0};
    do copy_items(data[0], s->step[0][last], x ? data[1] : l->fill, x ? s->step[1][last] : 0, l->item, s->n[last]);
    while (plim__strided_next(s, data, at, last));
}

void plim__gather_run(const plim__view *a, const plim__view *x, const plim__view *index, uint32_t axis)
{
    if (plim__view_count(a) == 0) return;
    lookup l = {.visit = visit_gather};
    const double nothing = plim__dtype_is_float(x->dtype) ? NAN : 0;
    plim__convert(l.fill, x->dtype, &nothing, PLIM_F64, 1);
    lookup_run(&l, a, x, index, axis);
}

/* ---------------------------------------------------------------------------------------------- scatter */

#define FOLD_FN(name, T, both)                                                                  \
    static void name(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) \
    {                                                                                           \
        if (to_step == (int64_t)sizeof(T) && from_step == (int64_t)sizeof(T)) {                 \
            T *restrict x = (T *)(void *)to;                                                    \
            const T *restrict a = (const T *)(const void *)from;                                \
            for (int64_t j = 0; j < n; j++) x[j] = both(x[j], a[j]);                            \
            return;                                                                             \
        }                                                                                       \
        for (int64_t j = 0; j < n; j++) {                                                       \
            T *x = (T *)(void *)(to + j * to_step);                                             \
            *x = both(*x, *(const T *)(const void *)(from + j * from_step));                    \
        }                                                                                       \
    }

/* NaN passes, as in reductions. */
#define SUM_OF(x, a) ((x) + (a))
#define PRODUCT_OF(x, a) ((x) * (a))
#define SMALLER_OF(x, a) ((x) < (a) || (x) != (x) ? (x) : (a))
#define LARGER_OF(x, a) ((x) > (a) || (x) != (x) ? (x) : (a))
FOLD_FN(sum_f32, float, SUM_OF)
FOLD_FN(sum_f64, double, SUM_OF)
FOLD_FN(product_f32, float, PRODUCT_OF)
FOLD_FN(product_f64, double, PRODUCT_OF)
FOLD_FN(smaller_f32, float, SMALLER_OF)
FOLD_FN(smaller_f64, double, SMALLER_OF)
FOLD_FN(larger_f32, float, LARGER_OF)
FOLD_FN(larger_f64, double, LARGER_OF)

static fold_fn *const folds[4][2] = {
    [PLIM__FOLD_SUM] = {sum_f32, sum_f64}, [PLIM__FOLD_PROD] = {product_f32, product_f64},
    [PLIM__FOLD_MIN] = {smaller_f32, smaller_f64}, [PLIM__FOLD_MAX] = {larger_f32, larger_f64},
};

static void visit_scatter(const lookup *l, char *a, char *x)
{
    if (!x) return;
    const plim__strided *s = &l->behind;
    const uint32_t last = s->rank - 1;
    char *data[PLIM__STRIDED_MAX] = {a, x};
    int64_t at[PLIM_MAX_RANK] = {0};
    do l->fold(data[1], s->step[1][last], data[0], s->step[0][last], s->n[last]);
    while (plim__strided_next(s, data, at, last));
}

void plim__scatter_run(plim__fold how, const plim__view *x, const plim__view *a, const plim__view *index, uint32_t axis)
{
    if (plim__view_count(a) == 0) return;
    lookup l = {.visit = visit_scatter, .fold = folds[how][x->dtype == PLIM_F64]};
    lookup_run(&l, a, x, index, axis);
}
