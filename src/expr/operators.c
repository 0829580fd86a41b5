/* Elementwise arithmetic: NumPy's dtype rules, weak numbers, and what numbers give among themselves.
 *
 * Arrays promote to a common dtype (plim__dtype_promote); numbers follow it (NEP 50) and become constants of rank 0 in it. The class of the
 * function then says what comes out (kernels/elementwise.h). Numbers alone are folded: integers in checked 64 bits, everything else by the very kernel
 * that would run on arrays, so that a literal and an array of one element agree. */
#include "expr/lower.h"

#include <math.h>
#include <string.h>

const char *plim__item_text(const plim__item *x)
{
    static const char *const text[] = {
        [PLIM__ITEM_NONE] = "None", [PLIM__ITEM_BOOL] = "a truth value", [PLIM__ITEM_INT] = "an integer", [PLIM__ITEM_FLOAT] = "a number",
        [PLIM__ITEM_STRING] = "a string", [PLIM__ITEM_DTYPE] = "a dtype", [PLIM__ITEM_ELLIPSIS] = "'...'", [PLIM__ITEM_SLICE] = "a slice",
        [PLIM__ITEM_SEQ] = "a list", [PLIM__ITEM_ARRAY] = "an array",
    };
    return text[x->kind];
}

bool plim__item_is_text(const plim__item *x, const char *text)
{
    return x->kind == PLIM__ITEM_STRING && x->n == strlen(text) && !memcmp(x->text, text, x->n);
}

/* ------------------------------------------------------------------------------------------ constants */

static bool integer_fits(int64_t i, plim_dtype t)
{
    const uint64_t bits = 8 * plim_dtype_bytes(t);
    switch (plim__dtype_kind(t)) {
    case PLIM__KIND_BOOL: return i == 0 || i == 1;
    case PLIM__KIND_UINT: return i >= 0 && (bits == 64 || i < INT64_C(1) << bits);
    case PLIM__KIND_INT: return bits == 64 || (i >= -(INT64_C(1) << (bits - 1)) && i < INT64_C(1) << (bits - 1));
    default: return true;
    }
}

plim_status plim__lower_const(plim__lower *l, const plim__item *x, plim_dtype dtype, uint32_t *v)
{
    PLIM_FAIL_IF(!plim__item_is_number(x), l->err, PLIM_E_TYPE, "a number is expected, not %s", plim__item_text(x));
    const plim_shape scalar = {0};
    uint64_t bytes = 0;
    if (x->kind == PLIM__ITEM_FLOAT) {
        plim__convert(&bytes, dtype, &x->f, PLIM_F64, 1);
    } else {
        PLIM_FAIL_IF(!integer_fits(x->i, dtype), l->err, PLIM_E_TYPE,
                     "the integer %lld does not fit %s: convert the array first (x.astype(...)), or write it with a '.'", (long long)x->i,
                     plim_dtype_name(dtype));
        plim__convert(&bytes, dtype, &x->i, PLIM_I64, 1);
    }
    return plim__graph_const(l->g, dtype, &scalar, &bytes, v, l->err);
}

static plim_dtype strong_of(plim__item_kind k)
{
    return k == PLIM__ITEM_BOOL ? PLIM_BOOL : k == PLIM__ITEM_INT ? PLIM_I64 : PLIM_F64;
}

static plim__kind weak_kind(plim__item_kind k)
{
    return k == PLIM__ITEM_BOOL ? PLIM__KIND_BOOL : k == PLIM__ITEM_INT ? PLIM__KIND_INT : PLIM__KIND_FLOAT;
}

/* The shape of nested sequences, and the highest kind of number in them. */
static plim_status nested_shape(plim__lower *l, const plim__item *x, plim_shape *shape, plim__item_kind *kind)
{
    if (x->kind != PLIM__ITEM_SEQ) {
        PLIM_FAIL_IF(!plim__item_is_number(x), l->err, PLIM_E_TYPE, "a list of numbers is expected, not one with %s in it", plim__item_text(x));
        shape->rank = 0;
        if (x->kind > *kind) *kind = x->kind;
        return PLIM_OK;
    }
    plim_shape inner = {0};
    for (uint32_t k = 0; k < x->n; k++) {
        plim_shape one = {0};
        const plim__item e = plim__seq_at(l, x, k);
        PLIM_TRY(nested_shape(l, &e, &one, kind));
        PLIM_FAIL_IF(k > 0 && !plim__shape_equal(&one, &inner), l->err, PLIM_E_SHAPE,
                     "element %u of a list has another length than those before it", k);
        inner = one;
    }
    PLIM_TRY(plim__rank_check(l, "a list of lists", inner.rank + 1));
    shape->rank = inner.rank + 1;
    shape->dim[0] = x->n;
    memcpy(shape->dim + 1, inner.dim, inner.rank * sizeof inner.dim[0]);
    return PLIM_OK;
}

static void nested_fill(const plim__lower *l, const plim__item *x, plim_dtype dtype, char **at)
{
    if (x->kind == PLIM__ITEM_SEQ) {
        for (uint32_t k = 0; k < x->n; k++) {
            const plim__item e = plim__seq_at(l, x, k);
            nested_fill(l, &e, dtype, at);
        }
        return;
    }
    plim__convert(*at, dtype, x->kind == PLIM__ITEM_FLOAT ? (const void *)&x->f : &x->i, x->kind == PLIM__ITEM_FLOAT ? PLIM_F64 : PLIM_I64, 1);
    *at += plim_dtype_bytes(dtype);
}

static plim_status nested_const(plim__lower *l, const plim__item *x, uint32_t *v)
{
    plim_shape shape = {0};
    plim__item_kind kind = PLIM__ITEM_BOOL;
    uint64_t bytes;
    PLIM_TRY(nested_shape(l, x, &shape, &kind));
    const plim_dtype dtype = x->n == 0 ? PLIM_F64 : strong_of(kind);
    PLIM_TRY(plim_shape_bytes(&bytes, &shape, dtype, l->err));
    char *data = plim__new(&l->g->alloc, bytes, 1, l->err), *at = data;
    if (!data) return PLIM_E_NOMEM;
    nested_fill(l, x, dtype, &at);
    const plim_status status = plim__graph_const(l->g, dtype, &shape, data, v, l->err);
    plim__free(&l->g->alloc, data);
    return status;
}

plim_status plim__lower_array(plim__lower *l, const plim__item *x, uint32_t *v)
{
    if (x->kind == PLIM__ITEM_ARRAY) {
        *v = x->id;
        return PLIM_OK;
    }
    if (plim__item_is_number(x)) return plim__lower_const(l, x, strong_of(x->kind), v);
    if (x->kind == PLIM__ITEM_SEQ && !x->maps) return nested_const(l, x, v);
    return plim__fail(l->err, PLIM_E_TYPE, "an array or a number is expected, not %s",
                      x->kind == PLIM__ITEM_SEQ ? "a list of arrays" : plim__item_text(x));
}

plim_status plim__lower_promote(plim__lower *l, const plim__item *in, uint32_t n, plim_dtype *out)
{
    bool any = false;
    plim__item_kind weak = PLIM__ITEM_NONE;
    for (uint32_t k = 0; k < n; k++) {
        if (in[k].kind == PLIM__ITEM_ARRAY) {
            const plim_dtype t = plim__dtype_of(l, in[k].id);
            *out = any ? plim__dtype_promote(*out, t) : t;
            any = true;
        } else {
            PLIM_FAIL_IF(!plim__item_is_number(&in[k]), l->err, PLIM_E_TYPE, "an array or a number is expected, not %s", plim__item_text(&in[k]));
            if (in[k].kind > weak) weak = in[k].kind;
        }
    }
    if (!any) *out = strong_of(weak);
    if (any && weak != PLIM__ITEM_NONE) *out = plim__dtype_promote_weak(*out, weak_kind(weak));
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------- folding */

static plim_status fold_power(plim__lower *l, int64_t base, int64_t exponent, plim__item *out)
{
    int64_t r = 1;
    if (exponent < 0) {
        PLIM_FAIL_IF(base == 0, l->err, PLIM_E_INVALID, "0 cannot be raised to a negative power");
        *out = plim__item_float(pow((double)base, (double)exponent));
        return PLIM_OK;
    }
    if (base == 0 || base == 1 || base == -1) { /* any exponent is fine, and none needs a loop */
        *out = plim__item_int(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
        return PLIM_OK;
    }
    for (int64_t k = 0; k < exponent; k++)
        PLIM_FAIL_IF(__builtin_mul_overflow(r, base, &r), l->err, PLIM_E_OVERFLOW, "%lld ** %lld does not fit 64 bits", (long long)base,
                     (long long)exponent);
    *out = plim__item_int(r);
    return PLIM_OK;
}

static plim_status fold_division(plim__lower *l, plim__ew fn, int64_t a, int64_t b, plim__item *out)
{
    PLIM_FAIL_IF(b == 0, l->err, PLIM_E_INVALID, "division by zero");
    PLIM_FAIL_IF(a == INT64_MIN && b == -1 && fn == PLIM__EW_FLOOR_DIV, l->err, PLIM_E_OVERFLOW, "%lld // -1 does not fit 64 bits", (long long)a);
    const int64_t r = b == -1 ? 0 : a % b;
    const int64_t fix = r != 0 && (r < 0) != (b < 0);
    *out = plim__item_int(fn == PLIM__EW_MOD ? r + fix * b : (b == -1 ? -a : a / b) - fix);
    return PLIM_OK;
}

static plim_status fold_shift(plim__lower *l, plim__ew fn, int64_t a, int64_t b, plim__item *out)
{
    PLIM_FAIL_IF(b < 0, l->err, PLIM_E_INVALID, "negative shift count %lld", (long long)b);
    if (fn == PLIM__EW_SHIFT_RIGHT) {
        *out = plim__item_int(a >> (b < 63 ? b : 63));
        return PLIM_OK;
    }
    int64_t r = 0;
    PLIM_FAIL_IF(a != 0 && (b > 62 || __builtin_mul_overflow(a, INT64_C(1) << b, &r)), l->err, PLIM_E_OVERFLOW, "%lld << %lld does not fit 64 bits",
                 (long long)a, (long long)b);
    *out = plim__item_int(r);
    return PLIM_OK;
}

/* Integers and truth values among themselves, as Python has them. @return false: the function is not one of integers */
static bool fold_integers(plim__lower *l, plim__ew fn, const plim__item *in, plim__item *out, plim_status *status)
{
    const int64_t a = in[0].i, b = in[1].i;
    const bool truths = in[0].kind == PLIM__ITEM_BOOL && in[1].kind == PLIM__ITEM_BOOL;
    int64_t r = 0;
    bool overflow = false;
    *status = PLIM_OK;
    switch (fn) {
    case PLIM__EW_COPY: case PLIM__EW_FLOOR: case PLIM__EW_CEIL: case PLIM__EW_TRUNC: case PLIM__EW_ROUND: *out = in[0]; return true;
    case PLIM__EW_ADD: overflow = __builtin_add_overflow(a, b, &r); break;
    case PLIM__EW_SUB: overflow = __builtin_sub_overflow(a, b, &r); break;
    case PLIM__EW_MUL: overflow = __builtin_mul_overflow(a, b, &r); break;
    case PLIM__EW_SQUARE: overflow = __builtin_mul_overflow(a, a, &r); break;
    case PLIM__EW_NEG: overflow = __builtin_sub_overflow(INT64_C(0), a, &r); break;
    case PLIM__EW_ABS: overflow = a == INT64_MIN; r = overflow ? 0 : a < 0 ? -a : a; break;
    case PLIM__EW_SIGN: r = (a > 0) - (a < 0); break;
    case PLIM__EW_MINIMUM: r = a < b ? a : b; break;
    case PLIM__EW_MAXIMUM: r = a > b ? a : b; break;
    case PLIM__EW_WHERE: *out = a ? in[1] : in[2]; return true;
    case PLIM__EW_CLIP: r = a < b ? b : a; r = r > in[2].i ? in[2].i : r; break;
    case PLIM__EW_BIT_AND: r = a & b; break;
    case PLIM__EW_BIT_OR: r = a | b; break;
    case PLIM__EW_BIT_XOR: r = a ^ b; break;
    case PLIM__EW_BIT_NOT: *out = in[0].kind == PLIM__ITEM_BOOL ? plim__item_bool(!a) : plim__item_int(~a); return true;
    case PLIM__EW_POW: *status = fold_power(l, a, b, out); return true;
    case PLIM__EW_FLOOR_DIV: case PLIM__EW_MOD: *status = fold_division(l, fn, a, b, out); return true;
    case PLIM__EW_SHIFT_LEFT: case PLIM__EW_SHIFT_RIGHT: *status = fold_shift(l, fn, a, b, out); return true;
    default: return false;
    }
    if (overflow) *status = plim__fail(l->err, PLIM_E_OVERFLOW, "%s: the result does not fit 64 bits", plim__ew_name(fn));
    *out = truths && (fn == PLIM__EW_BIT_AND || fn == PLIM__EW_BIT_OR || fn == PLIM__EW_BIT_XOR) ? plim__item_bool(r) : plim__item_int(r);
    return true;
}

static plim_status fold(plim__lower *l, plim__ew fn, const plim__item *in, uint32_t n, plim__item *out)
{
    const plim__ew_class cls = plim__ew_class_of(fn);
    plim_status status;
    plim__item whole[3] = {{0}};
    bool integers = true;
    for (uint32_t k = 0; k < n; k++) {
        whole[k] = in[k];
        integers &= in[k].kind != PLIM__ITEM_FLOAT;
    }
    const bool truth = cls == PLIM__EW_COMPARE || cls == PLIM__EW_LOGIC || cls == PLIM__EW_TEST;
    if (integers && !truth && fold_integers(l, fn, whole, out, &status)) return status;
    PLIM_FAIL_IF(cls == PLIM__EW_INTS, l->err, PLIM_E_TYPE, "%s takes integers and truth values only", plim__ew_name(fn));

    const plim_dtype compute = integers && truth && cls != PLIM__EW_TEST ? PLIM_I64 : PLIM_F64;
    union { double f; int64_t i; } value[3] = {{0}}, result = {0};
    plim__view view[3] = {{0}};
    const plim__view to = {.data = &result, .dtype = truth ? PLIM_BOOL : PLIM_F64};
    for (uint32_t k = 0; k < n; k++) {
        if (compute == PLIM_I64) value[k].i = in[k].i;
        else value[k].f = in[k].kind == PLIM__ITEM_FLOAT ? in[k].f : (double)in[k].i;
        view[k] = (plim__view){.data = &value[k], .dtype = compute};
    }
    const bool divides = fn == PLIM__EW_DIV || fn == PLIM__EW_FLOOR_DIV || fn == PLIM__EW_MOD;
    PLIM_FAIL_IF(divides && value[1].f == 0, l->err, PLIM_E_INVALID, "division by zero");
    plim__ew_run(fn, compute, &to, view, n);
    *out = truth ? plim__item_bool(*(const unsigned char *)to.data != 0) : plim__item_float(result.f);
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------- dtype rules */

typedef struct rule {
    plim__ew fn;
    plim_dtype in;      /* what numbers become */
    plim_dtype compute, out;
} rule;

/* Arithmetic on truth values, as NumPy has it: + is or, * is and, ~ is not; - is refused; the rest counts in i8. */
static plim_status rule_bool(plim__lower *l, rule *r)
{
    switch (r->fn) {
    case PLIM__EW_ADD: r->fn = PLIM__EW_OR; return PLIM_OK;
    case PLIM__EW_MUL: r->fn = PLIM__EW_AND; return PLIM_OK;
    case PLIM__EW_BIT_NOT: r->fn = PLIM__EW_NOT; return PLIM_OK;
    case PLIM__EW_ABS: r->fn = PLIM__EW_COPY; return PLIM_OK;
    case PLIM__EW_SUB: return plim__fail(l->err, PLIM_E_TYPE, "subtract is not defined for bool: use ^, or convert one side (x.astype(i8))");
    case PLIM__EW_NEG: return plim__fail(l->err, PLIM_E_TYPE, "negative is not defined for bool: use ~, or convert it (x.astype(i8))");
    case PLIM__EW_SIGN: return plim__fail(l->err, PLIM_E_TYPE, "sign is not defined for bool");
    case PLIM__EW_FLOOR_DIV: case PLIM__EW_MOD: case PLIM__EW_POW: case PLIM__EW_SQUARE: case PLIM__EW_SHIFT_LEFT: case PLIM__EW_SHIFT_RIGHT:
        r->out = PLIM_I8;
        return PLIM_OK;
    default: return PLIM_OK;
    }
}

/* What the operands of a floating function promote to: arrays of integers alone go to their own floats first, as NumPy's loops have it. hypot of u8 and
 * i8 is f16, though both together are i16. @param t  what they promote to otherwise */
static plim_dtype promote_floats(const plim__lower *l, const plim__item *in, uint32_t n, plim_dtype t)
{
    plim_dtype f = PLIM_F16;
    for (uint32_t k = 0; k < n; k++) {
        if (in[k].kind != PLIM__ITEM_ARRAY || plim__dtype_is_float(t)) return t;
        f = plim__dtype_promote(f, plim__dtype_float_of(plim__dtype_of(l, in[k].id)));
    }
    return f;
}

static plim_status rule_of(plim__lower *l, plim__ew fn, plim_dtype t, rule *r)
{
    *r = (rule){.fn = fn, .in = t, .compute = plim__dtype_compute(t), .out = t};
    const bool real = plim__dtype_is_float(t);
    switch (plim__ew_class_of(fn)) {
    case PLIM__EW_INTS:
        PLIM_FAIL_IF(real, l->err, PLIM_E_TYPE, "%s takes integers and bool only, not %s", plim__ew_name(fn), plim_dtype_name(t));
        return t == PLIM_BOOL ? rule_bool(l, r) : PLIM_OK;
    case PLIM__EW_ARITH: return t == PLIM_BOOL ? rule_bool(l, r) : PLIM_OK;
    case PLIM__EW_FLOAT:
        r->out = fn == PLIM__EW_DIV && !real ? PLIM_F64 : plim__dtype_float_of(t);
        r->in = r->out; /* which may hold an integer that the array's own dtype cannot: u8 / 300 */
        r->compute = r->out == PLIM_F64 ? PLIM_F64 : PLIM_F32;
        return PLIM_OK;
    case PLIM__EW_ROUND_CLASS: return PLIM_OK;
    case PLIM__EW_TEST:
        r->compute = real ? r->compute : PLIM_F64;
        r->out = PLIM_BOOL;
        return PLIM_OK;
    case PLIM__EW_COMPARE: case PLIM__EW_LOGIC: r->out = PLIM_BOOL; return PLIM_OK;
    }
    return PLIM_OK;
}

/* NumPy refuses integers to negative integer powers. Only what is known now can be checked. */
static plim_status check_power(plim__lower *l, const plim__item *exponent)
{
    bool negative = plim__item_is_number(exponent) && exponent->kind != PLIM__ITEM_FLOAT && exponent->i < 0;
    if (exponent->kind == PLIM__ITEM_ARRAY) {
        const plim__value *v = &l->g->value[exponent->id];
        const uint64_t size = plim_dtype_bytes(v->dtype);
        for (uint64_t at = 0; v->kind == PLIM__VALUE_CONST && plim__dtype_kind(v->dtype) == PLIM__KIND_INT && at < v->bytes && !negative; at += size) {
            int64_t i = 0;
            plim__convert(&i, PLIM_I64, (const char *)v->data + at, v->dtype, 1);
            negative = i < 0;
        }
    }
    PLIM_FAIL_IF(negative, l->err, PLIM_E_TYPE,
                 "integers cannot be raised to negative integer powers: write the exponent with a '.', or convert the base");
    return PLIM_OK;
}

/* Powers that are another function, as NumPy's fast paths have them. */
static plim__ew power_shortcut(plim_dtype t, const plim__item *exponent)
{
    if (!plim__item_is_number(exponent) || t == PLIM_BOOL) return PLIM__EW_POW;
    const double e = exponent->kind == PLIM__ITEM_FLOAT ? exponent->f : (double)exponent->i;
    if (e == 2) return PLIM__EW_SQUARE;
    if (!plim__dtype_is_float(t)) return PLIM__EW_POW;
    return e == 0.5 ? PLIM__EW_SQRT : e == -1 ? PLIM__EW_RECIPROCAL : PLIM__EW_POW;
}

/* A comparison with an integer that the array's dtype cannot hold has an answer; arithmetic has none. */
static plim_dtype widen_compare(const plim__item *in, uint32_t n, plim_dtype t)
{
    for (uint32_t k = 0; k < n; k++)
        if (in[k].kind == PLIM__ITEM_INT && !integer_fits(in[k].i, t)) return plim__dtype_promote(t, PLIM_I64);
    return t;
}

static plim_status lower_ew_arrays(plim__lower *l, plim__ew fn, const plim__item *in, uint32_t n, plim__item *out)
{
    plim_dtype t = PLIM_BOOL;
    const uint32_t first = fn == PLIM__EW_WHERE; /* the condition takes no part in the dtype */
    PLIM_TRY(plim__lower_promote(l, in + first, n - first, &t));
    if (plim__ew_class_of(fn) == PLIM__EW_COMPARE) t = widen_compare(in, n, t);
    if (fn == PLIM__EW_POW) {
        if (!plim__dtype_is_float(t)) PLIM_TRY(check_power(l, &in[1]));
        fn = in[0].kind == PLIM__ITEM_ARRAY ? power_shortcut(t, &in[1]) : fn;
        n = plim__ew_arity(fn);
    }
    if (plim__ew_class_of(fn) == PLIM__EW_FLOAT && fn != PLIM__EW_DIV) t = promote_floats(l, in, n, t);
    rule r;
    PLIM_TRY(rule_of(l, fn, t, &r));
    uint32_t v[3];
    for (uint32_t k = 0; k < n; k++) {
        if (in[k].kind == PLIM__ITEM_ARRAY) v[k] = in[k].id;
        else PLIM_TRY(plim__lower_const(l, &in[k], k < first ? PLIM_BOOL : r.in, &v[k]));
    }
    const bool unchanged = n == 1 && plim__dtype_of(l, v[0]) == r.out &&
                           (r.fn == PLIM__EW_COPY || (plim__ew_class_of(r.fn) == PLIM__EW_ROUND_CLASS && !plim__dtype_is_float(t)));
    if (unchanged) {
        *out = plim__item_array(v[0]);
        return PLIM_OK;
    }
    PLIM_TRY(plim__lower_room(l));
    uint32_t result;
    PLIM_TRY(plim__op_elementwise(l->g, r.fn, r.compute, r.out, v, n, &result, l->err));
    *out = plim__item_array(result);
    return PLIM_OK;
}

plim_status plim__lower_ew(plim__lower *l, plim__ew fn, const plim__item *in, uint32_t n, plim__item *out)
{
    plim__item x[3];
    bool arrays = false;
    for (uint32_t k = 0; k < n; k++) {
        x[k] = in[k];
        if (!plim__item_is_number(&x[k])) {
            uint32_t v;
            PLIM_TRY(plim__lower_array(l, &x[k], &v));
            x[k] = plim__item_array(v);
            arrays = true;
        }
    }
    return arrays ? lower_ew_arrays(l, fn, x, n, out) : fold(l, fn, x, n, out);
}

plim_status plim__lower_ew2(plim__lower *l, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v)
{
    const plim__item in[2] = {plim__item_array(a), plim__item_array(b)};
    plim__item out;
    PLIM_TRY(plim__lower_ew(l, fn, in, 2, &out));
    *v = out.id;
    return PLIM_OK;
}

plim_status plim__lower_ew1(plim__lower *l, plim__ew fn, uint32_t a, uint32_t *v)
{
    const plim__item in = plim__item_array(a);
    plim__item out;
    PLIM_TRY(plim__lower_ew(l, fn, &in, 1, &out));
    *v = out.id;
    return PLIM_OK;
}

plim_status plim__lower_matmul(plim__lower *l, uint32_t a, uint32_t b, uint32_t *v)
{
    const plim_dtype t = plim__dtype_promote(plim__dtype_of(l, a), plim__dtype_of(l, b));
    PLIM_TRY(plim__op_cast(l->g, a, t, &a, l->err));
    PLIM_TRY(plim__op_cast(l->g, b, t, &b, l->err));
    return plim__op_matmul(l->g, a, b, t, v, l->err);
}

/* ------------------------------------------------------------------------------------------ operators */

static plim__ew ew_of_token(plim__token_kind op, uint32_t n)
{
    switch (op) {
    case PLIM__TOKEN_PLUS: return n == 1 ? PLIM__EW_COPY : PLIM__EW_ADD;
    case PLIM__TOKEN_MINUS: return n == 1 ? PLIM__EW_NEG : PLIM__EW_SUB;
    case PLIM__TOKEN_STAR: return PLIM__EW_MUL;
    case PLIM__TOKEN_SLASH: return PLIM__EW_DIV;
    case PLIM__TOKEN_SLASH2: return PLIM__EW_FLOOR_DIV;
    case PLIM__TOKEN_PERCENT: return PLIM__EW_MOD;
    case PLIM__TOKEN_STAR2: return PLIM__EW_POW;
    case PLIM__TOKEN_EQ: return PLIM__EW_EQUAL;
    case PLIM__TOKEN_NE: return PLIM__EW_NOT_EQUAL;
    case PLIM__TOKEN_LT: return PLIM__EW_LESS;
    case PLIM__TOKEN_LE: return PLIM__EW_LESS_EQUAL;
    case PLIM__TOKEN_GT: return PLIM__EW_GREATER;
    case PLIM__TOKEN_GE: return PLIM__EW_GREATER_EQUAL;
    case PLIM__TOKEN_AND: return PLIM__EW_BIT_AND;
    case PLIM__TOKEN_OR: return PLIM__EW_BIT_OR;
    case PLIM__TOKEN_XOR: return PLIM__EW_BIT_XOR;
    case PLIM__TOKEN_NOT: return PLIM__EW_BIT_NOT;
    case PLIM__TOKEN_SHL: return PLIM__EW_SHIFT_LEFT;
    default: return PLIM__EW_SHIFT_RIGHT;
    }
}

static plim_status apply_operator(plim__lower *l, const void *ctx, const plim__item *in, uint32_t n, plim__item *out)
{
    const plim__token_kind op = *(const plim__token_kind *)ctx;
    if (op != PLIM__TOKEN_AT) return plim__lower_ew(l, ew_of_token(op, n), in, n, out);
    uint32_t v[2], product;
    for (uint32_t k = 0; k < 2; k++) {
        PLIM_FAIL_IF(plim__item_is_number(&in[k]), l->err, PLIM_E_TYPE, "@ multiplies matrices: with a number use *");
        PLIM_TRY(plim__lower_array(l, &in[k], &v[k]));
    }
    PLIM_TRY(plim__lower_matmul(l, v[0], v[1], &product));
    *out = plim__item_array(product);
    return PLIM_OK;
}

plim_status plim__lower_operator(plim__lower *l, plim__token_kind op, const plim__item *in, uint32_t n, plim__item *out)
{
    return plim__lower_map(l, apply_operator, &op, in, n, out);
}
