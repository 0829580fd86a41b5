/* Arguments of a call as what the function needs them to be: an integer, an axis, a set of axes, a dtype. Each check fails with a message that
 * names the function and the parameter. */
#include "expr/lower.h"

#include <stdio.h>
#include <string.h>

const char *plim__arg_name(const plim__args *a, uint32_t k, char *buf)
{
    const char *s = a->fn->params;
    for (; k > 0; k--) {
        s += strcspn(s, ",");
        s += strspn(s, ", ");
    }
    snprintf(buf, 64, "%s: %.*s", a->fn->name, (int)strcspn(s, ",="), s);
    return buf;
}

static plim_status fail_kind(plim__lower *l, const plim__args *a, uint32_t k, const char *expected)
{
    char name[64];
    return plim__fail(l->err, PLIM_E_TYPE, "%s must be %s, not %s", plim__arg_name(a, k, name), expected, plim__item_text(&a->arg[k]));
}

bool plim__arg_is_none(const plim__args *a, uint32_t k)
{
    return a->arg[k].kind == PLIM__ITEM_NONE;
}

plim_status plim__arg_array(plim__lower *l, const plim__args *a, uint32_t k, uint32_t *v)
{
    const plim__item *x = &a->arg[k];
    if (x->kind != PLIM__ITEM_ARRAY && x->kind != PLIM__ITEM_SEQ && !plim__item_is_number(x)) return fail_kind(l, a, k, "an array");
    return plim__lower_array(l, x, v);
}

plim_status plim__arg_int(plim__lower *l, const plim__args *a, uint32_t k, int64_t *out)
{
    if (a->arg[k].kind != PLIM__ITEM_INT) return fail_kind(l, a, k, "an integer that is known now");
    *out = a->arg[k].i;
    return PLIM_OK;
}

plim_status plim__arg_float(plim__lower *l, const plim__args *a, uint32_t k, double *out)
{
    if (!plim__item_is_number(&a->arg[k])) return fail_kind(l, a, k, "a number that is known now");
    *out = a->arg[k].kind == PLIM__ITEM_FLOAT ? a->arg[k].f : (double)a->arg[k].i;
    return PLIM_OK;
}

plim_status plim__arg_bool(plim__lower *l, const plim__args *a, uint32_t k, bool *out)
{
    if (a->arg[k].kind != PLIM__ITEM_BOOL && a->arg[k].kind != PLIM__ITEM_INT) return fail_kind(l, a, k, "True or False");
    *out = a->arg[k].i != 0;
    return PLIM_OK;
}

plim_status plim__arg_dtype(plim__lower *l, const plim__args *a, uint32_t k, plim_dtype none, plim_dtype *out)
{
    const plim__item *x = &a->arg[k];
    char name[64];
    *out = x->kind == PLIM__ITEM_DTYPE ? x->dtype : none;
    if (x->kind == PLIM__ITEM_DTYPE || x->kind == PLIM__ITEM_NONE) return PLIM_OK;
    if (x->kind != PLIM__ITEM_STRING) return fail_kind(l, a, k, "a dtype such as f32");
    PLIM_FAIL_IF(!plim__dtype_find(x->text, x->n, out), l->err, PLIM_E_TYPE,
                 "%s: unknown dtype '%.*s' (known: bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64)",
                 plim__arg_name(a, k, name), (int)(x->n < 40 ? x->n : 40), x->text);
    return PLIM_OK;
}

static plim_status axis_of(plim__lower *l, const plim__args *a, uint32_t k, int64_t i, uint32_t rank, uint32_t *out)
{
    char name[64];
    PLIM_FAIL_IF(i < -(int64_t)rank || i >= (int64_t)rank, l->err, PLIM_E_SHAPE, "%s %lld is out of range: the array has %u dimension%s",
                 plim__arg_name(a, k, name), (long long)i, rank, rank == 1 ? "" : "s");
    *out = (uint32_t)(i < 0 ? i + rank : i);
    return PLIM_OK;
}

plim_status plim__arg_axis(plim__lower *l, const plim__args *a, uint32_t k, uint32_t rank, uint32_t *out)
{
    int64_t i = 0;
    PLIM_TRY(plim__arg_int(l, a, k, &i));
    return axis_of(l, a, k, i, rank, out);
}

plim_status plim__arg_ints(plim__lower *l, const plim__args *a, uint32_t k, int64_t *out, uint32_t cap, uint32_t *n)
{
    const plim__item *x = &a->arg[k];
    char name[64];
    *n = 1;
    if (x->kind == PLIM__ITEM_INT) {
        out[0] = x->i;
        return PLIM_OK;
    }
    if (x->kind != PLIM__ITEM_SEQ) return fail_kind(l, a, k, "an integer or a tuple of integers");
    PLIM_FAIL_IF(x->n > cap, l->err, PLIM_E_SHAPE, "%s has %u elements, %u at most%s", plim__arg_name(a, k, name), x->n, cap,
                 cap == PLIM_MAX_RANK ? ": arrays have no more dimensions" : "");
    *n = x->n;
    for (uint32_t i = 0; i < x->n; i++) {
        const plim__item e = plim__seq_at(l, x, i);
        PLIM_FAIL_IF(e.kind != PLIM__ITEM_INT, l->err, PLIM_E_TYPE, "%s must hold integers, not %s", plim__arg_name(a, k, name), plim__item_text(&e));
        out[i] = e.i;
    }
    return PLIM_OK;
}

plim_status plim__arg_axes(plim__lower *l, const plim__args *a, uint32_t k, uint32_t rank, uint32_t *mask, uint32_t *order, uint32_t *n)
{
    int64_t axis[PLIM_MAX_RANK];
    uint32_t count, d = 0;
    char name[64];
    *mask = 0;
    if (plim__arg_is_none(a, k)) {
        for (d = 0; d < rank && order; d++) order[d] = d;
        if (n) *n = rank;
        *mask = (1u << rank) - 1;
        return PLIM_OK;
    }
    PLIM_TRY(plim__arg_ints(l, a, k, axis, PLIM_MAX_RANK, &count));
    for (uint32_t i = 0; i < count; i++) {
        PLIM_TRY(axis_of(l, a, k, axis[i], rank, &d));
        PLIM_FAIL_IF(*mask >> d & 1, l->err, PLIM_E_SHAPE, "%s names dimension %u twice", plim__arg_name(a, k, name), d);
        *mask |= 1u << d;
        if (order) order[i] = d;
    }
    if (n) *n = count;
    return PLIM_OK;
}

plim_status plim__arg_word(plim__lower *l, const plim__args *a, uint32_t k, const char *const *words, uint32_t n_words, uint32_t *out)
{
    const plim__item *x = &a->arg[k];
    char name[64], list[128] = "";
    size_t at = 0;
    if (x->kind != PLIM__ITEM_STRING) return fail_kind(l, a, k, "a string");
    for (*out = 0; *out < n_words; (*out)++)
        if (plim__item_is_text(x, words[*out])) return PLIM_OK;
    for (uint32_t i = 0; i < n_words && at < sizeof list - 20; i++) at += (size_t)snprintf(list + at, sizeof list - at, "%s'%s'", i ? ", " : "",
                                                                                           words[i]);
    return plim__fail(l->err, PLIM_E_INVALID, "%s is one of %s, not '%.*s'", plim__arg_name(a, k, name), list, (int)(x->n < 40 ? x->n : 40), x->text);
}
