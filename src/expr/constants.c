/* Arrays that the text itself makes. One value everywhere is a scalar that is broadcast, of any size; what has different elements is a constant of
 * the graph and may have PLIM__MAX_CONST_BYTES. */
#include "expr/lower.h"

#include <math.h>

static plim_status done(plim__item *out, uint32_t v)
{
    *out = plim__item_array(v);
    return PLIM_OK;
}

static plim_status filled(plim__lower *l, const plim_shape *shape, const plim__item *value, plim_dtype dtype, plim__item *out)
{
    uint32_t v;
    for (uint32_t d = 0; d < shape->rank; d++)
        PLIM_FAIL_IF(shape->dim[d] < 0, l->err, PLIM_E_SHAPE, "dimension %u is negative: %lld", d, (long long)shape->dim[d]);
    PLIM_TRY(plim__lower_const(l, value, dtype, &v));
    if (shape->rank) PLIM_TRY(plim__op_broadcast(l->g, v, shape, &v, l->err));
    return done(out, v);
}

/* zeros (data 0), ones (1), full (2). */
plim_status plim__call_full(plim__lower *l, const plim__args *a, plim__item *out)
{
    plim_shape shape = {0};
    plim_dtype t, own = PLIM_F64;
    const bool full = a->fn->data == 2;
    const plim__item value = full ? a->arg[1] : plim__item_int(a->fn->data);
    PLIM_TRY(plim__arg_ints(l, a, 0, shape.dim, PLIM_MAX_RANK, &shape.rank));
    if (full) PLIM_TRY(plim__lower_promote(l, &value, 1, &own));
    PLIM_TRY(plim__arg_dtype(l, a, full ? 2 : 1, own, &t));
    return filled(l, &shape, &value, t, out);
}

plim_status plim__call_full_like(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x;
    plim_dtype t;
    const bool full = a->fn->data == 2;
    const plim__item value = full ? a->arg[1] : plim__item_int(a->fn->data);
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_dtype(l, a, full ? 2 : 1, plim__dtype_of(l, x), &t));
    const plim_shape shape = plim__shape_of(l, x);
    return filled(l, &shape, &value, t, out);
}

/* start + step * i, or in integers where `whole`; `closed`: the last element is `last` exactly. */
typedef struct series {
    double start, step, last;
    int64_t first, by; /* of integers */
    bool whole, closed;
} series;

static plim_status series_const(plim__lower *l, const plim__args *a, const series *s, double count, plim_dtype t, plim__item *out)
{
    const double bytes = count * (double)plim_dtype_bytes(t);
    PLIM_FAIL_IF(!(bytes <= PLIM__MAX_CONST_BYTES), l->err, PLIM_E_UNSUPPORTED, "%s: %.0f elements of %s are more than 1 MiB; put them into a file",
                 a->fn->name, count,
                 plim_dtype_name(t));
    const plim_shape shape = {.rank = 1, .dim = {(int64_t)count}};
    const uint64_t n = (uint64_t)count, size = plim_dtype_bytes(t);
    uint32_t v;
    char *data = plim__new(&l->g->alloc, n, size, l->err);
    if (!data) return PLIM_E_NOMEM;
    for (uint64_t i = 0; i < n; i++) {
        const int64_t whole = (int64_t)((uint64_t)s->first + (uint64_t)s->by * i); /* inside [start, stop): the wrap never shows */
        const double real = s->closed && i + 1 == n ? s->last : s->start + s->step * (double)i;
        plim__convert(data + i * size, t, s->whole ? (const void *)&whole : &real, s->whole ? PLIM_I64 : PLIM_F64, 1);
    }
    const plim_status status = plim__graph_const(l->g, t, &shape, data, &v, l->err);
    plim__free(&l->g->alloc, data);
    PLIM_TRY(status);
    return done(out, v);
}

plim_status plim__lower_iota(plim__lower *l, int64_t n, uint32_t *v)
{
    const plim_shape shape = {.rank = 1, .dim = {n}};
    PLIM_FAIL_IF(n < 0 || n > (int64_t)(PLIM__MAX_CONST_BYTES / sizeof(int64_t)), l->err, PLIM_E_UNSUPPORTED, "%lld elements are too many",
                 (long long)n);
    int64_t *data = plim__new(&l->g->alloc, (uint64_t)n, sizeof *data, l->err);
    if (!data) return PLIM_E_NOMEM;
    for (int64_t i = 0; i < n; i++) data[i] = i;
    const plim_status status = plim__graph_const(l->g, PLIM_I64, &shape, data, v, l->err);
    plim__free(&l->g->alloc, data);
    return status;
}

plim_status plim__call_arange(plim__lower *l, const plim__args *a, plim__item *out)
{
    double start = 0, stop, step;
    plim_dtype t;
    const bool one = plim__arg_is_none(a, 1);
    PLIM_TRY(plim__arg_float(l, a, one ? 0 : 1, &stop));
    if (!one) PLIM_TRY(plim__arg_float(l, a, 0, &start));
    PLIM_TRY(plim__arg_float(l, a, 2, &step));
    PLIM_FAIL_IF(step == 0 || !isfinite(start) || !isfinite(stop) || !isfinite(step), l->err, PLIM_E_INVALID,
                 "arange: from %g to %g in steps of %g", start, stop, step);
    const bool whole = a->arg[0].kind != PLIM__ITEM_FLOAT && a->arg[1].kind != PLIM__ITEM_FLOAT && a->arg[2].kind != PLIM__ITEM_FLOAT;
    const series s = {.start = start, .step = step, .whole = whole, .first = one || !whole ? 0 : a->arg[0].i, .by = whole ? a->arg[2].i : 0};
    const double count = ceil((stop - start) / step);
    PLIM_TRY(plim__arg_dtype(l, a, 3, whole ? PLIM_I64 : PLIM_F64, &t));
    return series_const(l, a, &s, count > 0 ? count : 0, t, out);
}

plim_status plim__call_linspace(plim__lower *l, const plim__args *a, plim__item *out)
{
    series s = {0};
    int64_t num;
    plim_dtype t;
    PLIM_TRY(plim__arg_float(l, a, 0, &s.start));
    PLIM_TRY(plim__arg_float(l, a, 1, &s.last));
    PLIM_TRY(plim__arg_int(l, a, 2, &num));
    PLIM_TRY(plim__arg_bool(l, a, 3, &s.closed));
    PLIM_TRY(plim__arg_dtype(l, a, 4, PLIM_F64, &t));
    PLIM_FAIL_IF(num < 0, l->err, PLIM_E_INVALID, "linspace: %lld values", (long long)num);
    const int64_t steps = s.closed ? num - 1 : num;
    s.step = steps > 0 ? (s.last - s.start) / (double)steps : 0;
    s.closed &= num > 1; /* a single value is the start */
    return series_const(l, a, &s, (double)num, t, out);
}

plim_status plim__call_eye(plim__lower *l, const plim__args *a, plim__item *out)
{
    int64_t n, m, k;
    plim_dtype t;
    uint32_t v;
    PLIM_TRY(plim__arg_int(l, a, 0, &n));
    m = n;
    if (!plim__arg_is_none(a, 1)) PLIM_TRY(plim__arg_int(l, a, 1, &m));
    PLIM_TRY(plim__arg_int(l, a, 2, &k));
    PLIM_TRY(plim__arg_dtype(l, a, 3, PLIM_F64, &t));
    const uint64_t size = plim_dtype_bytes(t);
    PLIM_FAIL_IF(n < 0 || m < 0, l->err, PLIM_E_SHAPE, "eye: %lld rows of %lld", (long long)n, (long long)m);
    PLIM_FAIL_IF((double)n * (double)m * (double)size > PLIM__MAX_CONST_BYTES, l->err, PLIM_E_UNSUPPORTED,
                 "eye: %lld rows of %lld are more than 1 MiB; put them into a file",
                 (long long)n, (long long)m);
    char *data = plim__new(&l->g->alloc, (uint64_t)n * (uint64_t)m, size, l->err);
    if (!data) return PLIM_E_NOMEM;
    const int64_t one = 1;
    for (int64_t i = 0; i < n; i++)
        if (k >= -i && k < m - i) plim__convert(data + (uint64_t)(i * m + i + k) * size, t, &one, PLIM_I64, 1);
    const plim_shape shape = {.rank = 2, .dim = {n, m}};
    const plim_status status = plim__graph_const(l->g, t, &shape, data, &v, l->err);
    plim__free(&l->g->alloc, data);
    PLIM_TRY(status);
    return done(out, v);
}

plim_status plim__call_asarray(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t v;
    plim_dtype t;
    PLIM_TRY(plim__arg_array(l, a, 0, &v));
    PLIM_TRY(plim__arg_dtype(l, a, 1, plim__dtype_of(l, v), &t));
    PLIM_TRY(plim__op_cast(l->g, v, t, &v, l->err));
    return done(out, v);
}

plim_status plim__call_len(plim__lower *l, const plim__args *a, plim__item *out)
{
    if (a->arg[0].kind == PLIM__ITEM_SEQ) {
        *out = plim__item_int(a->arg[0].n);
        return PLIM_OK;
    }
    uint32_t x;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_FAIL_IF(s.rank == 0, l->err, PLIM_E_SHAPE, "len: a scalar has no length");
    *out = plim__item_int(s.dim[0]);
    return PLIM_OK;
}
