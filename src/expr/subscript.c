/* x[...] and x.name. Subscripts have Python's meaning exactly: negative indices, slices that reach outside, negative steps, '...', None.
 * A subscript of an array becomes at most one slice, one take (for a list of positions) and one reshape (for the dimensions that come or go). */
#include "expr/lower.h"

#include <string.h>

typedef struct bounds {
    int64_t start, step, count;
} bounds;

static plim_status slice_part(plim__lower *l, const plim__item *x, int64_t none, int64_t *out)
{
    PLIM_FAIL_IF(x->kind != PLIM__ITEM_NONE && x->kind != PLIM__ITEM_INT, l->err, PLIM_E_TYPE, "a slice's bounds are integers, not %s",
                 plim__item_text(x));
    *out = x->kind == PLIM__ITEM_INT ? x->i : none;
    return PLIM_OK;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Python's slice.indices(extent). A step that is never taken is 1, so that extreme ones do not travel further. */
static plim_status slice_bounds(plim__lower *l, const plim__item *slice, int64_t extent, bounds *b)
{
    int64_t start = 0, stop = 0, step = 1;
    const plim__item lo = l->pool[slice->id], hi = l->pool[slice->id + 1], by = l->pool[slice->id + 2];
    PLIM_TRY(slice_part(l, &by, 1, &step));
    PLIM_FAIL_IF(step == 0, l->err, PLIM_E_SHAPE, "a slice's step may not be 0");
    if (step == INT64_MIN) step = -INT64_MAX;
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? extent : extent - 1;
    PLIM_TRY(slice_part(l, &lo, 0, &start));
    PLIM_TRY(slice_part(l, &hi, 0, &stop));
    start = lo.kind == PLIM__ITEM_NONE ? (step > 0 ? least : most) : clamp(start < 0 ? start + extent : start, least, most);
    stop = hi.kind == PLIM__ITEM_NONE ? (step > 0 ? most : least) : clamp(stop < 0 ? stop + extent : stop, least, most);
    const int64_t span = step > 0 ? stop - start : start - stop;
    b->count = span <= 0 ? 0 : (span - 1) / (step > 0 ? step : -step) + 1;
    b->start = b->count ? start : 0;
    b->step = b->count > 1 ? step : 1;
    return PLIM_OK;
}

static plim_status index_position(plim__lower *l, int64_t i, int64_t extent, const char *of, uint32_t dim, int64_t *out)
{
    PLIM_FAIL_IF(i < -extent || i >= extent, l->err, PLIM_E_SHAPE, "index %lld is outside %s %u, which has %lld elements", (long long)i, of, dim,
                 (long long)extent);
    *out = i < 0 ? i + extent : i;
    return PLIM_OK;
}

static plim_status index_sequence(plim__lower *l, const plim__item *seq, const plim__item *sub, plim__item *out)
{
    if (sub->kind == PLIM__ITEM_INT) {
        int64_t i = 0;
        PLIM_TRY(index_position(l, sub->i, seq->n, "a list of length", seq->n, &i));
        *out = plim__seq_at(l, seq, (uint32_t)i);
        return PLIM_OK;
    }
    PLIM_FAIL_IF(sub->kind != PLIM__ITEM_SLICE, l->err, PLIM_E_TYPE, "a list is indexed by an integer or a slice, not by %s", plim__item_text(sub));
    bounds b;
    plim__item part;
    PLIM_TRY(slice_bounds(l, sub, seq->n, &b));
    PLIM_TRY(plim__seq_new(l, (uint32_t)b.count, &part));
    for (uint32_t k = 0; k < part.n; k++) {
        const plim__item e = plim__seq_at(l, seq, (uint32_t)(b.start + b.step * k));
        plim__seq_set(l, &part, k, &e);
    }
    *out = part;
    return PLIM_OK;
}

/* What the subscripts say, gathered before anything is added to the graph. */
typedef struct selection {
    plim_shape in;
    int64_t start[PLIM_MAX_RANK], step[PLIM_MAX_RANK], count[PLIM_MAX_RANK];
    bool drop[PLIM_MAX_RANK];
    uint32_t dim;                 /* the next dimension of the array */
    uint32_t fresh[PLIM_MAX_RANK + 1]; /* new dimensions of extent 1 before dimension d */
    uint32_t n_fresh;
    plim__item list;              /* positions along list_dim; None: there is no such list */
    uint32_t list_dim;
} selection;

static plim_status select_one(plim__lower *l, selection *s, const plim__item *sub)
{
    const uint32_t d = s->dim;
    if (sub->kind == PLIM__ITEM_NONE) {
        PLIM_FAIL_IF(s->n_fresh == PLIM_MAX_RANK, l->err, PLIM_E_SHAPE, "more than %d new dimensions", PLIM_MAX_RANK);
        s->fresh[d]++;
        s->n_fresh++;
        return PLIM_OK;
    }
    PLIM_FAIL_IF(sub->kind == PLIM__ITEM_BOOL || (sub->kind == PLIM__ITEM_ARRAY && plim__dtype_of(l, sub->id) == PLIM_BOOL), l->err,
                 PLIM_E_UNSUPPORTED,
                 "a boolean mask gives an array whose size depends on the data: use where(mask, x, fill), or sum(where(mask, x, 0))");
    PLIM_FAIL_IF(sub->kind == PLIM__ITEM_ARRAY && l->g->value[sub->id].kind != PLIM__VALUE_CONST, l->err, PLIM_E_UNSUPPORTED,
                 "an index must be known before the run: an integer, a slice or a list of integers, not an array of data");
    PLIM_FAIL_IF(d >= s->in.rank, l->err, PLIM_E_SHAPE, "too many indices: the array has %u dimension%s", s->in.rank, s->in.rank == 1 ? "" : "s");
    s->dim++;
    if (sub->kind == PLIM__ITEM_SLICE) {
        bounds b;
        PLIM_TRY(slice_bounds(l, sub, s->in.dim[d], &b));
        s->start[d] = b.start;
        s->step[d] = b.step;
        s->count[d] = b.count;
        return PLIM_OK;
    }
    if (sub->kind == PLIM__ITEM_SEQ || sub->kind == PLIM__ITEM_ARRAY) {
        PLIM_FAIL_IF(s->list.kind != PLIM__ITEM_NONE, l->err, PLIM_E_UNSUPPORTED, "only one subscript may be a list of positions");
        s->list = *sub;
        s->list_dim = d;
        return PLIM_OK;
    }
    PLIM_FAIL_IF(sub->kind != PLIM__ITEM_INT, l->err, PLIM_E_TYPE, "an index is an integer, a slice, '...' or None, not %s", plim__item_text(sub));
    s->drop[d] = true;
    s->count[d] = 1;
    return index_position(l, sub->i, s->in.dim[d], "dimension", d, &s->start[d]);
}

static plim_status select_all(plim__lower *l, selection *s, uint32_t first, uint32_t n)
{
    uint32_t used = 0, dots = 0;
    for (uint32_t k = 0; k < n; k++) {
        const plim__item_kind kind = l->pool[first + k].kind;
        dots += kind == PLIM__ITEM_ELLIPSIS;
        used += kind != PLIM__ITEM_ELLIPSIS && kind != PLIM__ITEM_NONE;
    }
    PLIM_FAIL_IF(dots > 1, l->err, PLIM_E_SYNTAX, "'...' may stand only once in an index");
    for (uint32_t k = 0; k < n; k++) {
        const plim__item sub = l->pool[first + k];
        if (sub.kind == PLIM__ITEM_ELLIPSIS) s->dim += used < s->in.rank ? s->in.rank - used : 0;
        else PLIM_TRY(select_one(l, s, &sub));
    }
    return PLIM_OK;
}

/* The positions as a constant of i64 with rank 1, as plim__op_take wants them. */
static plim_status positions(plim__lower *l, const plim__item *list, uint32_t *v)
{
    PLIM_TRY(plim__lower_array(l, list, v));
    const plim__value *x = &l->g->value[*v];
    PLIM_FAIL_IF(x->dtype == PLIM_BOOL, l->err, PLIM_E_UNSUPPORTED, "a boolean mask is not supported: use where(mask, x, fill)");
    PLIM_FAIL_IF(x->dtype != PLIM_I64 || x->shape.rank != 1, l->err, PLIM_E_UNSUPPORTED, "a list of positions is one row of integers (i64)");
    return PLIM_OK;
}

static plim_status index_array(plim__lower *l, uint32_t x, uint32_t first, uint32_t n, plim__item *out)
{
    selection s = {.in = plim__shape_of(l, x), .list = {.kind = PLIM__ITEM_NONE}};
    bool whole = true;
    for (uint32_t d = 0; d < s.in.rank; d++) {
        s.step[d] = 1;
        s.count[d] = s.in.dim[d];
    }
    PLIM_TRY(select_all(l, &s, first, n));
    for (uint32_t d = 0; d < s.in.rank; d++) whole &= s.step[d] == 1 && s.count[d] == s.in.dim[d];
    if (!whole) PLIM_TRY(plim__op_slice(l->g, x, s.start, s.step, s.count, &x, l->err));
    if (s.list.kind != PLIM__ITEM_NONE) {
        uint32_t at;
        for (uint32_t d = 0; d < s.in.rank; d++) /* NumPy moves dimensions about then; nobody means that */
            PLIM_FAIL_IF(s.drop[d], l->err, PLIM_E_UNSUPPORTED, "an integer and a list of positions in one index: write x[i][...] in two steps");
        PLIM_TRY(positions(l, &s.list, &at));
        PLIM_TRY(plim__op_take(l->g, x, at, s.list_dim, &x, l->err));
    }
    const plim_shape now = plim__shape_of(l, x);
    plim_shape to = {0};
    uint32_t rank = s.in.rank + s.n_fresh;
    for (uint32_t d = 0; d < s.in.rank; d++) rank -= s.drop[d];
    PLIM_TRY(plim__rank_check(l, "subscript", rank));
    for (uint32_t d = 0; d <= s.in.rank; d++) {
        for (uint32_t k = 0; k < s.fresh[d] + (d < s.in.rank && !s.drop[d]); k++) {
            to.dim[to.rank++] = k < s.fresh[d] ? 1 : now.dim[d];
        }
    }
    if (!plim__shape_equal(&to, &now)) PLIM_TRY(plim__op_reshape(l->g, x, &to, &x, l->err));
    *out = plim__item_array(x);
    return PLIM_OK;
}

plim_status plim__lower_index(plim__lower *l, const plim__item *base, uint32_t first, uint32_t n, plim__item *out)
{
    if (base->kind == PLIM__ITEM_ARRAY && base->n && n == 1 && l->pool[first].kind == PLIM__ITEM_INT) {
        int64_t which = 0;
        PLIM_TRY(index_position(l, l->pool[first].i, 2, "the results, of which there are", 2, &which));
        *out = plim__item_array(which ? base->n - 1 : base->id);
        return PLIM_OK;
    }
    if (base->kind == PLIM__ITEM_ARRAY) return index_array(l, base->id, first, n, out);
    PLIM_FAIL_IF(base->kind != PLIM__ITEM_SEQ, l->err, PLIM_E_TYPE, "%s has no elements to pick", plim__item_text(base));
    PLIM_FAIL_IF(n != 1, l->err, PLIM_E_SHAPE, "a list has one dimension, not %u", n);
    const plim__item sub = l->pool[first];
    return index_sequence(l, base, &sub, out);
}

plim_status plim__lower_slice(plim__lower *l, uint32_t x, uint32_t axis, int64_t start, int64_t step, int64_t count, uint32_t *v)
{
    return plim__op_slice_axis(l->g, x, axis, start, step, count, v, l->err);
}

/* ----------------------------------------------------------------------------------------- attributes */

static plim_status attribute_shape(plim__lower *l, const plim_shape *s, plim__item *out)
{
    PLIM_TRY(plim__seq_new(l, s->rank, out));
    for (uint32_t d = 0; d < s->rank; d++) {
        const plim__item extent = plim__item_int(s->dim[d]);
        plim__seq_set(l, out, d, &extent);
    }
    return PLIM_OK;
}

/* .T reverses all dimensions, .mT swaps the last two. */
static plim_status attribute_transposed(plim__lower *l, uint32_t x, bool matrix, plim__item *out)
{
    const uint32_t rank = plim__shape_of(l, x).rank;
    PLIM_FAIL_IF(matrix && rank < 2, l->err, PLIM_E_SHAPE, ".mT needs 2 dimensions or more, this array has %u", rank);
    uint32_t perm[PLIM_MAX_RANK], v = x;
    for (uint32_t d = 0; d < rank; d++) perm[d] = matrix ? (d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d) : rank - 1 - d;
    if (rank > 1) PLIM_TRY(plim__op_transpose(l->g, x, perm, &v, l->err));
    *out = plim__item_array(v);
    return PLIM_OK;
}

static plim_status apply_attribute(plim__lower *l, const void *ctx, const plim__item *in, uint32_t n, plim__item *out)
{
    const plim__item *name = ctx;
    (void)n;
    if (plim__function_find(name->text, name->n) && !plim__item_is_text(name, "size"))
        return plim__fail(l->err, PLIM_E_SYNTAX, "'%.*s' is a function: write .%.*s()", (int)name->n, name->text, (int)name->n, name->text);
    uint32_t x;
    PLIM_TRY(plim__lower_array(l, in, &x));
    const plim_shape shape = plim__shape_of(l, x);
    const plim_dtype dtype = plim__dtype_of(l, x);
    uint64_t count;
    PLIM_TRY(plim_shape_count(&count, &shape, l->err));
    if (plim__item_is_text(name, "T") || plim__item_is_text(name, "mT")) return attribute_transposed(l, x, name->n == 2, out);
    if (plim__item_is_text(name, "shape")) return attribute_shape(l, &shape, out);
    if (plim__item_is_text(name, "ndim")) *out = plim__item_int(shape.rank);
    else if (plim__item_is_text(name, "size")) *out = plim__item_int((int64_t)count);
    else if (plim__item_is_text(name, "itemsize")) *out = plim__item_int((int64_t)plim_dtype_bytes(dtype));
    else if (plim__item_is_text(name, "nbytes")) *out = plim__item_int((int64_t)l->g->value[x].bytes);
    else if (plim__item_is_text(name, "dtype")) *out = (plim__item){.kind = PLIM__ITEM_DTYPE, .dtype = dtype};
    else return plim__fail_unknown(l, "attribute", name->text, name->n, true);
    return PLIM_OK;
}

plim_status plim__lower_attribute(plim__lower *l, const char *name, uint32_t n, const plim__item *x, plim__item *out)
{
    const plim__item word = {.kind = PLIM__ITEM_STRING, .n = n, .text = name};
    return plim__lower_map(l, apply_attribute, &word, x, 1, out);
}
