/* The functions of NumPy, and a few of Python, whose allocations are known: for each what it takes and what comes out of it, as NumPy 1.2x and 2 do it.
 * A keyword that is not named here makes a call unknown, for it may change what is allocated. */
#include "watch/line_eval.h"

#include "core/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef plim__line_value value;

typedef struct row {
    const char *name;
    value (*call)(plim__line *l, plim__line_args *a, const struct row *row);
    const char *words; /* keywords that it may have, with blanks around them */
    char how;          /* for those that share a function */
} row;

/* --------------------------------------------------------------------------------------------------- arguments */

static const value *word(const plim__line_args *a, const char *name)
{
    for (uint32_t i = 0; i < a->n_words; i++)
        if (!strcmp(a->word[i].name, name)) return &a->word[i].value;
    return NULL;
}

static const value *argument(const plim__line_args *a, uint32_t i, const char *name)
{
    const value *w = name ? word(a, name) : NULL;
    return w ? w : i < a->n ? &a->plain[i] : NULL;
}

static bool is_array(const value *v) { return v && v->kind == PLIM__LINE_ARRAY; }

static bool dtype_or(const value *v, char *type, uint32_t *each) { return !v || v->kind == PLIM__LINE_NONE || plim__line_dtype(v, type, each); }

static uint64_t count_of(const value *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->ndim; i++)
        if (!plim__mul(&n, n, v->dim[i])) return UINT64_MAX;
    return n;
}

/* Which dimensions `axis` names, as bits; all where it names none. */
static bool axes(const plim__line *l, const value *axis, uint32_t ndim, uint32_t *out)
{
    *out = 0;
    if (!axis || axis->kind == PLIM__LINE_NONE) {
        *out = (1u << ndim) - 1;
        return true;
    }
    const uint64_t n = axis->kind == PLIM__LINE_INT ? 1 : axis->kind == PLIM__LINE_LIST ? axis->count : 0;
    for (uint64_t i = 0; i < n; i++) {
        const value *v = axis->kind == PLIM__LINE_INT ? axis : &l->pool[axis->item + i];
        const int64_t at = v->integer < 0 ? v->integer + ndim : v->integer;
        if (v->kind != PLIM__LINE_INT || at < 0 || at >= ndim) return false;
        *out |= 1u << at;
    }
    return n > 0;
}

/* The same memory, seen otherwise. The result holds on to it. */
static value view_of(plim__line *l, const value *a)
{
    value v = *a;
    v.view = true;
    if (v.owner) l->temp[v.owner - 1].references++;
    return v;
}

/* ------------------------------------------------------------------------------------------------ elementwise */

static value call_unary(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL);
    if (!is_array(x) || a->n != 1) return plim__line_fail(l);
    char type = x->type;
    uint32_t each = x->each;
    if (r->how == 'f' && type != 'f' && type != 'c') each = type == 'b' || each == 1 ? 2 : each == 2 ? 4 : 8, type = 'f';
    if (r->how == 'b') type = 'b', each = 1;
    if (r->how == 'a' && type == 'c') type = 'f', each /= 2;
    return plim__line_array(l, x->dim, x->ndim, type, each);
}

static value call_binary(plim__line *l, plim__line_args *a, const row *r)
{
    uint64_t dim[PLIM__LINE_DIMS];
    uint32_t ndim, each;
    char type;
    if (a->n != 2 || !plim__line_promote(&a->plain[0], &a->plain[1], &type, &each) || !plim__line_broadcast(&a->plain[0], &a->plain[1], dim, &ndim))
        return plim__line_fail(l);
    if (r->how == '/' && type != 'f' && type != 'c') type = 'f', each = 8;
    if (r->how == 'b') type = 'b', each = 1;
    return plim__line_array(l, dim, ndim, type, each);
}

static value call_where(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    uint64_t dim[PLIM__LINE_DIMS];
    uint32_t ndim, each = 8;
    char type = 'f';
    if (a->n != 3 || !is_array(&a->plain[0])) return plim__line_fail(l);
    const value *x = &a->plain[1], *y = &a->plain[2];
    if (!is_array(x) && !is_array(y)) return plim__line_fail(l);
    value both = {.kind = PLIM__LINE_ARRAY};
    if (!plim__line_promote(x, y, &type, &each) || !plim__line_broadcast(x, y, both.dim, &both.ndim)) return plim__line_fail(l);
    if (!plim__line_broadcast(&a->plain[0], &both, dim, &ndim)) return plim__line_fail(l);
    return plim__line_array(l, dim, ndim, type, each);
}

/* ------------------------------------------------------------------------------------------------------ makers */

static value call_make(plim__line *l, plim__line_args *a, const row *r)
{
    uint64_t dim[PLIM__LINE_DIMS];
    uint32_t ndim, each = 8;
    char type = 'f';
    const value *shape = argument(a, 0, "shape"), *dtype = argument(a, r->how == 'v' ? 2 : 1, "dtype");
    if (r->how == 'v') { /* full(shape, value) */
        const value *fill = argument(a, 1, "fill_value");
        if (!fill || (fill->kind != PLIM__LINE_INT && fill->kind != PLIM__LINE_FLOAT)) return plim__line_fail(l);
        if (fill->kind == PLIM__LINE_INT) type = 'i';
    }
    if (!shape || !plim__line_shape(l, shape, dim, &ndim) || !dtype_or(dtype, &type, &each)) return plim__line_fail(l);
    return plim__line_array(l, dim, ndim, type, each);
}

static value call_like(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL);
    if (!is_array(x)) return plim__line_fail(l);
    char type = x->type;
    uint32_t each = x->each;
    if (!dtype_or(argument(a, r->how == 'v' ? 2 : 1, "dtype"), &type, &each)) return plim__line_fail(l);
    return plim__line_array(l, x->dim, x->ndim, type, each);
}

static value call_eye(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    uint32_t each = 8;
    char type = 'f';
    const value *n = argument(a, 0, "N"), *m = argument(a, 1, "M");
    if (!m || m->kind == PLIM__LINE_NONE) m = n;
    if (!n || n->kind != PLIM__LINE_INT || m->kind != PLIM__LINE_INT || n->integer < 0 || m->integer < 0 || !dtype_or(word(a, "dtype"), &type, &each))
        return plim__line_fail(l);
    return plim__line_array(l, (uint64_t[]){(uint64_t)n->integer, (uint64_t)m->integer}, 2, type, each);
}

static value call_arange(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    double at[3] = {0, 0, 1};
    char type = 'i';
    uint32_t each = 8;
    if (a->n < 1 || a->n > 3) return plim__line_fail(l);
    for (uint32_t i = 0; i < a->n; i++) {
        const value *v = &a->plain[i];
        if (v->kind != PLIM__LINE_INT && v->kind != PLIM__LINE_FLOAT) return plim__line_fail(l);
        if (v->kind == PLIM__LINE_FLOAT) type = 'f';
        at[a->n == 1 ? 1 : i] = v->kind == PLIM__LINE_INT ? (double)v->integer : v->number;
    }
    const double n = ceil((at[1] - at[0]) / at[2]);
    if (!(n >= 0 && n < 9e15) || !dtype_or(word(a, "dtype"), &type, &each)) return plim__line_fail(l);
    return plim__line_array(l, &(uint64_t){(uint64_t)n}, 1, type, each);
}

/* rand(3, 4), random((3, 4)), normal(0, 1, (3, 4)), randint(0, 9, n) */
static value call_random(plim__line *l, plim__line_args *a, const row *r)
{
    uint64_t dim[PLIM__LINE_DIMS];
    uint32_t ndim = 0, each = 8;
    char type = r->how == 'i' ? 'i' : 'f';
    if (!dtype_or(word(a, "dtype"), &type, &each)) return plim__line_fail(l);
    if (r->how == 'r') { /* each argument is a dimension */
        for (; ndim < a->n; ndim++) {
            if (a->plain[ndim].kind != PLIM__LINE_INT || a->plain[ndim].integer < 0) return plim__line_fail(l);
            dim[ndim] = (uint64_t)a->plain[ndim].integer;
        }
        return ndim ? plim__line_array(l, dim, ndim, type, each) : plim__line_fail(l);
    }
    const uint32_t before = r->how == '0' ? 0 : 2;
    for (uint32_t i = 0; i < a->n && i < before; i++)
        if (a->plain[i].kind != PLIM__LINE_INT && a->plain[i].kind != PLIM__LINE_FLOAT) return plim__line_fail(l);
    const value *size = argument(a, before, "size");
    if (!size || !plim__line_shape(l, size, dim, &ndim)) return plim__line_fail(l);
    return plim__line_array(l, dim, ndim, type, each);
}

static value call_rng(plim__line *l, plim__line_args *a, const row *r)
{
    (void)l, (void)a, (void)r;
    value v = {.kind = PLIM__LINE_OBJECT};
    strcpy(v.text, "Generator");
    return v;
}

/* ------------------------------------------------------------------------------------------------------- copies */

static value call_copy(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL);
    if (!is_array(x)) return plim__line_fail(l);
    char type = x->type;
    uint32_t each = x->each;
    if (!dtype_or(r->how == 'k' ? NULL : argument(a, 1, "dtype"), &type, &each)) return plim__line_fail(l);
    const bool same = type == x->type && each == x->each, may_keep = r->how == 'a' || (r->how == 'c' && x->c_order);
    const value *copy = word(a, "copy");
    if (same && (may_keep || (copy && copy->kind == PLIM__LINE_INT && !copy->integer))) return view_of(l, x);
    return plim__line_array(l, x->dim, x->ndim, type, each);
}

/* concatenate, vstack, hstack ('c': along an axis that is there), stack ('s': along a new one) */
static value call_join(plim__line *l, plim__line_args *a, const row *r)
{
    const value *list = argument(a, 0, NULL);
    if (!list || list->kind != PLIM__LINE_LIST || !list->count || list->item >= l->n_pool) return plim__line_fail(l);
    value out = l->pool[list->item];
    if (!is_array(&out)) return plim__line_fail(l);
    uint64_t elements = 0;
    for (uint64_t i = 0; i < list->count; i++) {
        const value *x = &l->pool[list->item + (list->alike ? 0 : i)];
        if (!is_array(x) || x->ndim != out.ndim || !plim__line_promote(&out, x, &out.type, &out.each) || !plim__add(&elements, elements, count_of(x)))
            return plim__line_fail(l);
    }
    /* Where it is only asked for how much there is, the shape is that of all of them in a row; so a result that is used again has to be one
     * whose shape is known. */
    uint32_t bits = 1;
    if (r->how != 's' && !axes(l, argument(a, 1, "axis") ? argument(a, 1, "axis") : &(value){.kind = PLIM__LINE_INT}, out.ndim, &bits)) return plim__line_fail(l);
    uint32_t axis = (uint32_t)__builtin_ctz(bits);
    if (r->how == 'h' && out.ndim > 1) axis = 1;
    if (r->how == 's' || (r->how == 'v' && out.ndim == 1)) {
        const value *at = word(a, "axis");
        if (out.ndim == PLIM__LINE_DIMS || (at && at->kind != PLIM__LINE_INT)) return plim__line_fail(l);
        const uint32_t to = at ? (uint32_t)(at->integer < 0 ? at->integer + (int64_t)out.ndim + 1 : at->integer) : 0;
        if (to > out.ndim) return plim__line_fail(l);
        memmove(out.dim + to + 1, out.dim + to, (out.ndim - to) * sizeof *out.dim);
        out.dim[to] = list->count;
        out.ndim++;
    } else {
        out.dim[axis] = 1;
        const uint64_t others = count_of(&out);
        out.dim[axis] = others ? elements / others : 0;
    }
    return plim__line_array(l, out.dim, out.ndim, out.type, out.each);
}

/* As NumPy does it: repeated along one dimension after the other, each result beside the one before. */
static value call_tile(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    uint64_t times[PLIM__LINE_DIMS], dim[PLIM__LINE_DIMS];
    uint32_t n, ndim;
    const value *x = argument(a, 0, "A"), *reps = argument(a, 1, "reps");
    if (!is_array(x) || !reps || !plim__line_shape(l, reps, times, &n)) return plim__line_fail(l);
    ndim = n > x->ndim ? n : x->ndim;
    for (uint32_t i = 0; i < ndim; i++) dim[i] = i + x->ndim >= ndim ? x->dim[i + x->ndim - ndim] : 1;
    value now = {0};
    for (uint32_t i = 0; i < ndim; i++) {
        const uint64_t k = i + n >= ndim ? times[i + n - ndim] : 1;
        if (k == 1) continue;
        dim[i] *= k;
        const value next = plim__line_array(l, dim, ndim, x->type, x->each);
        plim__line_drop(l, &now);
        now = next;
    }
    return now.owner ? now : plim__line_array(l, dim, ndim, x->type, x->each);
}

static value call_repeat(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL), *n = argument(a, 1, "repeats"), *axis = argument(a, 2, "axis");
    uint32_t bits;
    if (!is_array(x) || !n || n->kind != PLIM__LINE_INT || n->integer < 0 || !axes(l, axis, x->ndim, &bits) || !x->c_order) return plim__line_fail(l);
    if (!axis) return plim__line_array(l, &(uint64_t){count_of(x) * (uint64_t)n->integer}, 1, x->type, x->each);
    value out = *x;
    out.dim[__builtin_ctz(bits)] *= (uint64_t)n->integer;
    return plim__line_array(l, out.dim, out.ndim, out.type, out.each);
}

static value call_outer(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    char type;
    uint32_t each;
    if (a->n != 2 || !is_array(&a->plain[0]) || !is_array(&a->plain[1]) || !a->plain[0].c_order || !a->plain[1].c_order ||
        !plim__line_promote(&a->plain[0], &a->plain[1], &type, &each))
        return plim__line_fail(l);
    return plim__line_array(l, (uint64_t[]){count_of(&a->plain[0]), count_of(&a->plain[1])}, 2, type, each);
}

/* Each of the results is a copy. */
static value call_meshgrid(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    uint64_t dim[PLIM__LINE_DIMS];
    value out = {.kind = PLIM__LINE_LIST, .count = a->n};
    const value *indexing = word(a, "indexing");
    const bool swapped = !indexing || strcmp(indexing->text, "ij");
    if (a->n < 2 || a->n > PLIM__LINE_DIMS || l->n_pool + a->n > PLIM__LINE_POOL) return plim__line_fail(l);
    for (uint32_t i = 0; i < a->n; i++) {
        if (!is_array(&a->plain[i]) || a->plain[i].ndim != 1) return plim__line_fail(l);
        dim[swapped && i < 2 ? 1 - i : i] = a->plain[i].dim[0];
    }
    out.item = l->n_pool;
    for (uint32_t i = 0; i < a->n; i++) {
        const value copy = plim__line_array(l, dim, a->n, a->plain[i].type, a->plain[i].each);
        l->pool[l->n_pool++] = copy;
    }
    return out;
}

static value call_sort(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL);
    if (!is_array(x)) return plim__line_fail(l);
    return plim__line_array(l, x->dim, x->ndim, r->how == 'i' ? 'i' : x->type, r->how == 'i' ? 8 : x->each);
}

static value call_cumulate(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL), *axis = argument(a, 1, "axis");
    if (!is_array(x)) return plim__line_fail(l);
    char type = x->type;
    uint32_t each = x->each;
    if (type == 'b' || type == 'i') type = 'i', each = 8;
    if (type == 'u') each = 8;
    if (!dtype_or(word(a, "dtype"), &type, &each) || (!axis && !x->c_order)) return plim__line_fail(l);
    return axis ? plim__line_array(l, x->dim, x->ndim, type, each) : plim__line_array(l, &(uint64_t){count_of(x)}, 1, type, each);
}

static value call_diff(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL), *axis = word(a, "axis");
    uint32_t bits;
    if (!is_array(x) || a->n != 1 || x->type == 'b' || !axes(l, axis ? axis : &(value){.kind = PLIM__LINE_INT, .integer = -1}, x->ndim, &bits))
        return plim__line_fail(l);
    value out = *x;
    uint64_t *dim = &out.dim[__builtin_ctz(bits)];
    *dim -= *dim > 0;
    return plim__line_array(l, out.dim, out.ndim, out.type, out.each);
}

/* Lengths without large prime factors are done directly, others by way of a longer one. */
static bool is_smooth(uint64_t n)
{
    for (uint64_t p = 2; p <= 13; p++)
        while (n && n % p == 0) n /= p;
    return n == 1;
}

/* The result, then one row of roots of unity and one to work in. Of numbers of 8 bytes: smaller ones are computed in another precision by NumPy 1
 * and 2. */
static value call_fft(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL);
    if (!is_array(x) || a->n != 1 || !x->ndim || !((x->type == 'f' && x->each == 8) || (x->type == 'c' && x->each == 16)) || !x->c_order)
        return plim__line_fail(l);
    value out = *x;
    const uint64_t row_length = x->dim[x->ndim - 1];
    if (!is_smooth(row_length)) return plim__line_fail(l);
    if (r->how == 'r') out.dim[out.ndim - 1] = row_length / 2 + 1;
    out = plim__line_array(l, out.dim, out.ndim, 'c', 16);
    const value roots = plim__line_array(l, &row_length, 1, 'c', r->how == 'r' ? 8 : 16), room = plim__line_array(l, &row_length, 1, 'c', roots.each);
    plim__line_drop(l, &roots);
    plim__line_drop(l, &room);
    return out;
}

/* --------------------------------------------------------------------------------------------------- reductions */

static value reduced(plim__line *l, const value *x, uint32_t bits, bool keep, char type, uint32_t each)
{
    value out = {.ndim = 0};
    for (uint32_t i = 0; i < x->ndim; i++) {
        if (!(bits >> i & 1))
            out.dim[out.ndim++] = x->dim[i];
        else if (keep)
            out.dim[out.ndim++] = 1;
    }
    return plim__line_array(l, out.dim, out.ndim, type, each);
}

/* sum, min ... ('s', 'k': the type stays), mean ('m'), argmax ('i'), any ('b'), std and var ('v': beside the differences from the mean) */
static value call_reduce(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL), *keep = word(a, "keepdims");
    uint32_t bits, each;
    if (!is_array(x) || !axes(l, argument(a, 1, "axis"), x->ndim, &bits)) return plim__line_fail(l);
    char type = x->type;
    each = x->each;
    if (r->how == 's' && type != 'f' && type != 'c') type = type == 'u' ? 'u' : 'i', each = 8;
    if ((r->how == 'm' || r->how == 'v') && type != 'f' && type != 'c') type = 'f', each = 8;
    if (r->how == 'i') type = 'i', each = 8;
    if (r->how == 'b') type = 'b', each = 1;
    if (!dtype_or(word(a, "dtype"), &type, &each)) return plim__line_fail(l);
    if (r->how != 'v') return reduced(l, x, bits, keep && keep->integer, type, each);
    if (type == 'c' || each == 2) return plim__line_fail(l);
    const value mean = reduced(l, x, bits, true, type, each), differences = plim__line_array(l, x->dim, x->ndim, type, each);
    const value out = reduced(l, x, bits, keep && keep->integer, type, each);
    plim__line_drop(l, &mean);
    plim__line_drop(l, &differences);
    return out;
}

static value call_norm(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL), *axis = word(a, "axis"), *keep = word(a, "keepdims");
    uint32_t bits;
    if (!is_array(x) || a->n != 1 || x->type != 'f' || !axes(l, axis, x->ndim, &bits)) return plim__line_fail(l);
    if (!axis && !x->one_piece) return plim__line_fail(l);
    if (axis && axis->kind != PLIM__LINE_INT) return plim__line_fail(l);
    if (!axis) return reduced(l, x, bits, keep && keep->integer, x->type, x->each);
    const value squares = plim__line_array(l, x->dim, x->ndim, x->type, x->each);
    const value sum = reduced(l, x, bits, keep && keep->integer, x->type, x->each), root = plim__line_array(l, sum.dim, sum.ndim, sum.type, sum.each);
    plim__line_drop(l, &squares);
    plim__line_drop(l, &sum);
    return root;
}

/* -------------------------------------------------------------------------------------------------------- views */

static value call_reshape(plim__line *l, plim__line_args *a, const row *r)
{
    const value *x = argument(a, 0, NULL);
    value to = {.kind = PLIM__LINE_LIST, .item = l->n_pool, .count = a->n - 1};
    if (!is_array(x)) return plim__line_fail(l);
    if (r->how == 'r') { /* ravel */
        to = (value){.kind = PLIM__LINE_INT, .integer = -1};
    } else if (a->n == 2) {
        to = a->plain[1];
    } else {
        for (uint32_t i = 1; i < a->n; i++) {
            if (l->n_pool == PLIM__LINE_POOL) return plim__line_fail(l);
            l->pool[l->n_pool++] = a->plain[i];
        }
    }
    const uint64_t n = to.kind == PLIM__LINE_INT ? 1 : to.kind == PLIM__LINE_LIST ? to.count : 0, all = count_of(x);
    uint64_t known = 1, *open = NULL;
    value v = *x;
    if (!n || n > PLIM__LINE_DIMS) return plim__line_fail(l);
    v.ndim = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++) {
        const value *d = to.kind == PLIM__LINE_INT ? &to : &l->pool[to.item + i];
        if (d->kind != PLIM__LINE_INT || (d->integer < 0 && open)) return plim__line_fail(l);
        if (d->integer < 0)
            open = &v.dim[i];
        else if (!plim__mul(&known, known, v.dim[i] = (uint64_t)d->integer))
            return plim__line_fail(l);
    }
    if (open) *open = known ? all / known : 0;
    if (count_of(&v) != all) return plim__line_fail(l);
    if (!x->c_order) return plim__line_array(l, v.dim, v.ndim, v.type, v.each);
    const value seen = view_of(l, x);
    v.view = true;
    v.owner = seen.owner;
    return v;
}

static value call_turn(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL);
    if (!is_array(x) || a->n != 1) return plim__line_fail(l);
    value v = view_of(l, x);
    for (uint32_t i = 0; i < x->ndim; i++) v.dim[i] = x->dim[x->ndim - 1 - i];
    v.c_order = x->c_order && x->ndim < 2;
    return v;
}

static value call_broadcast(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL), *shape = argument(a, 1, "shape");
    if (!is_array(x) || !shape) return plim__line_fail(l);
    value v = view_of(l, x);
    if (!plim__line_shape(l, shape, v.dim, &v.ndim)) return plim__line_fail(l);
    v.c_order = v.one_piece = false;
    return v;
}

/* sliding_window_view(x, n), (x, n, axis), (x, (n, m)) */
static value call_window(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    uint64_t size[PLIM__LINE_DIMS];
    uint32_t n, bits;
    const value *x = argument(a, 0, "x"), *shape = argument(a, 1, "window_shape"), *axis = argument(a, 2, "axis");
    if (!is_array(x) || !shape || !plim__line_shape(l, shape, size, &n) || x->ndim + n > PLIM__LINE_DIMS) return plim__line_fail(l);
    if (!axes(l, axis, x->ndim, &bits) || (uint32_t)__builtin_popcount(bits) != n) return plim__line_fail(l);
    value v = view_of(l, x);
    for (uint32_t i = 0, k = 0; i < x->ndim; i++) {
        if (!(bits >> i & 1)) continue;
        if (size[k] < 1 || size[k] > x->dim[i]) return plim__line_fail(l);
        v.dim[i] = x->dim[i] - size[k] + 1;
        v.dim[v.ndim++] = size[k++];
    }
    v.c_order = v.one_piece = false;
    return v;
}

/* -------------------------------------------------------------------------------------------- files and bytes */

static bool file_size(const plim__line *l, const value *path, uint64_t *out)
{
    return path && path->kind == PLIM__LINE_TEXT_OF && path->text[0] && l->names->file_bytes(l->names->ctx, path->text, out);
}

static value call_fromfile(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    uint64_t bytes;
    uint32_t each = 8;
    char type = 'f';
    if (a->n > 2 || !file_size(l, argument(a, 0, NULL), &bytes) || !dtype_or(argument(a, 1, "dtype"), &type, &each)) return plim__line_fail(l);
    return plim__line_array(l, &(uint64_t){bytes / each}, 1, type, each);
}

/* All of a file but its head. What kind of array it becomes is not looked up. */
static value call_load(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    enum { HEAD = 4096 };
    uint64_t bytes;
    if (a->n != 1 || !file_size(l, argument(a, 0, NULL), &bytes) || l->asked > bytes || bytes - l->asked > HEAD) return plim__line_fail(l);
    value v = {.kind = PLIM__LINE_OBJECT};
    v.owner = plim__line_take(l, l->asked);
    return v;
}

static value call_open(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    value v = {.kind = PLIM__LINE_OBJECT};
    const value *path = argument(a, 0, NULL), *mode = argument(a, 1, "mode");
    if (!mode || strcmp(mode->text, "rb") || !file_size(l, path, &v.count)) return plim__line_fail(l);
    strcpy(v.text, "BufferedReader");
    return v;
}

/* One byte more than the file has, to see its end; then cut where it is. */
static value call_read(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    enum { HEAD = 33 };
    const value *f = argument(a, 0, NULL);
    if (a->n != 1 || !f || strcmp(f->text, "BufferedReader") || l->asked <= HEAD) return plim__line_fail(l);
    value v = {.kind = PLIM__LINE_BYTES, .count = f->count ? f->count : l->asked - 1 - HEAD};
    v.owner = plim__line_take(l, v.count + 1 + HEAD);
    return v;
}

static value call_bytes(plim__line *l, plim__line_args *a, const row *r)
{
    enum { HEAD = 33 };
    const value *n = argument(a, 0, NULL);
    if (a->n != 1 || (n->kind != PLIM__LINE_INT && n->kind != PLIM__LINE_BYTES) || (n->kind == PLIM__LINE_INT && n->integer < 0)) return plim__line_fail(l);
    value v = {.kind = PLIM__LINE_BYTES, .count = n->kind == PLIM__LINE_INT ? (uint64_t)n->integer : n->count, .view = r->how == 'a'};
    v.owner = plim__line_take(l, v.count + (r->how == 'a' ? 1 : HEAD));
    return v;
}

static value call_nothing(plim__line *l, plim__line_args *a, const row *r)
{
    (void)l, (void)a, (void)r;
    return (value){.kind = PLIM__LINE_NONE};
}

static value call_length(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    const value *x = argument(a, 0, NULL);
    if (a->n != 1) return plim__line_fail(l);
    if (is_array(x) && x->ndim) return (value){.kind = PLIM__LINE_INT, .integer = (int64_t)x->dim[0]};
    if (x->kind == PLIM__LINE_LIST || x->kind == PLIM__LINE_BYTES || x->kind == PLIM__LINE_TEXT_OF)
        return (value){.kind = PLIM__LINE_INT, .integer = (int64_t)x->count};
    return plim__line_fail(l);
}

/* An operator that is a function or a method. */
static value call_product(plim__line *l, plim__line_args *a, const row *r)
{
    (void)r;
    if (a->n != 2) return plim__line_fail(l);
    value x = a->plain[0], y = a->plain[1];
    x.owner = y.owner = 0; /* they are dropped by the caller */
    return plim__line_binary(l, '@', x, y);
}

/* ----------------------------------------------------------------------------------------------------- the table */

static const row functions[] = {
    {"exp", call_unary, "", 'f'}, {"log", call_unary, "", 'f'}, {"log2", call_unary, "", 'f'}, {"log10", call_unary, "", 'f'},
    {"log1p", call_unary, "", 'f'}, {"expm1", call_unary, "", 'f'}, {"sqrt", call_unary, "", 'f'}, {"sin", call_unary, "", 'f'},
    {"cos", call_unary, "", 'f'}, {"tan", call_unary, "", 'f'}, {"tanh", call_unary, "", 'f'}, {"square", call_unary, "", 's'},
    {"abs", call_unary, "", 'a'}, {"absolute", call_unary, "", 'a'}, {"negative", call_unary, "", 's'}, {"sign", call_unary, "", 's'},
    {"isnan", call_unary, "", 'b'}, {"isfinite", call_unary, "", 'b'}, {"logical_not", call_unary, "", 'b'},
    {"add", call_binary, "", 's'}, {"subtract", call_binary, "", 's'}, {"multiply", call_binary, "", 's'}, {"divide", call_binary, "", '/'},
    {"maximum", call_binary, "", 's'}, {"minimum", call_binary, "", 's'}, {"equal", call_binary, "", 'b'}, {"greater", call_binary, "", 'b'},
    {"less", call_binary, "", 'b'}, {"where", call_where, "", 0},
    {"zeros", call_make, " shape dtype ", 0}, {"ones", call_make, " shape dtype ", 0}, {"empty", call_make, " shape dtype ", 0},
    {"full", call_make, " shape fill_value dtype ", 'v'}, {"zeros_like", call_like, " dtype ", 0}, {"ones_like", call_like, " dtype ", 0},
    {"empty_like", call_like, " dtype ", 0}, {"full_like", call_like, " dtype ", 'v'}, {"eye", call_eye, " N M dtype ", 0},
    {"identity", call_eye, " dtype ", 0}, {"arange", call_arange, " dtype ", 0},
    {"random.rand", call_random, "", 'r'}, {"random.randn", call_random, "", 'r'}, {"random.random", call_random, " size ", '0'},
    {"random.random_sample", call_random, " size ", '0'}, {"random.standard_normal", call_random, " size ", '0'},
    {"random.normal", call_random, " size ", 'n'}, {"random.uniform", call_random, " size ", 'n'},
    {"random.randint", call_random, " size dtype ", 'i'}, {"random.default_rng", call_rng, "", 0},
    {"copy", call_copy, "", 'k'}, {"array", call_copy, " dtype copy ", 't'}, {"asarray", call_copy, " dtype ", 'a'},
    {"ascontiguousarray", call_copy, " dtype ", 'c'},
    {"concatenate", call_join, " axis ", 'c'}, {"vstack", call_join, "", 'v'}, {"hstack", call_join, "", 'h'}, {"stack", call_join, " axis ", 's'},
    {"tile", call_tile, " A reps ", 0}, {"repeat", call_repeat, " repeats axis ", 0}, {"outer", call_outer, "", 0},
    {"meshgrid", call_meshgrid, " indexing ", 0}, {"sort", call_sort, " axis ", 's'}, {"argsort", call_sort, " axis ", 'i'},
    {"cumsum", call_cumulate, " axis dtype ", 0}, {"cumprod", call_cumulate, " axis dtype ", 0}, {"diff", call_diff, " axis ", 0},
    {"fft.fft", call_fft, "", 'c'}, {"fft.ifft", call_fft, "", 'c'}, {"fft.rfft", call_fft, "", 'r'},
    {"sum", call_reduce, " axis keepdims dtype ", 's'}, {"prod", call_reduce, " axis keepdims dtype ", 's'}, {"min", call_reduce, " axis keepdims ", 'k'},
    {"max", call_reduce, " axis keepdims ", 'k'}, {"mean", call_reduce, " axis keepdims ", 'm'}, {"any", call_reduce, " axis keepdims ", 'b'},
    {"all", call_reduce, " axis keepdims ", 'b'}, {"argmin", call_reduce, " axis ", 'i'}, {"argmax", call_reduce, " axis ", 'i'},
    {"std", call_reduce, " axis keepdims ", 'v'}, {"var", call_reduce, " axis keepdims ", 'v'},
    {"linalg.norm", call_norm, " axis keepdims ", 0}, {"reshape", call_reshape, "", 's'}, {"ravel", call_reshape, "", 'r'},
    {"transpose", call_turn, "", 0}, {"broadcast_to", call_broadcast, " shape ", 0},
    {"lib.stride_tricks.sliding_window_view", call_window, " window_shape axis ", 0},
    {"dot", call_product, "", 0}, {"matmul", call_product, "", 0}, {"fromfile", call_fromfile, " dtype ", 0}, {"load", call_load, "", 0},
};

/* Functions without "np." before them. */
static const row plain_functions[] = {
    {"sliding_window_view", call_window, " x window_shape axis ", 0}, {"open", call_open, " mode ", 0}, {"bytes", call_bytes, "", 'b'},
    {"bytearray", call_bytes, "", 'a'}, {"len", call_length, "", 0}, {"print", call_nothing, "", 0}, {"default_rng", call_rng, "", 0},
};

/* Methods that arrays have and functions of that name do not, or do otherwise. */
static const row methods[] = {
    {"astype", call_copy, " dtype copy ", 't'}, {"copy", call_copy, "", 'k'}, {"flatten", call_copy, "", 'k'},
};

static const char *const method_names[] = {"sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax", "std", "var", "reshape", "ravel",
                                           "transpose", "dot", "cumsum", "cumprod", "repeat", "argsort"};

static const row generator_methods[] = {
    {"random", call_random, " size dtype ", '0'}, {"standard_normal", call_random, " size dtype ", '0'}, {"normal", call_random, " size ", 'n'},
    {"uniform", call_random, " size ", 'n'}, {"integers", call_random, " size dtype ", 'i'},
};

static const row *row_find(const row *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

#define FIND(table, name) row_find(table, sizeof(table) / sizeof *(table), name)

static const row *method_find(const value *self, const char *name)
{
    if (self->kind == PLIM__LINE_OBJECT) {
        if (!strcmp(self->text, "Generator")) return FIND(generator_methods, name);
        static const row read = {"read", call_read, "", 0}, append = {"append", call_nothing, "", 0};
        return !strcmp(name, "read") ? &read : !strcmp(name, "append") ? &append : NULL;
    }
    if (self->kind == PLIM__LINE_LIST) {
        static const row append = {"append", call_nothing, "", 0};
        return !strcmp(name, "append") ? &append : NULL;
    }
    if (self->kind != PLIM__LINE_ARRAY) return NULL;
    const row *own = FIND(methods, name);
    for (size_t i = 0; !own && i < sizeof method_names / sizeof *method_names; i++)
        if (!strcmp(method_names[i], name)) own = FIND(functions, name);
    return own;
}

static bool words_known(const row *r, const plim__line_args *a)
{
    for (uint32_t i = 0; i < a->n_words; i++) {
        const char *at = strstr(r->words, a->word[i].name);
        const size_t n = strlen(a->word[i].name);
        if (!n || !at || at == r->words || at[-1] != ' ' || at[n] != ' ') return false;
    }
    return true;
}

plim__line_value plim__line_call(plim__line *l, const char *name, const plim__line_value *self, plim__line_args *args)
{
    const row *r = self ? method_find(self, name) : !strncmp(name, "np.", 3) ? FIND(functions, name + 3) : FIND(plain_functions, name);
    if (!r || !words_known(r, args)) return plim__line_fail(l);
    const bool maker = self && self->kind == PLIM__LINE_OBJECT && strcmp(self->text, "BufferedReader");
    if (!self || maker) return r->call(l, args, r);
    if (args->n == PLIM__LINE_ARGS) return plim__line_fail(l);
    /* A method gets what it is called of as its first argument. It stays the caller's. */
    plim__line_args with = *args;
    memmove(with.plain + 1, with.plain, args->n * sizeof *with.plain);
    with.plain[0] = *self;
    with.n++;
    return r->call(l, &with, r);
}
