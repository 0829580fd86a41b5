/* Exact quantiles over dimensions too long to hold: radix selection, most significant digit first.
 *
 *     ranks ------------.              .--------------.              .----- ... -- finish -- quantiles
 *                        v            |                v            |                 ^
 *     x -- count(bits) -- narrow -- state -- count -- narrow -- state                 q
 *
 * Each pass streams x once and counts, per column, the keys (kernels/order.h) that share the prefix found so far by their next digit; narrowing walks
 * the counts to the digit that holds the wanted rank. With keys of K bits and digits of b bits that makes ceil(K/b) passes, whatever the data, and
 * 2^b counters per column and prefix. The counts of different parts of x add up, so that x may be cut anywhere.
 *
 * Attributes. Count: mask, i[0] shift, i[1] bits. Narrow: i[0] bits. Finish: mask and i[0] the rank of x, i[1] its dtype, i[2] elements per column,
 * i[3] keepdims. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "kernels/order.h"
#include "kernels/reduce.h"
#include "ops/reducing.h"

#include <math.h>
#include <string.h>

#define BITS_MAX 16
#define BITS_ENOUGH 8                /* fewer would only mean more passes: columns can be cut instead */
#define COUNTS_BYTES (UINT64_C(8) << 20) /* what the counts of all columns should stay below */

/* ---------------------------------------------------------------------------------------------- quantiles */

plim_status plim__quantile_type(const plim__value *q, const plim_shape *kept, plim_dtype dtype, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(q->kind != PLIM__VALUE_CONST || q->dtype != PLIM_F64 || q->shape.rank > 1, err, PLIM_E_TYPE,
                 "quantile: the fractions must be an f64 constant of rank 0 or 1");
    PLIM_FAIL_IF(kept->rank + q->shape.rank > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "quantile: %u dimensions and that of the fractions are more than %d",
                 kept->rank, PLIM_MAX_RANK);
    const int64_t n_q = q->shape.rank ? q->shape.dim[0] : 1;
    for (int64_t k = 0; k < n_q; k++) {
        const double f = ((const double *)q->data)[k];
        PLIM_FAIL_IF(!(f >= 0 && f <= 1), err, PLIM_E_INVALID, "quantile: the fraction %g is not between 0 and 1", f);
    }
    type->dtype = !plim__dtype_is_float(dtype) ? PLIM_F64 : dtype == PLIM_BF16 ? PLIM_F32 : dtype;
    type->shape = (plim_shape){.rank = kept->rank + q->shape.rank};
    if (q->shape.rank) type->shape.dim[0] = n_q;
    memcpy(type->shape.dim + q->shape.rank, kept->dim, kept->rank * sizeof *kept->dim);
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------------- count */

/* Elements per column, or 0 when they exceed 64 bits (x itself then would, too). */
static uint64_t column_length(const plim_shape *s, uint32_t mask)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < s->rank; d++)
        if (mask >> d & 1 && !plim__mul(&n, n, (uint64_t)s->dim[d])) return 0;
    return n;
}

static plim_status count_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const int64_t shift = n->attr.i[0], bits = n->attr.i[1];
    PLIM_TRY(plim__mask_check(&x->shape, n->attr.mask, "quantile", err));
    PLIM_TRY(plim__mask_check_filled(&x->shape, n->attr.mask, "quantile", err));
    PLIM_FAIL_IF(shift < 0 || bits < 1 || bits > BITS_MAX || shift + bits > plim__key_bits(x->dtype), err, PLIM_E_INVALID,
                 "quantile: bits %lld to %lld of a key of %s", (long long)shift, (long long)(shift + bits), plim_dtype_name(x->dtype));
    const plim_shape kept = plim__shape_reduce(&x->shape, n->attr.mask, false);
    PLIM_FAIL_IF(kept.rank + 2 > PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED,
                 "quantile: of %u dimensions that are left over at most %d can be counted; reshape them into one", kept.rank, PLIM_MAX_RANK - 2);
    int64_t ranks = 1;
    if (n->n_in == 2) {
        const plim__value *state = plim__in(g, n, 1);
        PLIM_FAIL_IF(state->dtype != PLIM_U64 || state->shape.rank != kept.rank + 2, err, PLIM_E_SHAPE, "quantile: not a state of these columns");
        ranks = state->shape.dim[0];
    }
    const bool few = column_length(&x->shape, n->attr.mask) <= UINT32_MAX;
    type[0] = (plim__type){few ? PLIM_U32 : PLIM_U64, {.rank = kept.rank + 2, .dim = {ranks}}};
    memcpy(type[0].shape.dim + 1, kept.dim, kept.rank * sizeof *kept.dim);
    type[0].shape.dim[kept.rank + 1] = INT64_C(1) << bits;
    type[1] = (plim__type){PLIM_U64, kept};
    n->n_out = n->n_in == 1 ? 2 : 1;
    return PLIM_OK;
}

static void count_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, n->attr.mask, PLIM__SUM);
    plim__axes_reduce_out(axes, 0, 1, n->attr.mask, false);
    if (n->n_out == 2) plim__axes_reduce_out(axes, 1, 0, n->attr.mask, false);
}

static void count_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim_shape *s = &plim__in(g, n, 0)->shape;
    if (k == 0) {
        plim__reads_same(s->rank, index);
        return;
    }
    uint32_t at = 0;
    const plim_shape *state = &plim__in(g, n, 1)->shape;
    index[at++] = plim__index_fixed(0, state->dim[0]);
    for (uint32_t d = 0; d < s->rank; d++)
        if (!(n->attr.mask >> d & 1)) index[at++] = plim__index_along(d);
    index[at] = plim__index_fixed(0, 2);
}

static void count_init(const plim__call *c)
{
    for (uint32_t j = 0; j < c->node->n_out; j++) plim__reduce_init(PLIM__FOLD_SUM, &c->out[j]);
}

typedef struct count_ctx {
    const plim__view *counts, *state; /* state: NULL in the first pass */
    uint64_t *nan;                    /* NULL where none are counted */
    plim_dtype dtype;
    uint32_t shift, bits;
} count_ctx;

/* What one line of keys needs: counts of element i start at count + i*count_step; it is counted when key >> up == want[i*want_step]. */
typedef struct count_line {
    void *count;
    int64_t count_step, bin_step;
    const void *want; /* NULL: everything is counted */
    int64_t want_step;
    uint32_t shift, bits;
} count_line;

#define COUNT_FN(name, K, C)                                                                                          \
    static void name(const count_line *l, const void *keys, int64_t n)                                                \
    {                                                                                                                 \
        const uint32_t shift = l->shift, up = l->shift + l->bits;                                                     \
        const int64_t step = l->count_step, bin_step = l->bin_step, want_step = l->want_step;                         \
        const K *restrict key = keys, *restrict want = l->want, low = (K)(((K)1 << l->bits) - 1);                     \
        C *restrict count = l->count;                                                                                 \
        if (!want) {                                                                                                  \
            for (int64_t i = 0; i < n; i++) count[i * step + (int64_t)(key[i] >> shift & low) * bin_step]++;          \
            return;                                                                                                   \
        }                                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                               \
            if (key[i] >> up == want[i * want_step]) count[i * step + (int64_t)(key[i] >> shift & low) * bin_step]++; \
    }

COUNT_FN(count_32_32, uint32_t, uint32_t)
COUNT_FN(count_32_64, uint32_t, uint64_t)
COUNT_FN(count_64_32, uint64_t, uint32_t)
COUNT_FN(count_64_64, uint64_t, uint64_t)

/* Looks first whether there is any: that loop is vectorised, and mostly there is none. */
static void count_nans(uint64_t *nan, int64_t step, const void *keys, bool wide, uint64_t largest, int64_t n)
{
    const uint64_t *key64 = keys;
    const uint32_t *key32 = keys;
    uint32_t any = 0;
    if (wide) for (int64_t i = 0; i < n; i++) any |= key64[i] == largest;
    else for (int64_t i = 0; i < n; i++) any |= key32[i] == (uint32_t)largest;
    for (int64_t i = 0; i < n && any; i++) nan[i * step] += wide ? key64[i] == largest : key32[i] == (uint32_t)largest;
}

/* The prefix of rank r in column j of a piece. */
static uint64_t prefix_at(const count_ctx *k, const plim__piece *p, int64_t r, int64_t j)
{
    return ((const uint64_t *)k->state->data)[r * k->state->stride[0] + p->at[2] + j * p->col_step[2]];
}

/* Prefixes that rank r is counted under, one per column: the largest key stands for "shared with an earlier rank" since no prefix has all bits.
 * @return whether there is anything to count */
static bool prefixes(const count_ctx *k, const plim__piece *p, int64_t r, void *want)
{
    bool any = false;
    for (int64_t j = 0; j < p->cols; j++) {
        uint64_t mine = prefix_at(k, p, r, j);
        for (int64_t s = 0; s < r; s++)
            if (prefix_at(k, p, s, j) == mine) {
                mine = UINT64_MAX;
                break;
            }
        any |= mine != UINT64_MAX;
        if (plim__key_wide(k->dtype)) ((uint64_t *)want)[j] = mine;
        else ((uint32_t *)want)[j] = (uint32_t)mine;
    }
    return any;
}

#define COUNT_COLS 64 /* columns side by side: their counters in use should stay in the first-level cache */

static void count_rows(const count_ctx *k, const plim__piece *p, const count_line *line)
{
    _Alignas(64) uint64_t keys[PLIM__PIECE_COLS];
    const bool wide = plim__key_wide(k->dtype), big = k->counts->dtype == PLIM_U64;
    void (*const count)(const count_line *, const void *, int64_t) = wide ? (big ? count_64_64 : count_64_32) : (big ? count_32_64 : count_32_32);
    const int64_t rows = p->along ? 1 : p->rows, n = p->along ? p->rows : p->cols, width = p->along ? PLIM__PIECE_COLS : COUNT_COLS;
    const int64_t key_bytes = wide ? 8 : 4;
    for (int64_t j = 0; j < n; j += width) {
        const int64_t m = plim__min(width, n - j);
        count_line l = *line;
        l.count = (char *)line->count + j * line->count_step * (int64_t)plim_dtype_bytes(k->counts->dtype);
        if (line->want) l.want = (const char *)line->want + j * line->want_step * key_bytes;
        for (int64_t i = 0; i < rows; i++) {
            const char *x = (const char *)p->x + (i * p->pitch + j) * (int64_t)plim_dtype_bytes(k->dtype);
            if (wide) plim__keys64(keys, x, k->dtype, 1, m);
            else plim__keys32((uint32_t *)keys, x, k->dtype, 1, m);
            count(&l, keys, m);
            if (!k->nan) continue;
            const int64_t nan_step = p->along ? 0 : p->col_step[1];
            count_nans(k->nan + p->at[1] + j * nan_step, nan_step, keys, wide, plim__key_max(k->dtype), m);
        }
    }
}

static void count_piece(void *ctx, const plim__piece *p)
{
    const count_ctx *k = ctx;
    const uint32_t last = k->counts->rank - 1;
    _Alignas(64) uint64_t want[PLIM__PIECE_COLS];
    count_line l = {.count_step = p->along ? 0 : p->col_step[0], .bin_step = k->counts->stride[last], .shift = k->shift, .bits = k->bits};
    const int64_t ranks = k->state ? k->counts->n[0] : 1;
    for (int64_t r = 0; r < ranks; r++) {
        if (k->state) {
            if (!prefixes(k, p, r, want)) continue;
            l.want = want;
            l.want_step = p->along ? 0 : 1;
        }
        l.count = (char *)k->counts->data + (r * k->counts->stride[0] + p->at[0]) * (int64_t)plim_dtype_bytes(k->counts->dtype);
        count_rows(k, p, &l);
    }
}

static void count_run(const plim__call *c)
{
    const plim__node *n = c->node;
    const plim__view in = plim__call_in(c, 0);
    count_ctx k = {.counts = &c->out[0], .dtype = in.dtype, .shift = (uint32_t)n->attr.i[0], .bits = (uint32_t)n->attr.i[1]};
    plim__tracks tracks = {0};
    const plim__view counts = plim__view_align(&c->out[0], 1, in.rank, n->attr.mask, false);
    memcpy(tracks.step[0], counts.stride, sizeof counts.stride);
    plim__view state;
    if (n->n_in == 2) {
        state = plim__call_in(c, 1);
        k.state = &state;
        const plim__view a = plim__view_align(&state, 1, in.rank, n->attr.mask, false);
        memcpy(tracks.step[2], a.stride, sizeof a.stride);
    } else if (plim__dtype_is_float(in.dtype)) {
        k.nan = c->out[1].data;
        const plim__view a = plim__view_align(&c->out[1], 0, in.rank, n->attr.mask, false);
        memcpy(tracks.step[1], a.stride, sizeof a.stride);
    }
    plim__pieces(&in, n->attr.mask, in.dtype, &tracks, count_piece, &k);
}

static void count_merge(const plim__call *c)
{
    for (uint32_t j = 0; j < c->node->n_out; j++) plim__reduce_merge(PLIM__FOLD_SUM, &c->out[j], &c->in[j]);
}

static plim__work count_work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    return (plim__work){PLIM_KERNEL_TALLY, n->n_in == 1 ? 1 : 0.7}; /* what is known to be elsewhere is not counted */
}

const plim__op_row plim__row_radix_count = {
    .name = "radix_count", .infer = count_infer, .axes = count_axes, .reads = count_reads,
    .init = count_init, .run = count_run, .merge = count_merge, .work = count_work,
};

plim_status plim__op_radix_count(plim_graph *g, uint32_t x, uint32_t state, uint32_t mask, uint32_t shift, uint32_t bits, uint32_t *counts,
                                 plim_error *err)
{
    const plim__attr attr = {.mask = mask, .i = {shift, bits}};
    const uint32_t in[2] = {x, state};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_RADIX_COUNT, in, state == PLIM__NONE ? 1 : 2, &attr, made, err));
    *counts = made[0];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- narrow */

static plim_status narrow_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *counts = plim__in(g, n, 0), *state = plim__in(g, n, 1);
    const uint32_t last = counts->shape.rank - 1;
    PLIM_FAIL_IF(counts->shape.rank < 2 || (counts->dtype != PLIM_U32 && counts->dtype != PLIM_U64) || state->dtype != PLIM_U64, err, PLIM_E_TYPE,
                 "quantile: counts and state are unsigned, not %s and %s", plim_dtype_name(counts->dtype), plim_dtype_name(state->dtype));
    PLIM_FAIL_IF(counts->shape.dim[last] != INT64_C(1) << n->attr.i[0], err, PLIM_E_SHAPE, "quantile: %lld counters for %lld bits",
                 (long long)counts->shape.dim[last], (long long)n->attr.i[0]);
    const bool first = state->shape.rank == 1;
    PLIM_FAIL_IF(!first && state->shape.rank != counts->shape.rank, err, PLIM_E_SHAPE, "quantile: not a state of these counts");
    type[0] = (plim__type){PLIM_U64, counts->shape};
    type[0].shape.dim[0] = state->shape.dim[0];
    type[0].shape.dim[last] = 2;
    PLIM_FAIL_IF(!first && !plim__shape_equal(&type[0].shape, &state->shape), err, PLIM_E_SHAPE, "quantile: not a state of these counts");
    n->n_out = 1;
    return PLIM_OK;
}

/* Axis a is column dimension a, which is dimension a + 1 of counts and state. */
static void column_axes(plim__axes *axes, const plim_shape *counts)
{
    plim_shape columns = {.rank = counts->rank - 2};
    memcpy(columns.dim, counts->dim + 1, columns.rank * sizeof *columns.dim);
    plim__axes_reduce(axes, &columns, 0, PLIM__PARALLEL);
}

static void narrow_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    column_axes(axes, &plim__in(g, n, 0)->shape);
    plim__axes_reduce_out(axes, 0, 1, 0, false);
}

/* Counts or a state: every rank and bin of the part's columns. */
static void column_reads(const plim_shape *s, plim__index index[PLIM_MAX_RANK])
{
    index[0] = plim__index_fixed(0, s->dim[0]);
    for (uint32_t d = 1; d + 1 < s->rank; d++) index[d] = plim__index_along(d - 1);
    if (s->rank > 1) index[s->rank - 1] = plim__index_fixed(0, s->dim[s->rank - 1]);
}

static void narrow_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    column_reads(&plim__in(g, n, k)->shape, index);
}

/* One column: state (ranks, 2) or (ranks), steps in elements. */
typedef struct narrow_column {
    const void *counts;
    bool big;
    int64_t count_row, bin_step, bins, rows;
    const uint64_t *state;
    int64_t state_row, state_step;
    uint64_t *next;
    int64_t next_row, next_step;
    int64_t ranks;
    uint32_t bits;
} narrow_column;

static uint64_t bin_count(const narrow_column *m, int64_t row, int64_t bin)
{
    const int64_t at = row * m->count_row + bin * m->bin_step;
    return m->big ? ((const uint64_t *)m->counts)[at] : ((const uint32_t *)m->counts)[at];
}

static void narrow_one(const narrow_column *m)
{
    for (int64_t r = 0; r < m->ranks; r++) {
        const bool first = m->state_step == 0;
        const uint64_t prefix = first ? 0 : m->state[r * m->state_row];
        uint64_t rank = m->state[r * m->state_row + m->state_step];
        int64_t row = 0;
        if (m->rows > 1) while (row < r && m->state[row * m->state_row] != prefix) row++;
        int64_t bin = 0;
        for (; bin < m->bins - 1; bin++) {
            const uint64_t here = bin_count(m, row, bin);
            if (rank < here) break;
            rank -= here;
        }
        m->next[r * m->next_row] = prefix << m->bits | (uint64_t)bin;
        m->next[r * m->next_row + m->next_step] = rank;
    }
}

static void narrow_run(const plim__call *c)
{
    const plim__view counts = plim__call_in(c, 0), state = plim__call_in(c, 1), *out = &c->out[0];
    const uint32_t last = counts.rank - 1, skip = 1u | 1u << last;
    const bool first = state.rank == 1;
    narrow_column m = {
        .big = counts.dtype == PLIM_U64, .count_row = counts.stride[0], .bin_step = counts.stride[last], .bins = counts.n[last], .rows = counts.n[0],
        .state_row = state.stride[0], .state_step = first ? 0 : state.stride[last], .next_row = out->stride[0], .next_step = out->stride[last],
        .ranks = state.n[0], .bits = (uint32_t)c->node->attr.i[0],
    };
    const int64_t columns = plim__column_count(&counts, skip);
    for (int64_t col = 0; col < columns; col++) {
        m.counts = plim__column(&counts, skip, col);
        m.state = first ? state.data : plim__column(&state, skip, col);
        m.next = plim__column(out, skip, col);
        narrow_one(&m);
    }
}

static plim__work narrow_work(const plim_graph *g, const plim__node *n)
{
    const plim_shape *s = &plim__in(g, n, 0)->shape;
    return (plim__work){PLIM_KERNEL_TALLY, (double)plim__max(s->dim[s->rank - 1] * plim__in(g, n, 1)->shape.dim[0], 1) / 6};
}

const plim__op_row plim__row_radix_narrow = {
    .name = "radix_narrow", .infer = narrow_infer, .axes = narrow_axes, .reads = narrow_reads, .run = narrow_run, .work = narrow_work,
};

plim_status plim__op_radix_narrow(plim_graph *g, uint32_t counts, uint32_t state, uint32_t bits, uint32_t *next, plim_error *err)
{
    const plim__attr attr = {.i = {bits}};
    const uint32_t in[2] = {counts, state};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_RADIX_NARROW, in, 2, &attr, made, err));
    *next = made[0];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- finish */

/* Inputs: state, the sorted ranks, the fractions, and for floats the NaNs of each column. */
enum { FINISH_STATE, FINISH_RANKS, FINISH_Q, FINISH_NAN };

static plim_status finish_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *state = plim__in(g, n, FINISH_STATE);
    plim_shape kept = {0};
    uint32_t from = 1;
    for (uint32_t d = 0; d < (uint32_t)n->attr.i[0]; d++) {
        const bool reduced = n->attr.mask >> d & 1;
        PLIM_FAIL_IF(!reduced && from + 1 >= state->shape.rank, err, PLIM_E_SHAPE, "quantile: not a state of these columns");
        if (!reduced) kept.dim[kept.rank++] = state->shape.dim[from++];
        else if (n->attr.i[3]) kept.dim[kept.rank++] = 1;
    }
    PLIM_TRY(plim__quantile_type(plim__in(g, n, FINISH_Q), &kept, (plim_dtype)n->attr.i[1], type, err));
    n->n_out = 1;
    return PLIM_OK;
}

static void finish_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    column_axes(axes, &plim__in(g, n, FINISH_STATE)->shape);
    uint32_t at = plim__in(g, n, FINISH_Q)->shape.rank;
    int8_t axis = 0;
    for (uint32_t d = 0; d < (uint32_t)n->attr.i[0] && at < PLIM_MAX_RANK; d++) {
        const bool reduced = n->attr.mask >> d & 1;
        if (!reduced) axes->out[0][at] = axis++;
        at += !reduced || n->attr.i[3];
    }
}

static void finish_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim_shape *s = &plim__in(g, n, k)->shape;
    if (k == FINISH_NAN) plim__reads_same(s->rank, index);
    else column_reads(s, index);
}

/* Index of a rank in the sorted list that holds it. */
static int64_t rank_find(const plim__view *ranks, int64_t rank)
{
    int64_t lo = 0, hi = ranks->n[0] - 1;
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        if (((const uint64_t *)ranks->data)[mid * ranks->stride[0]] < (uint64_t)rank) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static void finish_run(const plim__call *c)
{
    const plim__node *n = c->node;
    const plim_dtype t = (plim_dtype)n->attr.i[1];
    const plim__view state = plim__call_in(c, FINISH_STATE), ranks = plim__call_in(c, FINISH_RANKS), q = plim__call_in(c, FINISH_Q);
    plim__view nan = {0};
    if (n->n_in > FINISH_NAN) nan = plim__call_in(c, FINISH_NAN);
    const plim__view out = plim__view_align(&c->out[0], q.rank, (uint32_t)n->attr.i[0], n->attr.mask, n->attr.i[3] != 0);
    const uint32_t skip = 1u | 1u << (state.rank - 1);
    const int64_t columns = plim__column_count(&state, skip), n_q = q.rank ? q.n[0] : 1, out_step = q.rank ? c->out[0].stride[0] : 0;
    for (int64_t k = 0; k < n_q; k++) {
        const plim__rank r = plim__rank_of(((const double *)q.data)[q.rank ? k * q.stride[0] : 0], n->attr.i[2]);
        const int64_t below = rank_find(&ranks, r.below), above = rank_find(&ranks, r.above);
        for (int64_t col = 0; col < columns; col++) {
            const uint64_t *key = plim__column(&state, skip, col);
            double value = plim__lerp(plim__key_value(t, key[below * state.stride[0]]), plim__key_value(t, key[above * state.stride[0]]), r.t);
            if (nan.data && *(const uint64_t *)plim__column(&nan, 0, col)) value = NAN;
            char *to = plim__column(&out, n->attr.mask, col);
            plim__convert(to + k * out_step * (int64_t)plim_dtype_bytes(out.dtype), out.dtype, &value, PLIM_F64, 1);
        }
    }
}

static plim__work finish_work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_TALLY, 5 * (double)plim__max(plim__in(g, n, FINISH_RANKS)->shape.dim[0], 1)};
}

const plim__op_row plim__row_radix_finish = {
    .name = "radix_finish", .infer = finish_infer, .axes = finish_axes, .reads = finish_reads, .run = finish_run, .work = finish_work,
};

/* ----------------------------------------------------------------------------------------- the whole chain */

/* The ranks that the fractions need, sorted, each once. @return how many; `rank` has room for 2*n_q */
static uint32_t ranks_collect(uint64_t *rank, const double *q, uint32_t n_q, int64_t n)
{
    uint32_t m = 0;
    for (uint32_t k = 0; k < 2 * n_q; k++) {
        const plim__rank r = plim__rank_of(q[k / 2], n);
        const uint64_t one = (uint64_t)(k % 2 ? r.above : r.below);
        uint32_t at = m;
        while (at > 0 && rank[at - 1] >= one) at--;
        if (at < m && rank[at] == one) continue;
        memmove(rank + at + 1, rank + at, (m - at) * sizeof *rank);
        rank[at] = one;
        m++;
    }
    return m;
}

/* The fewest passes whose counts are small enough. */
static uint32_t passes_for(uint32_t key_bits, uint64_t columns, uint32_t ranks, uint64_t counter_bytes)
{
    for (uint32_t passes = 1;; passes++) {
        const uint32_t bits = (key_bits + passes - 1) / passes;
        if (bits <= BITS_ENOUGH) return passes;
        if (bits > BITS_MAX) continue;
        uint64_t bytes;
        if (plim__mul(&bytes, columns, (uint64_t)ranks * counter_bytes << bits) && bytes <= COUNTS_BYTES) return passes;
    }
}

static plim_status chain_apply(plim_graph *g, uint32_t x, uint32_t ranks, uint32_t n_rank, uint32_t q, const plim__attr *finish, uint32_t *v,
                               plim_error *err)
{
    const plim_dtype dtype = g->value[x].dtype;
    const uint32_t key_bits = plim__key_bits(dtype), mask = finish->mask;
    const plim_shape kept = plim__shape_reduce(&g->value[x].shape, mask, false);
    uint64_t columns;
    PLIM_TRY(plim_shape_count(&columns, &kept, err));
    const uint32_t passes = passes_for(key_bits, columns ? columns : 1, n_rank, finish->i[2] <= UINT32_MAX ? 4 : 8);
    uint32_t state = ranks, nan = PLIM__NONE, left = key_bits;
    for (uint32_t p = 0; p < passes; p++) {
        const uint32_t bits = (left + passes - p - 1) / (passes - p);
        left -= bits;
        const plim__attr attr = {.mask = mask, .i = {left, bits}};
        const uint32_t in[2] = {x, state};
        uint32_t made[PLIM__MAX_OUT];
        PLIM_TRY(plim__graph_apply(g, PLIM__OP_RADIX_COUNT, in, p == 0 ? 1 : 2, &attr, made, err));
        if (p == 0) nan = made[1];
        PLIM_TRY(plim__op_radix_narrow(g, made[0], state, bits, &state, err));
    }
    const uint32_t in[4] = {state, ranks, q, nan};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_RADIX_FINISH, in, plim__dtype_is_float(dtype) ? 4 : 3, finish, made, err));
    *v = made[0];
    return PLIM_OK;
}

plim_status plim__op_radix_quantile(plim_graph *g, uint32_t x, const double *q, uint32_t n_q, bool q_scalar, uint32_t mask, bool keepdims,
                                    uint32_t *v, plim_error *err)
{
    const plim_shape shape = g->value[x].shape;
    const plim_dtype dtype = g->value[x].dtype;
    PLIM_TRY(plim__mask_check(&shape, mask, "quantile", err));
    PLIM_TRY(plim__mask_check_filled(&shape, mask, "quantile", err));
    PLIM_FAIL_IF(n_q == 0 || n_q > UINT32_MAX / 2 || (q_scalar && n_q != 1), err, PLIM_E_INVALID, "quantile: %u fractions", n_q);
    for (uint32_t k = 0; k < n_q; k++) PLIM_FAIL_IF(!(q[k] >= 0 && q[k] <= 1), err, PLIM_E_INVALID, "quantile: the fraction %g is not between 0 and 1", q[k]);
    const int64_t n = (int64_t)column_length(&shape, mask);

    uint64_t *rank = plim__new(&g->alloc, 2 * (uint64_t)n_q, sizeof *rank, err);
    if (!rank) return PLIM_E_NOMEM;
    const uint32_t n_rank = ranks_collect(rank, q, n_q, n);
    uint32_t ranks = PLIM__NONE, fractions = PLIM__NONE;
    plim_status status;
    const plim_shape rank_shape = {.rank = 1, .dim = {n_rank}}, q_shape = {.rank = !q_scalar, .dim = {q_scalar ? 0 : n_q}};
    PLIM_TRY_DONE(plim__graph_const(g, PLIM_U64, &rank_shape, rank, &ranks, err));
    PLIM_TRY_DONE(plim__graph_const(g, PLIM_F64, &q_shape, q, &fractions, err));
    const plim__attr finish = {.mask = mask, .i = {shape.rank, dtype, n, keepdims}};
    PLIM_TRY_DONE(chain_apply(g, x, ranks, n_rank, fractions, &finish, v, err));
done:
    plim__free(&g->alloc, rank);
    return status;
}
