/* See line_needs.h. A recursive descent over the text of an expression; values are shapes. Nothing is allocated but by whoever calls. */
#include "watch/line_eval.h"

#include "core/size.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE ((uint64_t)256 << 10) /* smaller requests are not seen, and NumPy reuses temporaries from this size on */

static plim__line_value expression(plim__line *l);

/* ------------------------------------------------------------------------------------------------------ memory */

plim__line_value plim__line_fail(plim__line *l)
{
    l->unknown = true;
    return (plim__line_value){.kind = PLIM__LINE_NONE};
}

uint32_t plim__line_take(plim__line *l, uint64_t bytes)
{
    if (l->n_temps == PLIM__LINE_TEMPS || bytes > UINT64_MAX / 4 || l->live > UINT64_MAX / 4) {
        l->unknown = true;
        return 0;
    }
    l->before[l->n_temps] = l->live;
    for (uint32_t i = 0; i < l->n_temps; i++)
        if (l->temp[i].references && l->temp[i].bytes >= LARGE) l->large_before[l->n_temps] += l->temp[i].bytes;
    l->temp[l->n_temps].bytes = bytes;
    l->temp[l->n_temps].references = 1;
    l->live += bytes;
    return ++l->n_temps;
}

void plim__line_drop(plim__line *l, const plim__line_value *v)
{
    if (v->kind == PLIM__LINE_LIST || (v->kind == PLIM__LINE_PATH && v->item)) {
        const uint64_t n = v->kind == PLIM__LINE_PATH || v->alike ? 1 : v->count;
        for (uint64_t i = 0; i < n && v->item + i < l->n_pool; i++) plim__line_drop(l, &l->pool[v->item + i]);
    }
    if (!v->owner || v->owner > l->n_temps || !l->temp[v->owner - 1].references) return;
    if (--l->temp[v->owner - 1].references == 0) l->live -= l->temp[v->owner - 1].bytes;
}

uint64_t plim__line_bytes(const plim__line_value *v)
{
    uint64_t n = v->each;
    for (uint32_t i = 0; i < v->ndim; i++)
        if (!plim__mul(&n, n, v->dim[i])) return UINT64_MAX;
    return n;
}

plim__line_value plim__line_array(plim__line *l, const uint64_t *dim, uint32_t ndim, char type, uint32_t each)
{
    plim__line_value v = {.kind = PLIM__LINE_ARRAY, .ndim = ndim, .type = type, .each = each, .c_order = true, .one_piece = true};
    memmove(v.dim, dim, ndim * sizeof *dim);
    v.owner = plim__line_take(l, plim__line_bytes(&v));
    return v;
}

static uint32_t pool_put(plim__line *l, const plim__line_value *v)
{
    if (l->n_pool == PLIM__LINE_POOL) l->unknown = true;
    if (l->unknown) return 0;
    l->pool[l->n_pool] = *v;
    return l->n_pool++;
}

/* ------------------------------------------------------------------------------------------------------- types */

static bool is_scalar(const plim__line_value *v) { return v->kind == PLIM__LINE_INT || v->kind == PLIM__LINE_FLOAT; }

static uint32_t float_for(char type, uint32_t each) { return type == 'b' || each == 1 ? 2 : each == 2 ? 4 : 8; }

static bool promote_types(char *type, uint32_t *each, char other, uint32_t other_each)
{
    static const char order[] = "buifc";
    if (*type == other) {
        *each = *each > other_each ? *each : other_each;
        return true;
    }
    const char *a = strchr(order, *type), *b = strchr(order, other);
    if (!a || !b) return false;
    const char high = a > b ? *type : other, low = a > b ? other : *type;
    const uint32_t high_each = a > b ? *each : other_each, low_each = a > b ? other_each : *each;
    uint32_t need = low == 'b' ? 0 : low_each;
    *type = high;
    if (high == 'i' && low == 'u') { /* one bit is the sign's */
        if (low_each == 8) *type = 'f';
        need = low_each == 8 ? 8 : 2 * low_each;
    }
    if ((high == 'f' || high == 'c') && low != 'b' && low != 'f') need = float_for(low, low_each);
    if (high == 'c') need *= 2;
    *each = high_each > need ? high_each : need;
    return true;
}

bool plim__line_promote(const plim__line_value *a, const plim__line_value *b, char *type, uint32_t *each)
{
    const plim__line_value *array = a->kind == PLIM__LINE_ARRAY ? a : b, *other = array == a ? b : a;
    if (array->kind != PLIM__LINE_ARRAY) return false;
    *type = array->type;
    *each = array->each;
    if (is_scalar(other)) {
        const bool grows = other->kind == PLIM__LINE_FLOAT ? array->type != 'f' && array->type != 'c' : array->type == 'b';
        if (grows) *type = other->kind == PLIM__LINE_FLOAT ? 'f' : 'i', *each = 8;
        return true;
    }
    if (other->kind != PLIM__LINE_ARRAY) return false;
    /* NumPy 1 lets scalars of its own give way, NumPy 2 does not. */
    if (!array->ndim != !other->ndim && (array->type != other->type || array->each != other->each)) return false;
    return promote_types(type, each, other->type, other->each);
}

bool plim__line_broadcast(const plim__line_value *a, const plim__line_value *b, uint64_t *dim, uint32_t *ndim)
{
    *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (uint32_t i = 0; i < *ndim; i++) { /* from the last one on */
        const uint64_t x = i < a->ndim ? a->dim[a->ndim - 1 - i] : 1, y = i < b->ndim ? b->dim[b->ndim - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        dim[*ndim - 1 - i] = x == 1 ? y : x;
    }
    return true;
}

bool plim__line_shape(const plim__line *l, const plim__line_value *v, uint64_t *dim, uint32_t *ndim)
{
    const bool one = v->kind == PLIM__LINE_INT;
    if (!one && (v->kind != PLIM__LINE_LIST || v->count > PLIM__LINE_DIMS || v->item + v->count > l->n_pool)) return false;
    *ndim = one ? 1 : (uint32_t)v->count;
    for (uint32_t i = 0; i < *ndim; i++) {
        const plim__line_value *x = one ? v : &l->pool[v->item + (v->alike ? 0 : i)];
        if (x->kind != PLIM__LINE_INT || x->integer < 0) return false;
        dim[i] = (uint64_t)x->integer;
    }
    return true;
}

bool plim__line_dtype(const plim__line_value *v, char *type, uint32_t *each)
{
    static const struct {
        const char *name;
        char type;
        uint32_t each;
    } known[] = {
        {"float64", 'f', 8}, {"double", 'f', 8},    {"float", 'f', 8},  {"f8", 'f', 8},     {"d", 'f', 8},     {"float32", 'f', 4}, {"single", 'f', 4},
        {"f4", 'f', 4},      {"f", 'f', 4},         {"float16", 'f', 2}, {"half", 'f', 2},  {"f2", 'f', 2},    {"int64", 'i', 8},   {"int", 'i', 8},
        {"intp", 'i', 8},    {"i8", 'i', 8},        {"int32", 'i', 4},  {"i4", 'i', 4},     {"int16", 'i', 2}, {"i2", 'i', 2},      {"int8", 'i', 1},
        {"i1", 'i', 1},      {"uint64", 'u', 8},    {"u8", 'u', 8},     {"uint32", 'u', 4}, {"u4", 'u', 4},    {"uint16", 'u', 2},  {"u2", 'u', 2},
        {"uint8", 'u', 1},   {"u1", 'u', 1},        {"bool", 'b', 1},   {"bool_", 'b', 1},  {"complex128", 'c', 16}, {"complex", 'c', 16}, {"c16", 'c', 16},
        {"complex64", 'c', 8}, {"c8", 'c', 8},
    };
    if (v->kind == PLIM__LINE_DTYPE) {
        *type = v->type, *each = v->each;
        return true;
    }
    if (v->kind != PLIM__LINE_PATH && v->kind != PLIM__LINE_TEXT_OF) return false;
    const char *name = v->text;
    if (!strncmp(name, "np.", 3)) name += 3;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name)) continue;
        *type = known[i].type, *each = known[i].each;
        return true;
    }
    return false;
}

/* --------------------------------------------------------------------------------------------------- operators */

/* NumPy computes in the place of an operand that nobody else refers to. */
static bool can_reuse(const plim__line *l, const plim__line_value *v, const plim__line_value *other)
{
    char type = v->type;
    uint32_t each = v->each;
    if (v->kind != PLIM__LINE_ARRAY || !v->owner || v->view || l->temp[v->owner - 1].references != 1 || plim__line_bytes(v) < LARGE || v->type == 'b')
        return false;
    if (!other) return true;
    if (is_scalar(other)) return plim__line_promote(v, other, &type, &each) && type == v->type;
    if (other->kind != PLIM__LINE_ARRAY) return false;
    const bool same_shape = other->ndim == v->ndim && !memcmp(other->dim, v->dim, v->ndim * sizeof *v->dim);
    return (same_shape || !other->ndim) && promote_types(&type, &each, other->type, other->each) && type == v->type && each == v->each;
}

static bool scalars_fold(char op, const plim__line_value *a, const plim__line_value *b, plim__line_value *out)
{
    if (!is_scalar(a) || !is_scalar(b)) return false;
    const bool whole = a->kind == PLIM__LINE_INT && b->kind == PLIM__LINE_INT;
    const double x = a->kind == PLIM__LINE_INT ? (double)a->integer : a->number, y = b->kind == PLIM__LINE_INT ? (double)b->integer : b->number;
    double r;
    switch (op) {
    case '+': r = x + y; break;
    case '-': r = x - y; break;
    case '*': r = x * y; break;
    case '/': r = x / y; break;
    case 'q': r = floor(x / y); break;
    case '%': r = x - y * floor(x / y); break;
    case 'p': r = pow(x, y); break;
    case '<': r = ldexp(x, (int)y); break; /* << */
    default: return false;
    }
    if (!isfinite(r) || (whole && fabs(r) > 9e15)) return false;
    *out = (plim__line_value){.kind = whole && op != '/' ? PLIM__LINE_INT : PLIM__LINE_FLOAT, .integer = (int64_t)r, .number = r};
    return true;
}

static bool same_array(const plim__line_value *a, const plim__line_value *b)
{
    return a->kind == PLIM__LINE_ARRAY && b->kind == PLIM__LINE_ARRAY && !a->owner && !b->owner && a->ndim == b->ndim && a->type == b->type &&
           a->each == b->each && !memcmp(a->dim, b->dim, a->ndim * sizeof *a->dim);
}

/* Lists of arrays that are all alike: only how many there are is of interest. */
static bool joined(plim__line *l, const plim__line_value *a, const plim__line_value *b, plim__line_value *out)
{
    enum { POINTER = 8 };
    if (b->kind != PLIM__LINE_LIST || !a->alike || !b->alike || !same_array(&l->pool[a->item], &l->pool[b->item])) return false;
    *out = *a;
    out->count += b->count;
    out->owner = plim__line_take(l, out->count * POINTER);
    return true;
}

/* b'x' * n, [0] * n */
static bool repeated(plim__line *l, const plim__line_value *a, const plim__line_value *n, plim__line_value *out)
{
    enum { HEAD = 33, POINTER = 8 };
    if (n->kind != PLIM__LINE_INT || n->integer < 0 || a->count > UINT32_MAX || n->integer > UINT32_MAX) return false;
    const uint64_t count = a->count * (uint64_t)n->integer;
    *out = *a;
    out->count = count;
    out->text[0] = 0;
    if (a->kind == PLIM__LINE_BYTES)
        out->owner = plim__line_take(l, count + (a->view ? 1 : HEAD)); /* `view`: a bytearray, whose text lies apart */
    else if (a->kind == PLIM__LINE_LIST && (a->alike || a->count == 1))
        out->owner = plim__line_take(l, count * POINTER), out->alike = true;
    else
        return false;
    return true;
}

static plim__line_value matrix_product(plim__line *l, const plim__line_value *a, const plim__line_value *b)
{
    uint64_t dim[PLIM__LINE_DIMS];
    if (a->kind != PLIM__LINE_ARRAY || b->kind != PLIM__LINE_ARRAY || a->type != b->type || a->each != b->each || !a->ndim || !b->ndim || b->ndim > 2 ||
        !a->one_piece || !b->one_piece)
        return plim__line_fail(l);
    if (a->dim[a->ndim - 1] != b->dim[0]) return plim__line_fail(l);
    uint32_t n = a->ndim - 1;
    memcpy(dim, a->dim, n * sizeof *dim);
    if (b->ndim == 2) dim[n++] = b->dim[1];
    const plim__line_value out = plim__line_array(l, dim, n, a->type, a->each);
    if (!l->blurred_after && (a->type == 'f' || a->type == 'c')) l->blurred_after = l->n_temps;
    return out;
}

static plim__line_value arithmetic(plim__line *l, char op, const plim__line_value *a, const plim__line_value *b)
{
    static const char comparisons[] = "lgLGen"; /* < > <= >= == != */
    uint64_t dim[PLIM__LINE_DIMS];
    uint32_t ndim, each;
    char type;
    if (!plim__line_promote(a, b, &type, &each) || !plim__line_broadcast(a, b, dim, &ndim)) return plim__line_fail(l);
    if (strchr(comparisons, op)) return plim__line_array(l, dim, ndim, 'b', 1);
    const bool whole = type != 'f' && type != 'c', square = op == 'p' && is_scalar(b);
    const double power = b->kind == PLIM__LINE_INT ? (double)b->integer : b->number;
    if (op == '/' && whole) type = 'f', each = 8;
    if (op == 'p' && (!square || (power != 2 && whole))) return plim__line_fail(l);
    const bool in_place = square ? power == 2 || power == 0.5 || power == -1 : op != '/' || (!whole && a->type == type);
    if (in_place && can_reuse(l, a, square ? NULL : b)) return *a;
    if (in_place && strchr("+*&|^", op) && can_reuse(l, b, a)) return *b;
    return plim__line_array(l, dim, ndim, type, each);
}

plim__line_value plim__line_binary(plim__line *l, char op, plim__line_value a, plim__line_value b)
{
    plim__line_value out;
    if (l->unknown || scalars_fold(op, &a, &b, &out)) return l->unknown ? plim__line_fail(l) : out;
    if (op == '@')
        out = matrix_product(l, &a, &b);
    else if (op == '*' && (a.kind == PLIM__LINE_BYTES || a.kind == PLIM__LINE_LIST))
        out = repeated(l, &a, &b, &out) ? out : plim__line_fail(l);
    else if (op == '+' && a.kind == PLIM__LINE_LIST)
        out = joined(l, &a, &b, &out) ? out : plim__line_fail(l);
    else
        out = arithmetic(l, op, &a, &b);
    if (out.owner != a.owner || !a.owner) plim__line_drop(l, &a);
    if (out.owner != b.owner || !b.owner) plim__line_drop(l, &b);
    return out;
}

/* ------------------------------------------------------------------------------------------------------ tokens */

static void blanks(plim__line *l)
{
    while (*l->p == ' ' || *l->p == '\t') l->p++;
}

static bool take(plim__line *l, const char *token)
{
    blanks(l);
    const size_t n = strlen(token);
    if (strncmp(l->p, token, n)) return false;
    l->p += n;
    return true;
}

static bool word_read(plim__line *l, char *to, size_t size)
{
    blanks(l);
    size_t n = 0;
    if (!isalpha((unsigned char)*l->p) && *l->p != '_') return false;
    while (isalnum((unsigned char)l->p[n]) || l->p[n] == '_') n++;
    if (n >= size) return false;
    snprintf(to, size, "%.*s", (int)n, l->p);
    l->p += n;
    return true;
}

static plim__line_value number_read(plim__line *l)
{
    char text[48];
    size_t n = 0, out = 0;
    bool whole = true;
    for (; isalnum((unsigned char)l->p[n]) || l->p[n] == '.' || l->p[n] == '_' || ((l->p[n] == '-' || l->p[n] == '+') && n && tolower(l->p[n - 1]) == 'e'); n++) {
        if (l->p[n] == '_') continue;
        if (!isdigit((unsigned char)l->p[n])) whole = false;
        if (out + 1 >= sizeof text) return plim__line_fail(l);
        text[out++] = l->p[n];
    }
    text[out] = 0;
    char *end;
    const double value = strtod(text, &end);
    if (*end || out == 0 || (whole && value > 9e15)) return plim__line_fail(l);
    l->p += n;
    return (plim__line_value){.kind = whole ? PLIM__LINE_INT : PLIM__LINE_FLOAT, .integer = whole ? (int64_t)value : 0, .number = value};
}

/* 'text', b'bytes': without escapes. */
static plim__line_value text_read(plim__line *l, bool bytes)
{
    const char quote = *l->p++;
    const size_t n = strcspn(l->p, quote == '"' ? "\"\\" : "'\\");
    if (l->p[n] != quote || n >= PLIM__LINE_TEXT || (n == 0 && l->p[1] == quote)) return plim__line_fail(l);
    plim__line_value v = {.kind = bytes ? PLIM__LINE_BYTES : PLIM__LINE_TEXT_OF, .count = n};
    snprintf(v.text, sizeof v.text, "%.*s", (int)n, l->p);
    l->p += n + 1;
    return v;
}

/* ----------------------------------------------------------------------------------------------------- indexing */

typedef struct index {
    bool slice, has_from, has_to, has_step;
    int64_t from, to, step;
    plim__line_value value;
} index_of;

static bool index_bound(plim__line *l, bool *has, int64_t *to)
{
    blanks(l);
    *has = *l->p != ':' && *l->p != ',' && *l->p != ']';
    if (!*has) return true;
    const plim__line_value v = expression(l);
    *to = v.integer;
    return v.kind == PLIM__LINE_INT;
}

static bool index_read(plim__line *l, index_of *x)
{
    *x = (index_of){.step = 1};
    blanks(l);
    if (*l->p != ':') {
        x->value = expression(l);
        blanks(l);
        if (*l->p != ':') return !l->unknown;
        if (x->value.kind != PLIM__LINE_INT) return false;
        x->has_from = true;
        x->from = x->value.integer;
    }
    x->slice = true;
    l->p++;
    if (!index_bound(l, &x->has_to, &x->to)) return false;
    if (take(l, ":") && !index_bound(l, &x->has_step, &x->step)) return false;
    return x->step != 0 || !x->has_step;
}

static uint64_t slice_length(const index_of *x, uint64_t dim)
{
    const int64_t n = (int64_t)dim, step = x->has_step ? x->step : 1, lowest = step < 0 ? -1 : 0, highest = step < 0 ? n - 1 : n;
    int64_t from = x->has_from ? (x->from < 0 ? x->from + n : x->from) : step < 0 ? n - 1 : 0;
    int64_t to = x->has_to ? (x->to < 0 ? x->to + n : x->to) : step < 0 ? -1 : n;
    from = from < lowest ? lowest : from > highest ? highest : from;
    to = to < lowest ? lowest : to > highest ? highest : to;
    const int64_t length = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
    return length > 0 ? (uint64_t)length : 0;
}

typedef struct shape_of {
    uint64_t dim[PLIM__LINE_DIMS];
    uint32_t n;
} shape_of;

static bool shape_add(shape_of *s, uint64_t dim)
{
    if (s->n == PLIM__LINE_DIMS) return false;
    s->dim[s->n++] = dim;
    return true;
}

/* a[index] where one of the indices is an array of whole numbers: a copy. Otherwise what is left of `a` is a view. */
static plim__line_value array_index(plim__line *l, const plim__line_value *a, const index_of *x, uint32_t n)
{
    shape_of out = {.n = 0};
    uint32_t at = 0, used = 0;
    const plim__line_value *array = NULL;
    bool whole_rows = true; /* only the first dimension is cut, without a step: still in one piece */
    for (uint32_t i = 0; i < n; i++) used += x[i].slice || (x[i].value.kind != PLIM__LINE_NONE && x[i].value.kind != PLIM__LINE_ELLIPSIS);
    for (uint32_t i = 0; i < n; i++) {
        const plim__line_value *v = &x[i].value;
        bool ok = true;
        if (!x[i].slice && v->kind == PLIM__LINE_NONE) {
            ok = shape_add(&out, 1);
            continue;
        }
        if (!x[i].slice && v->kind == PLIM__LINE_ELLIPSIS) {
            for (; ok && at + used < a->ndim; at++) ok = shape_add(&out, a->dim[at]);
            if (!ok) return plim__line_fail(l);
            continue;
        }
        if (at >= a->ndim) return plim__line_fail(l);
        const bool cut = !x[i].slice || slice_length(&x[i], a->dim[at]) != a->dim[at] || (x[i].has_step && x[i].step != 1);
        whole_rows &= !cut || (at == 0 && !(x[i].has_step && x[i].step != 1));
        if (x[i].slice)
            ok = shape_add(&out, slice_length(&x[i], a->dim[at]));
        else if (v->kind == PLIM__LINE_ARRAY && !array && (v->type == 'i' || v->type == 'u') && v->each == 8 && at == 0)
            for (array = v; ok && out.n < v->ndim;) ok = shape_add(&out, v->dim[out.n]);
        else
            ok = v->kind == PLIM__LINE_INT;
        if (!ok) return plim__line_fail(l);
        at++;
        used--;
    }
    for (; at < a->ndim; at++)
        if (!shape_add(&out, a->dim[at])) return plim__line_fail(l);
    if (array) return plim__line_array(l, out.dim, out.n, a->type, a->each);
    plim__line_value v = *a;
    v.ndim = out.n;
    memcpy(v.dim, out.dim, sizeof out.dim);
    v.view = true;
    v.c_order = a->c_order && whole_rows;
    v.one_piece = v.c_order;
    return v;
}

static plim__line_value subscript(plim__line *l, plim__line_value a)
{
    index_of x[PLIM__LINE_DIMS];
    uint32_t n = 0;
    do {
        if (n == PLIM__LINE_DIMS || !index_read(l, &x[n])) return plim__line_fail(l);
        n++;
    } while (take(l, ","));
    if (!take(l, "]") || l->unknown) return plim__line_fail(l);
    if (a.kind == PLIM__LINE_LIST && n == 1 && !x[0].slice && x[0].value.kind == PLIM__LINE_INT) {
        const int64_t i = x[0].value.integer < 0 ? x[0].value.integer + (int64_t)a.count : x[0].value.integer;
        const uint64_t at = a.item + (a.alike ? 0 : (uint64_t)i);
        return a.owner || i < 0 || (uint64_t)i >= a.count || at >= l->n_pool ? plim__line_fail(l) : l->pool[at];
    }
    if (a.kind != PLIM__LINE_ARRAY) return plim__line_fail(l);
    const plim__line_value v = array_index(l, &a, x, n);
    for (uint32_t i = 0; i < n; i++)
        if (!x[i].slice) plim__line_drop(l, &x[i].value);
    if (!v.view || v.owner != a.owner) plim__line_drop(l, &a);
    return v;
}

/* -------------------------------------------------------------------------------------------- names, calls, lists */

static plim__line_value list_read(plim__line *l, const char *close)
{
    plim__line_value item[PLIM__LINE_DIMS], v = {.kind = PLIM__LINE_LIST};
    while (!take(l, close)) {
        if (l->unknown || v.count == PLIM__LINE_DIMS) return plim__line_fail(l);
        item[v.count++] = expression(l);
        if (!take(l, ",")) {
            if (!take(l, close)) return plim__line_fail(l);
            break;
        }
    }
    v.item = l->n_pool;
    v.alike = v.count > 0;
    for (uint64_t i = 0; i < v.count; i++) {
        v.alike &= same_array(&item[0], &item[i]);
        pool_put(l, &item[i]);
    }
    return v;
}

/* (a), or a tuple. */
static plim__line_value bracket(plim__line *l)
{
    const char *start = l->p;
    int depth = 1;
    bool tuple = false;
    for (const char *p = start; *p && depth; p++) {
        depth += *p == '(' || *p == '[';
        depth -= *p == ')' || *p == ']';
        tuple |= *p == ',' && depth == 1;
    }
    if (tuple || *start == ')') return list_read(l, ")");
    const plim__line_value v = expression(l);
    return take(l, ")") ? v : plim__line_fail(l);
}

/* name=value, where it is not name == value */
static bool keyword_read(plim__line *l, char *name, size_t size)
{
    const char *start = l->p;
    if (word_read(l, name, size) && take(l, "=") && *l->p != '=') return true;
    l->p = start;
    return false;
}

static plim__line_value call(plim__line *l, const plim__line_value *f)
{
    plim__line_args args = {.n = 0};
    while (!take(l, ")")) {
        char name[24];
        if (l->unknown || args.n == PLIM__LINE_ARGS || args.n_words == PLIM__LINE_WORDS || *l->p == '*') return plim__line_fail(l);
        if (keyword_read(l, name, sizeof name)) {
            memcpy(args.word[args.n_words].name, name, sizeof name);
            args.word[args.n_words++].value = expression(l);
        } else {
            args.plain[args.n++] = expression(l);
        }
        if (!take(l, ",")) {
            if (!take(l, ")")) return plim__line_fail(l);
            break;
        }
    }
    if (l->unknown || f->kind != PLIM__LINE_PATH) return plim__line_fail(l);
    const plim__line_value *self = f->item ? &l->pool[f->item] : NULL;
    const plim__line_value v = plim__line_call(l, f->text, self, &args);
    for (uint32_t i = 0; i < args.n; i++) plim__line_drop(l, &args.plain[i]);
    for (uint32_t i = 0; i < args.n_words; i++) plim__line_drop(l, &args.word[i].value);
    if (self) plim__line_drop(l, self);
    return v;
}

static plim__line_value shape_list(plim__line *l, const plim__line_value *a)
{
    plim__line_value v = {.kind = PLIM__LINE_LIST, .count = a->ndim, .item = l->n_pool};
    for (uint32_t i = 0; i < a->ndim; i++) {
        const plim__line_value n = {.kind = PLIM__LINE_INT, .integer = (int64_t)a->dim[i]};
        pool_put(l, &n);
    }
    return v;
}

static plim__line_value attribute(plim__line *l, plim__line_value v)
{
    char name[64];
    if (!word_read(l, name, sizeof name)) return plim__line_fail(l);
    if (v.kind == PLIM__LINE_PATH) {
        const size_t n = strlen(v.text);
        if (v.item || n + 1 + strlen(name) >= sizeof v.text) return plim__line_fail(l);
        snprintf(v.text + n, sizeof v.text - n, ".%s", name);
        if (!strcmp(v.text, "np.newaxis")) return (plim__line_value){.kind = PLIM__LINE_NONE};
        if (!strcmp(v.text, "np.pi") || !strcmp(v.text, "np.inf")) return (plim__line_value){.kind = PLIM__LINE_FLOAT, .number = 3};
        return v;
    }
    if (v.kind == PLIM__LINE_ARRAY && !strcmp(name, "T")) {
        for (uint32_t i = 0; i < v.ndim / 2; i++) {
            const uint64_t swap = v.dim[i];
            v.dim[i] = v.dim[v.ndim - 1 - i];
            v.dim[v.ndim - 1 - i] = swap;
        }
        v.view = true;
        v.c_order = v.c_order && v.ndim < 2;
        return v;
    }
    if (v.kind == PLIM__LINE_ARRAY && !v.owner) {
        uint64_t n = 1;
        for (uint32_t i = 0; i < v.ndim; i++) n *= v.dim[i];
        if (!strcmp(name, "shape")) return shape_list(l, &v);
        if (!strcmp(name, "size")) return (plim__line_value){.kind = PLIM__LINE_INT, .integer = (int64_t)n};
        if (!strcmp(name, "dtype")) return (plim__line_value){.kind = PLIM__LINE_DTYPE, .type = v.type, .each = v.each};
    }
    plim__line_value f = {.kind = PLIM__LINE_PATH, .item = pool_put(l, &v)};
    snprintf(f.text, sizeof f.text, "%s", name);
    return l->unknown ? plim__line_fail(l) : f;
}

static plim__line_value name_value(plim__line *l, const char *name)
{
    plim__line_value v = {0}, items[PLIM__LINE_DIMS];
    if (!strcmp(name, "None")) return v;
    if (!strcmp(name, "True") || !strcmp(name, "False")) return (plim__line_value){.kind = PLIM__LINE_INT, .integer = name[0] == 'T'};
    if (!strcmp(name, "np") || !strcmp(name, "numpy")) {
        v.kind = PLIM__LINE_PATH;
        snprintf(v.text, sizeof v.text, "np");
        return v;
    }
    if (l->names->value(l->names->ctx, name, &v, items)) {
        if (v.kind == PLIM__LINE_LIST) v.item = l->n_pool;
        for (uint64_t i = 0; v.kind == PLIM__LINE_LIST && i < (v.alike ? 1 : v.count); i++) pool_put(l, &items[i]);
        return v;
    }
    v = (plim__line_value){.kind = PLIM__LINE_PATH}; /* a function, or a type such as float */
    snprintf(v.text, sizeof v.text, "%s", name);
    return v;
}

static plim__line_value atom(plim__line *l)
{
    char name[64];
    blanks(l);
    if (take(l, "...")) return (plim__line_value){.kind = PLIM__LINE_ELLIPSIS};
    if (isdigit((unsigned char)*l->p) || (*l->p == '.' && isdigit((unsigned char)l->p[1]))) return number_read(l);
    if (*l->p == '\'' || *l->p == '"') return text_read(l, false);
    if (*l->p == 'b' && (l->p[1] == '\'' || l->p[1] == '"')) {
        l->p++;
        return text_read(l, true);
    }
    if (take(l, "(")) return bracket(l);
    if (take(l, "[")) return list_read(l, "]");
    return word_read(l, name, sizeof name) ? name_value(l, name) : plim__line_fail(l);
}

static plim__line_value postfix(plim__line *l)
{
    plim__line_value v = atom(l);
    while (!l->unknown) {
        if (take(l, "["))
            v = subscript(l, v);
        else if (take(l, "("))
            v = call(l, &v);
        else if (take(l, "."))
            v = attribute(l, v);
        else
            break;
    }
    return v;
}

/* ------------------------------------------------------------------------------------------------- precedence */

static plim__line_value unary(plim__line *l);

static plim__line_value power(plim__line *l)
{
    const plim__line_value a = postfix(l);
    return take(l, "**") ? plim__line_binary(l, 'p', a, unary(l)) : a;
}

static plim__line_value unary(plim__line *l)
{
    blanks(l);
    const char op = *l->p;
    if (l->unknown || !op || !strchr("-+~", op)) return power(l);
    l->p++;
    plim__line_value v = unary(l);
    if (v.kind == PLIM__LINE_INT || v.kind == PLIM__LINE_FLOAT) {
        if (op == '-') v.integer = -v.integer, v.number = -v.number;
        return op == '~' ? plim__line_fail(l) : v;
    }
    if (v.kind != PLIM__LINE_ARRAY) return plim__line_fail(l);
    if (can_reuse(l, &v, NULL)) return v;
    const plim__line_value out = plim__line_array(l, v.dim, v.ndim, v.type, v.each);
    plim__line_drop(l, &v);
    return out;
}

/* Operators by how tightly they bind, from the loosest on. `not` after a token: what it must not be followed by. */
static const struct {
    uint32_t level;
    const char *token, *not;
    char op;
} operators[] = {
    {0, "<=", "", 'L'}, {0, ">=", "", 'G'}, {0, "==", "", 'e'}, {0, "!=", "", 'n'}, {0, "<", "<", 'l'}, {0, ">", ">", 'g'}, {1, "|", "=", '|'},
    {2, "^", "=", '^'}, {3, "&", "=", '&'}, {4, "<<", "=", '<'}, {4, ">>", "=", '>'}, {5, "+", "=", '+'}, {5, "-", "=", '-'}, {6, "@", "=", '@'},
    {6, "//", "=", 'q'}, {6, "*", "*=", '*'}, {6, "/", "/=", '/'}, {6, "%", "=", '%'},
};
enum { LEVELS = 7 };

static char operator_take(plim__line *l, uint32_t level)
{
    blanks(l);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const size_t n = strlen(operators[i].token);
        if (operators[i].level != level || strncmp(l->p, operators[i].token, n) || (l->p[n] && strchr(operators[i].not, l->p[n]))) continue;
        l->p += n;
        return operators[i].op;
    }
    return 0;
}

static plim__line_value level_read(plim__line *l, uint32_t level)
{
    if (level == LEVELS) return unary(l);
    plim__line_value a = level_read(l, level + 1);
    for (char op; !l->unknown && (op = operator_take(l, level));) {
        const plim__line_value b = level_read(l, level + 1);
        a = plim__line_binary(l, op, a, b);
    }
    return a;
}

static plim__line_value expression(plim__line *l) { return l->unknown ? plim__line_fail(l) : level_read(l, 0); }

/* ------------------------------------------------------------------------------------------------------- lines */

/* What is computed: after "return" or the last "=" of an assignment. NULL where the line is no such thing. */
static const char *computed_part(const char *source)
{
    const char *part = source;
    int depth = 0;
    for (const char *p = source; *p; p++) {
        if (*p == '#' || *p == '\\' || *p == ';') return NULL;
        if (*p == '\'' || *p == '"') {
            p = strchr(p + 1, *p);
            if (!p) return NULL;
            continue;
        }
        depth += *p == '(' || *p == '[' || *p == '{';
        depth -= *p == ')' || *p == ']' || *p == '}';
        if (*p != '=' || depth) continue;
        if (p[1] == '=' || (p > source && strchr("=!<>", p[-1]))) {
            p += p[1] == '=';
            continue;
        }
        part = p + 1;
    }
    if (depth) return NULL;
    /* What is assigned to must cost nothing by itself. */
    for (const char *p = source; p < part; p++)
        if (*p == '(') return NULL;
    return part == source && !strncmp(source, "return ", 7) ? source + 7 : part;
}

/* The requests from the k-th on that are large enough to be seen. @return the largest of what the line has */
static uint64_t needs_from(const plim__line *l, uint32_t k, plim__line_needs *out)
{
    uint64_t most = 0;
    out->n = 0;
    for (uint32_t i = k; i < l->n_temps; i++) {
        const uint64_t then = l->before[i] + l->temp[i].bytes, more = then > l->before[k] ? then - l->before[k] : 0;
        if (l->temp[i].bytes < LARGE) continue;
        out->request[out->n].bytes = l->temp[i].bytes;
        out->request[out->n++].more = more;
        if (more > most) most = more;
    }
    return most;
}

/* Which allocation the request is. Where several are as large, what the line holds by now tells; where that does not, they have to need the same. */
static bool request_find(const plim__line *l, plim__line_needs *out, uint64_t asked, uint64_t held)
{
    enum { NEAR = 64 }; /* heads of objects differ by version */
    plim__line_needs other;
    uint64_t most = 0;
    bool found = false, differ = false;
    for (uint32_t k = 0; k < l->n_temps; k++) {
        const uint64_t bytes = l->temp[k].bytes, off = bytes > asked ? bytes - asked : asked - bytes;
        if (off > NEAR) continue;
        if (held == l->large_before[k]) return needs_from(l, k, out) > 0;
        const uint64_t here = needs_from(l, k, found ? &other : out);
        differ |= found && here != most;
        if (!found) most = here;
        found = true;
    }
    return found && !differ;
}

bool plim__line_needs_find(plim__line_needs *out, const char *source, uint64_t asked, uint64_t held, const plim__line_names *names)
{
    plim__line l = {.p = computed_part(source), .names = names, .asked = asked, .n_pool = 1}; /* item 0 is none */
    out->n = 0;
    if (!l.p) return false;
    expression(&l);
    while (!l.unknown && take(&l, ",")) expression(&l); /* a tuple without brackets */
    blanks(&l);
    if (l.unknown || *l.p) return false;
    for (uint32_t k = l.blurred_after; l.blurred_after && k < l.n_temps; k++)
        if (l.temp[k].bytes >= LARGE) return false;
    return request_find(&l, out, asked, held);
}
