/* Functions that move elements and compute nothing. Whatever the graph has no op for is made of slices, broadcasts and joins, which the planner
 * can cut; nothing here depends on the data. */
#include "expr/lower.h"

#include <string.h>

#define JOIN_MAX 64 /* pieces that tile and pad make by joining; more go another way or are refused */

static plim_status done(plim__item *out, uint32_t v)
{
    *out = plim__item_array(v);
    return PLIM_OK;
}

static plim_status ravel(plim__lower *l, uint32_t x, uint32_t *v)
{
    const int64_t flat = -1;
    return plim__reshape_to(l, x, &flat, 1, v);
}

/* ----------------------------------------------------------------------------------------- dimensions */

static plim_status permute(plim__lower *l, uint32_t x, const uint32_t *perm, uint32_t *v)
{
    const uint32_t rank = plim__shape_of(l, x).rank;
    bool moves = false;
    for (uint32_t d = 0; d < rank; d++) moves |= perm[d] != d;
    *v = x;
    return moves ? plim__op_transpose(l->g, x, perm, v, l->err) : PLIM_OK;
}

plim_status plim__call_transpose(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, n, perm[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const uint32_t rank = plim__shape_of(l, x).rank;
    PLIM_TRY(plim__arg_axes(l, a, 1, rank, &mask, perm, &n));
    PLIM_FAIL_IF(n != rank, l->err, PLIM_E_SHAPE, "%s: axes names %u of %u dimensions", a->fn->name, n, rank);
    for (uint32_t d = 0; plim__arg_is_none(a, 1) && d < rank; d++) perm[d] = rank - 1 - d;
    PLIM_TRY(permute(l, x, perm, &x));
    return done(out, x);
}

/* moveaxis, and swapaxes (data 1). */
plim_status plim__call_moveaxis(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, from[PLIM_MAX_RANK], to[PLIM_MAX_RANK], n, m, from_mask, to_mask, perm[PLIM_MAX_RANK], d = 0;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const uint32_t rank = plim__shape_of(l, x).rank;
    PLIM_FAIL_IF(plim__arg_is_none(a, 1) || plim__arg_is_none(a, 2), l->err, PLIM_E_TYPE, "%s: which dimensions?", a->fn->name);
    PLIM_TRY(plim__arg_axes(l, a, 1, rank, &from_mask, from, &n));
    PLIM_TRY(plim__arg_axes(l, a, 2, rank, &to_mask, to, &m));
    PLIM_FAIL_IF(n != m, l->err, PLIM_E_SHAPE, "%s: %u dimensions to %u places", a->fn->name, n, m);
    if (a->fn->data == 1) {
        PLIM_FAIL_IF(n != 1, l->err, PLIM_E_SHAPE, "swapaxes exchanges one dimension with one other");
        for (d = 0; d < rank; d++) perm[d] = d == from[0] ? to[0] : d == to[0] ? from[0] : d;
    } else {
        for (uint32_t i = 0; i < n; i++) perm[to[i]] = from[i];
        for (uint32_t place = 0; place < rank; place++) {
            if (to_mask >> place & 1) continue;
            while (from_mask >> d & 1) d++;
            perm[place] = d++;
        }
    }
    PLIM_TRY(permute(l, x, perm, &x));
    return done(out, x);
}

plim_status plim__reshape_to(plim__lower *l, uint32_t x, const int64_t *dim, uint32_t n, uint32_t *v)
{
    const plim_shape from = plim__shape_of(l, x);
    plim_shape to = {.rank = n}, known = {0};
    uint64_t count, rest;
    uint32_t open = n;
    PLIM_TRY(plim__rank_check(l, "reshape", n));
    for (uint32_t d = 0; d < n; d++) {
        PLIM_FAIL_IF(dim[d] < -1, l->err, PLIM_E_SHAPE, "reshape: dimension %u is %lld", d, (long long)dim[d]);
        PLIM_FAIL_IF(dim[d] == -1 && open < n, l->err, PLIM_E_SHAPE, "reshape: only one dimension may be -1");
        if (dim[d] == -1) open = d;
        else known.dim[known.rank++] = dim[d];
        to.dim[d] = dim[d];
    }
    PLIM_TRY(plim_shape_count(&count, &from, l->err));
    PLIM_TRY(plim_shape_count(&rest, &known, l->err));
    if (open < n) {
        char text[160];
        PLIM_FAIL_IF(rest == 0 || count % rest, l->err, PLIM_E_SHAPE, "reshape: %s does not divide into rows of %llu",
                     plim_shape_format(text, sizeof text, &from), (unsigned long long)rest);
        to.dim[open] = (int64_t)(count / rest);
    }
    *v = x;
    return plim__shape_equal(&to, &from) ? PLIM_OK : plim__op_reshape(l->g, x, &to, v, l->err);
}

plim_status plim__call_reshape(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, n;
    int64_t dim[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_ints(l, a, 1, dim, PLIM_MAX_RANK, &n));
    PLIM_TRY(plim__reshape_to(l, x, dim, n, &x));
    return done(out, x);
}

plim_status plim__call_squeeze(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask;
    int64_t dim[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_axes(l, a, 1, s.rank, &mask, NULL, NULL));
    uint32_t n = 0;
    for (uint32_t d = 0; d < s.rank; d++) {
        const bool named = mask >> d & 1;
        PLIM_FAIL_IF(named && s.dim[d] != 1 && !plim__arg_is_none(a, 1), l->err, PLIM_E_SHAPE, "squeeze: dimension %u has extent %lld, not 1", d,
                     (long long)s.dim[d]);
        if (!named || s.dim[d] != 1) dim[n++] = s.dim[d];
    }
    PLIM_TRY(plim__reshape_to(l, x, dim, n, &x));
    return done(out, x);
}

plim_status plim__call_expand_dims(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, n, from = 0;
    int64_t axis[PLIM_MAX_RANK], dim[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_ints(l, a, 1, axis, PLIM_MAX_RANK, &n));
    PLIM_TRY(plim__rank_check(l, "expand_dims", s.rank + n));
    PLIM_TRY(plim__arg_axes(l, a, 1, s.rank + n, &mask, NULL, NULL));
    for (uint32_t d = 0; d < s.rank + n; d++) dim[d] = mask >> d & 1 ? 1 : s.dim[from++];
    PLIM_TRY(plim__reshape_to(l, x, dim, s.rank + n, &x));
    return done(out, x);
}

plim_status plim__call_broadcast_to(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x;
    plim_shape to = {0};
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_ints(l, a, 1, to.dim, PLIM_MAX_RANK, &to.rank));
    const plim_shape from = plim__shape_of(l, x);
    if (!plim__shape_equal(&to, &from)) PLIM_TRY(plim__op_broadcast(l->g, x, &to, &x, l->err));
    return done(out, x);
}

/* ---------------------------------------------------------------------------------------------- joins */

plim_status plim__concat_of(plim__lower *l, const uint32_t *piece, uint32_t n, uint32_t axis, uint32_t *v)
{
    plim_dtype t = plim__dtype_of(l, piece[0]);
    for (uint32_t k = 1; k < n; k++) t = plim__dtype_promote(t, plim__dtype_of(l, piece[k]));
    uint32_t *same = plim__new(&l->g->alloc, n, sizeof *same, l->err);
    if (!same) return PLIM_E_NOMEM;
    plim_status status = PLIM_OK;
    for (uint32_t k = 0; k < n && status == PLIM_OK; k++) status = plim__op_cast(l->g, piece[k], t, &same[k], l->err);
    if (status == PLIM_OK && n == 1) *v = same[0];
    else if (status == PLIM_OK) status = plim__op_concat(l->g, same, n, axis, v, l->err);
    plim__free(&l->g->alloc, same);
    return status;
}

enum { JOIN_CONCAT, JOIN_STACK, JOIN_ROWS, JOIN_COLUMNS };

/* A piece in the form in which it is joined: with a new dimension for stack, as a row for vstack, flat without an axis. */
static plim_status join_form(plim__lower *l, uint32_t how, uint32_t axis, bool flat, uint32_t x, uint32_t *v)
{
    const plim_shape s = plim__shape_of(l, x);
    const bool row = (how == JOIN_ROWS && s.rank < 2) || s.rank == 0;
    int64_t dim[PLIM_MAX_RANK + 1];
    *v = x;
    if (flat) return ravel(l, x, v);
    if (how == JOIN_STACK) {
        PLIM_TRY(plim__rank_check(l, "stack", s.rank + 1));
        for (uint32_t d = 0; d <= s.rank; d++) dim[d] = d < axis ? s.dim[d] : d == axis ? 1 : s.dim[d - 1];
        return plim__reshape_to(l, x, dim, s.rank + 1, v);
    }
    if (!row) return PLIM_OK;
    dim[0] = how == JOIN_ROWS ? 1 : -1;
    dim[1] = -1;
    return plim__reshape_to(l, x, dim, how == JOIN_ROWS ? 2 : 1, v);
}

static plim_status join(plim__lower *l, const plim__args *a, uint32_t *piece, uint32_t *v)
{
    const plim__item *list = &a->arg[0];
    const uint32_t how = a->fn->data;
    uint32_t axis = 0, first = 0;
    bool flat = false;
    for (uint32_t k = 0; k < list->n; k++) {
        const plim__item e = plim__seq_at(l, list, k);
        PLIM_TRY(plim__lower_array(l, &e, &piece[k]));
        const plim_shape s = plim__shape_of(l, piece[k]), s0 = plim__shape_of(l, piece[0]);
        PLIM_FAIL_IF(how == JOIN_STACK && !plim__shape_equal(&s, &s0), l->err, PLIM_E_SHAPE, "stack: the arrays have different shapes");
    }
    first = plim__shape_of(l, piece[0]).rank;
    PLIM_FAIL_IF(how == JOIN_CONCAT && first == 0, l->err, PLIM_E_SHAPE, "concat: scalars cannot be joined: use stack");
    if (how == JOIN_CONCAT && plim__arg_is_none(a, 1)) flat = true;
    else if (how == JOIN_CONCAT || how == JOIN_STACK) PLIM_TRY(plim__arg_axis(l, a, 1, first + (how == JOIN_STACK), &axis));
    else axis = how == JOIN_COLUMNS && first > 1 ? 1 : 0;
    for (uint32_t k = 0; k < list->n; k++) PLIM_TRY(join_form(l, how, axis, flat, piece[k], &piece[k]));
    return plim__concat_of(l, piece, list->n, axis, v);
}

plim_status plim__call_concat(plim__lower *l, const plim__args *a, plim__item *out)
{
    const plim__item *list = &a->arg[0];
    uint32_t v = 0;
    PLIM_FAIL_IF(list->kind != PLIM__ITEM_SEQ || list->n == 0, l->err, PLIM_E_TYPE, "%s joins a list of arrays: write %s([x, y])", a->fn->name,
                 a->fn->name);
    uint32_t *piece = plim__new(&l->g->alloc, list->n, sizeof *piece, l->err);
    if (!piece) return PLIM_E_NOMEM;
    const plim_status status = join(l, a, piece, &v);
    plim__free(&l->g->alloc, piece);
    PLIM_TRY(status);
    return done(out, v);
}

plim_status plim__call_split(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, axis;
    int64_t size;
    plim__item seq;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_int(l, a, 1, &size));
    PLIM_TRY(plim__arg_axis(l, a, 2, s.rank, &axis));
    PLIM_FAIL_IF(size < 1, l->err, PLIM_E_INVALID, "split: pieces of %lld", (long long)size);
    const int64_t extent = s.dim[axis], count = extent == 0 ? 0 : (extent - 1) / size + 1;
    PLIM_FAIL_IF(count == 0 || count > PLIM__MAX_LIST, l->err, PLIM_E_SHAPE,
                 "split: dimension %u of %lld gives %lld pieces of %lld; there may be 1 to %d", axis,
                 (long long)extent, (long long)count, (long long)size, PLIM__MAX_LIST);
    PLIM_TRY(plim__seq_new(l, (uint32_t)count, &seq));
    for (int64_t k = 0; k < count; k++) {
        uint32_t piece;
        PLIM_TRY(plim__lower_slice(l, x, axis, k * size, 1, size < extent - k * size ? size : extent - k * size, &piece));
        const plim__item e = plim__item_array(piece);
        plim__seq_set(l, &seq, (uint32_t)k, &e);
    }
    *out = seq;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------- movements */

plim_status plim__call_flip(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_axes(l, a, 1, s.rank, &mask, NULL, NULL));
    int64_t start[PLIM_MAX_RANK] = {0}, step[PLIM_MAX_RANK], count[PLIM_MAX_RANK];
    bool turns = false;
    for (uint32_t d = 0; d < s.rank; d++) {
        const bool turn = mask >> d & 1 && s.dim[d] > 1;
        start[d] = turn ? s.dim[d] - 1 : 0;
        step[d] = turn ? -1 : 1;
        count[d] = s.dim[d];
        turns |= turn;
    }
    if (turns) PLIM_TRY(plim__op_slice(l->g, x, start, step, count, &x, l->err));
    return done(out, x);
}

static plim_status roll_axis(plim__lower *l, uint32_t x, int64_t shift, uint32_t axis, uint32_t *v)
{
    const int64_t n = plim__shape_of(l, x).dim[axis];
    *v = x;
    if (n == 0 || shift % n == 0) return PLIM_OK;
    const int64_t by = shift % n < 0 ? shift % n + n : shift % n;
    uint32_t piece[2];
    PLIM_TRY(plim__lower_slice(l, x, axis, n - by, 1, by, &piece[0]));
    PLIM_TRY(plim__lower_slice(l, x, axis, 0, 1, n - by, &piece[1]));
    return plim__op_concat(l->g, piece, 2, axis, v, l->err);
}

plim_status plim__call_roll(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, mask, order[PLIM_MAX_RANK], n_axes, n_shifts;
    int64_t shift[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_ints(l, a, 1, shift, PLIM_MAX_RANK, &n_shifts));
    if (plim__arg_is_none(a, 2)) {
        PLIM_FAIL_IF(n_shifts != 1, l->err, PLIM_E_SHAPE, "roll: one shift without an axis");
        PLIM_TRY(ravel(l, x, &x));
        PLIM_TRY(roll_axis(l, x, shift[0], 0, &x));
        PLIM_TRY(plim__reshape_to(l, x, s.dim, s.rank, &x));
        return done(out, x);
    }
    PLIM_TRY(plim__arg_axes(l, a, 2, s.rank, &mask, order, &n_axes));
    PLIM_FAIL_IF(n_shifts != 1 && n_shifts != n_axes, l->err, PLIM_E_SHAPE, "roll: %u shifts for %u axes", n_shifts, n_axes);
    for (uint32_t k = 0; k < n_axes; k++) PLIM_TRY(roll_axis(l, x, shift[n_shifts == 1 ? 0 : k], order[k], &x));
    return done(out, x);
}

/* x with a new dimension of `count` beside dimension `axis`, merged into it: before it the whole repeats, after it each element. */
static plim_status repeat_beside(plim__lower *l, uint32_t x, uint32_t axis, int64_t count, bool each, uint32_t *v)
{
    const plim_shape whole = plim__shape_of(l, x);
    plim_shape s = whole, merged = whole;
    uint32_t at = axis;
    if (s.rank == PLIM_MAX_RANK) { /* two dimensions away from the axis become one: room for the new one */
        const uint32_t first = axis > 1 ? 0 : PLIM_MAX_RANK - 2;
        PLIM_FAIL_IF(__builtin_mul_overflow(s.dim[first], s.dim[first + 1], &s.dim[first]), l->err, PLIM_E_OVERFLOW,
                     "dimensions %u and %u together are more than 2^63", first, first + 1);
        memmove(s.dim + first + 1, s.dim + first + 2, (PLIM_MAX_RANK - first - 2) * sizeof *s.dim);
        s.rank--;
        at -= first < axis;
    }
    plim_shape wide = {.rank = s.rank + 1};
    PLIM_FAIL_IF(__builtin_mul_overflow(whole.dim[axis], count, &merged.dim[axis]), l->err, PLIM_E_OVERFLOW, "%lld times dimension %u is more than 2^63",
                 (long long)count, axis);
    const uint32_t fresh = at + each;
    for (uint32_t d = 0; d < wide.rank; d++) wide.dim[d] = d == fresh ? 1 : s.dim[d - (d > fresh)];
    PLIM_TRY(plim__op_reshape(l->g, x, &wide, v, l->err));
    wide.dim[fresh] = count;
    PLIM_TRY(plim__op_broadcast(l->g, *v, &wide, v, l->err));
    return plim__op_reshape(l->g, *v, &merged, v, l->err);
}

static plim_status tile_axis(plim__lower *l, uint32_t x, uint32_t axis, int64_t count, uint32_t *v)
{
    uint32_t piece[JOIN_MAX];
    *v = x;
    if (count == 1) return PLIM_OK;
    if (count == 0) return plim__lower_slice(l, x, axis, 0, 1, 0, v);
    if (count > JOIN_MAX) return repeat_beside(l, x, axis, count, false, v);
    for (int64_t k = 0; k < count; k++) piece[k] = x;
    return plim__op_concat(l->g, piece, (uint32_t)count, axis, v, l->err);
}

plim_status plim__call_tile(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, n;
    int64_t reps[PLIM_MAX_RANK], dim[PLIM_MAX_RANK];
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const plim_shape s = plim__shape_of(l, x);
    PLIM_TRY(plim__arg_ints(l, a, 1, reps, PLIM_MAX_RANK, &n));
    const uint32_t rank = n > s.rank ? n : s.rank;
    for (uint32_t d = 0; d < rank; d++) dim[d] = d < rank - s.rank ? 1 : s.dim[d - (rank - s.rank)];
    PLIM_TRY(plim__reshape_to(l, x, dim, rank, &x));
    for (uint32_t d = 0; d < n; d++) {
        PLIM_FAIL_IF(reps[d] < 0, l->err, PLIM_E_INVALID, "tile: %lld times", (long long)reps[d]);
        PLIM_TRY(tile_axis(l, x, rank - n + d, reps[d], &x));
    }
    return done(out, x);
}

plim_status plim__call_repeat(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, axis = 0;
    int64_t count;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_int(l, a, 1, &count));
    PLIM_FAIL_IF(count < 0, l->err, PLIM_E_INVALID, "repeat: %lld times", (long long)count);
    if (plim__arg_is_none(a, 2)) PLIM_TRY(ravel(l, x, &x));
    else PLIM_TRY(plim__arg_axis(l, a, 2, plim__shape_of(l, x).rank, &axis));
    if (count == 0) PLIM_TRY(plim__lower_slice(l, x, axis, 0, 1, 0, &x));
    else if (count > 1) PLIM_TRY(repeat_beside(l, x, axis, count, true, &x));
    return done(out, x);
}

plim_status plim__call_take(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, index, axis = 0;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_array(l, a, 1, &index));
    PLIM_FAIL_IF(l->g->value[index].kind != PLIM__VALUE_CONST, l->err, PLIM_E_UNSUPPORTED,
                 "take: the positions must be known before the run: a list of integers");
    PLIM_FAIL_IF(plim__dtype_of(l, index) != PLIM_I64 || plim__shape_of(l, index).rank > 1, l->err, PLIM_E_TYPE,
                 "take: positions are an integer or a list of integers");
    if (plim__arg_is_none(a, 2)) PLIM_TRY(ravel(l, x, &x));
    else PLIM_TRY(plim__arg_axis(l, a, 2, plim__shape_of(l, x).rank, &axis));
    PLIM_TRY(plim__op_take(l->g, x, index, axis, &x, l->err));
    return done(out, x);
}

plim_status plim__call_diff(plim__lower *l, const plim__args *a, plim__item *out)
{
    uint32_t x, axis, part[2];
    int64_t times;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    PLIM_TRY(plim__arg_int(l, a, 1, &times));
    PLIM_TRY(plim__arg_axis(l, a, 2, plim__shape_of(l, x).rank, &axis));
    PLIM_FAIL_IF(times < 0 || times > JOIN_MAX, l->err, PLIM_E_INVALID, "diff: n is %lld, it must lie in [0, %d]", (long long)times, JOIN_MAX);
    for (int64_t k = 0; k < times; k++) {
        const int64_t n = plim__shape_of(l, x).dim[axis];
        const bool truth = plim__dtype_of(l, x) == PLIM_BOOL;
        if (n == 0) break;
        PLIM_TRY(plim__lower_slice(l, x, axis, n > 1, 1, n - 1, &part[0]));
        PLIM_TRY(plim__lower_slice(l, x, axis, 0, 1, n - 1, &part[1]));
        PLIM_TRY(plim__lower_ew2(l, truth ? PLIM__EW_NOT_EQUAL : PLIM__EW_SUB, part[0], part[1], &x));
    }
    return done(out, x);
}

/* ------------------------------------------------------------------------------------------------ pad */

/* numpy.pad's widths: a number, (before, after), ((before, after), ...) or ((both,), ...). */
static plim_status pad_widths(plim__lower *l, const plim__args *a, uint32_t rank, int64_t before[], int64_t after[])
{
    const plim__item *w = &a->arg[1];
    const bool nested = w->kind == PLIM__ITEM_SEQ && w->n > 0 && plim__seq_at(l, w, 0).kind == PLIM__ITEM_SEQ;
    PLIM_FAIL_IF(nested && w->n != rank && w->n != 1, l->err, PLIM_E_SHAPE, "pad: widths for %u dimensions, the array has %u", w->n, rank);
    for (uint32_t d = 0; d < rank; d++) {
        const plim__item pair = nested ? plim__seq_at(l, w, w->n == 1 ? 0 : d) : *w;
        plim__args one = *a;
        int64_t width[2];
        uint32_t n;
        one.arg[1] = pair;
        PLIM_TRY(plim__arg_ints(l, &one, 1, width, 2, &n));
        PLIM_FAIL_IF(n == 0, l->err, PLIM_E_SHAPE, "pad: a width is empty");
        before[d] = width[0];
        after[d] = width[n - 1];
        PLIM_FAIL_IF(before[d] < 0 || after[d] < 0, l->err, PLIM_E_INVALID, "pad: a width is negative");
    }
    return PLIM_OK;
}

/* The array goes round: the last `before` elements, the array, the first `after`; whole turns where a width is more than the extent. */
static plim_status wrap_axis(plim__lower *l, uint32_t x, uint32_t axis, int64_t before, int64_t after, uint32_t *v)
{
    const int64_t n = plim__shape_of(l, x).dim[axis];
    uint32_t piece[JOIN_MAX + 3], count = 0;
    *v = x;
    if (before == 0 && after == 0) return PLIM_OK;
    PLIM_FAIL_IF(n == 0, l->err, PLIM_E_SHAPE, "pad: dimension %u is empty: there is nothing to wrap", axis);
    const int64_t turns = before / n + after / n;
    PLIM_FAIL_IF(turns > JOIN_MAX, l->err, PLIM_E_UNSUPPORTED, "pad: wrap goes round at most %d times: use tile", JOIN_MAX);
    if (before % n) PLIM_TRY(plim__lower_slice(l, x, axis, n - before % n, 1, before % n, &piece[count++]));
    for (int64_t k = 0; k <= turns; k++) piece[count++] = x;
    if (after % n) PLIM_TRY(plim__lower_slice(l, x, axis, 0, 1, after % n, &piece[count++]));
    return plim__op_concat(l->g, piece, count, axis, v, l->err);
}

plim_status plim__call_pad(plim__lower *l, const plim__args *a, plim__item *out)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", "wrap"};
    uint32_t x, mode;
    int64_t before[PLIM_MAX_RANK] = {0}, after[PLIM_MAX_RANK] = {0};
    const void *fill = NULL;
    PLIM_TRY(plim__arg_array(l, a, 0, &x));
    const uint32_t rank = plim__shape_of(l, x).rank;
    PLIM_TRY(pad_widths(l, a, rank, before, after));
    PLIM_TRY(plim__arg_word(l, a, 2, modes, 5, &mode));
    double number; /* also where the mode has no use for it */
    PLIM_TRY(plim__arg_float(l, a, 3, &number));
    if (mode == 4) {
        for (uint32_t d = 0; d < rank; d++) PLIM_TRY(wrap_axis(l, x, d, before[d], after[d], &x));
        return done(out, x);
    }
    if (mode == PLIM__EDGE_CONSTANT) { /* the same check that a literal in arithmetic gets */
        uint32_t c;
        plim__item value = a->arg[3];
        PLIM_TRY(plim__lower_const(l, &value, plim__dtype_of(l, x), &c));
        fill = l->g->value[c].data;
    }
    PLIM_TRY(plim__op_pad(l->g, x, before, after, (plim__edge)mode, fill, &x, l->err));
    return done(out, x);
}
