#include "kernels/reduce.h"

#include "core/dtype.h"
#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

#define LANES(name) name##_base
#include "kernels/reduce_lanes.inc"

#define LANE_WIDTH 64   /* columns that a long row is folded into */
#define BLOCK_ROWS 128  /* 128 x 512 f32 is 256 KiB: it stays in the second-level cache between the two passes of the moments */
#define NARROW_ROWS 1024 /* of 64 columns or fewer: what is done once per block should be little beside it */

const plim__lanes *plim__lanes_get(void) { return PLIM__BEST(&plim__lanes); }

static plim__lane lane_of(plim_dtype t)
{
    return t == PLIM_F32 ? PLIM__LANE_F32 : t == PLIM_F64 ? PLIM__LANE_F64 : t == PLIM_U64 ? PLIM__LANE_U64 : PLIM__LANE_I64;
}

/* A one- or two-dimensional view for staging. */
static plim__view flat(const void *data, plim_dtype t, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride)
{
    return (plim__view){.data = (void *)(uintptr_t)data, .dtype = t, .rank = 2, .n = {rows, cols}, .stride = {row_stride, col_stride}};
}

/* ------------------------------------------------------------------------------------------------ pieces */

typedef struct nest_dim {
    int64_t n, in, track[PLIM__TRACKS];
    bool reduced;
} nest_dim;

typedef struct nest {
    nest_dim outer[PLIM_MAX_RANK];
    uint32_t n_outer;
    nest_dim row, col;
    bool along;
    plim_dtype dtype, compute;
    uint64_t bytes;
    plim__piece_fn *fn;
    void *ctx;
} nest;

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Dimensions in the order in which they lie in memory, the slowest first. Extents of 1 are left out. */
static uint32_t nest_collect(nest_dim *dim, const plim__view *in, uint32_t mask, const plim__tracks *tracks)
{
    uint32_t m = 0;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (in->n[d] == 1) continue;
        nest_dim one = {.n = in->n[d], .in = in->stride[d], .reduced = mask >> d & 1};
        for (int t = 0; t < PLIM__TRACKS; t++) one.track[t] = tracks->step[t][d];
        uint32_t at = m++;
        for (; at > 0 && magnitude(dim[at - 1].in) < magnitude(one.in); at--) dim[at] = dim[at - 1];
        dim[at] = one;
    }
    return m;
}

/* Neighbours that step as one dimension would become one. */
static uint32_t nest_join(nest_dim *dim, uint32_t m)
{
    uint32_t k = 0;
    for (uint32_t d = 1; d < m; d++) {
        nest_dim *a = &dim[k];
        const nest_dim *b = &dim[d];
        bool joins = a->reduced == b->reduced && a->in == b->n * b->in;
        for (int t = 0; t < PLIM__TRACKS; t++) joins = joins && a->track[t] == b->n * b->track[t];
        if (!joins) {
            dim[++k] = *b;
            continue;
        }
        const int64_t n = a->n * b->n;
        *a = *b;
        a->n = n;
    }
    return m ? k + 1 : 0;
}

/* Takes the fastest dimension with the given property out of the list. */
static nest_dim nest_take(nest_dim *dim, uint32_t *m, bool reduced)
{
    for (uint32_t d = *m; d-- > 0;) {
        if (dim[d].reduced != reduced) continue;
        const nest_dim got = dim[d];
        memmove(dim + d, dim + d + 1, (*m - d - 1) * sizeof *dim);
        *m -= 1;
        return got;
    }
    return (nest_dim){.n = 1};
}

static void along_pieces(const nest *w, const char *x, const int64_t at[PLIM__TRACKS])
{
    _Alignas(64) char stage[PLIM__PIECE_ALONG * 8];
    const bool direct = w->dtype == w->compute && w->row.in == 1;
    plim__piece p = {.along = true, .cols = 1, .pitch = 1};
    memcpy(p.row_step, w->row.track, sizeof p.row_step);
    for (int64_t i = 0; i < w->row.n; i += PLIM__PIECE_ALONG) {
        p.rows = plim__min(PLIM__PIECE_ALONG, w->row.n - i);
        p.x = x + i * w->row.in * (int64_t)w->bytes;
        if (!direct) {
            const plim__view from = flat(p.x, w->dtype, 1, 0, p.rows, w->row.in), to = flat(stage, w->compute, 1, p.rows, p.rows, 1);
            plim__copy(&to, &from);
            p.x = stage;
        }
        for (int t = 0; t < PLIM__TRACKS; t++) p.at[t] = at[t] + i * w->row.track[t];
        w->fn(w->ctx, &p);
    }
}

static void across_pieces(const nest *w, const char *x, const int64_t at[PLIM__TRACKS])
{
    _Alignas(64) char stage[PLIM__PIECE_ALONG * 8];
    const bool direct = w->dtype == w->compute && (w->col.in == 1 || w->col.n == 1);
    const int64_t cols_max = plim__min(PLIM__PIECE_COLS, w->col.n);
    const int64_t rows_direct = cols_max <= LANE_WIDTH ? NARROW_ROWS : BLOCK_ROWS;
    const int64_t rows_max = direct ? rows_direct : plim__min(rows_direct, PLIM__PIECE_ALONG / cols_max);
    plim__piece p = {.along = false};
    memcpy(p.row_step, w->row.track, sizeof p.row_step);
    memcpy(p.col_step, w->col.track, sizeof p.col_step);
    for (int64_t i = 0; i < w->row.n; i += rows_max) {
        p.rows = plim__min(rows_max, w->row.n - i);
        for (int64_t j = 0; j < w->col.n; j += cols_max) {
            p.cols = plim__min(cols_max, w->col.n - j);
            p.x = x + (i * w->row.in + j * w->col.in) * (int64_t)w->bytes;
            p.pitch = w->row.in;
            if (!direct) {
                const plim__view from = flat(p.x, w->dtype, p.rows, w->row.in, p.cols, w->col.in);
                const plim__view to = flat(stage, w->compute, p.rows, p.cols, p.cols, 1);
                plim__copy(&to, &from);
                p.x = stage;
                p.pitch = p.cols;
            }
            for (int t = 0; t < PLIM__TRACKS; t++) p.at[t] = at[t] + i * w->row.track[t] + j * w->col.track[t];
            w->fn(w->ctx, &p);
        }
    }
}

void plim__pieces(const plim__view *in, uint32_t mask, plim_dtype compute, const plim__tracks *tracks, plim__piece_fn *fn, void *ctx)
{
    if (plim__view_count(in) == 0) return;
    nest w = {.dtype = in->dtype, .compute = compute, .bytes = plim_dtype_bytes(in->dtype), .fn = fn, .ctx = ctx};
    w.n_outer = nest_join(w.outer, nest_collect(w.outer, in, mask, tracks));
    /* Short rows are many: they are staged as columns instead. */
    const nest_dim *fast = w.n_outer ? &w.outer[w.n_outer - 1] : NULL;
    w.along = fast && fast->reduced && fast->n >= LANE_WIDTH;
    w.row = nest_take(w.outer, &w.n_outer, true);
    w.col = w.along ? (nest_dim){.n = 1} : nest_take(w.outer, &w.n_outer, false);

    int64_t index[PLIM_MAX_RANK] = {0};
    for (;;) {
        int64_t off = 0, at[PLIM__TRACKS] = {0};
        for (uint32_t d = 0; d < w.n_outer; d++) {
            off += index[d] * w.outer[d].in;
            for (int t = 0; t < PLIM__TRACKS; t++) at[t] += index[d] * w.outer[d].track[t];
        }
        const char *x = (const char *)in->data + off * (int64_t)w.bytes;
        if (w.along) along_pieces(&w, x, at);
        else across_pieces(&w, x, at);

        uint32_t d = w.n_outer;
        while (d > 0 && ++index[d - 1] == w.outer[d - 1].n) index[--d] = 0;
        if (d == 0) return;
    }
}

/* ------------------------------------------------------------------------------------------- simple folds */

typedef union cell {
    float f32;
    double f64;
    int64_t i64;
    uint64_t u64;
} cell;

/* The type that a fold of `compute` accumulates in. */
static plim_dtype fold_dtype(plim__fold how, plim_dtype compute)
{
    return (how == PLIM__FOLD_SUM || how == PLIM__FOLD_PROD) && compute == PLIM_F32 ? PLIM_F64 : compute;
}

static cell int_extreme(plim_dtype t, bool largest)
{
    const bool is_signed = plim__dtype_kind(t) == PLIM__KIND_INT;
    const uint32_t bits = t == PLIM_BOOL ? 1 : 8 * (uint32_t)plim_dtype_bytes(t) - is_signed;
    if (largest) return (cell){.u64 = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1};
    return (cell){.i64 = is_signed ? (int64_t)(UINT64_MAX << bits) : 0};
}

/* The element that changes nothing, in dtype plim__dtype_compute(t): x (+) neutral is x for every x of t. */
static cell neutral(plim__fold how, plim_dtype t)
{
    const plim_dtype compute = plim__dtype_compute(t);
    if (how == PLIM__FOLD_SUM) return (cell){.u64 = 0};
    if (how == PLIM__FOLD_PROD) return compute == PLIM_F32 ? (cell){.f32 = 1} : compute == PLIM_F64 ? (cell){.f64 = 1} : (cell){.i64 = 1};
    const double inf = how == PLIM__FOLD_MIN ? INFINITY : -INFINITY;
    if (compute == PLIM_F32) return (cell){.f32 = (float)inf};
    if (compute == PLIM_F64) return (cell){.f64 = inf};
    return int_extreme(t, how == PLIM__FOLD_MIN);
}

static void fill(const plim__view *out, cell value)
{
    plim__view one = *out;
    one.data = &value;
    one.dtype = plim__dtype_compute(out->dtype);
    memset(one.stride, 0, sizeof one.stride);
    plim__copy(out, &one);
}

void plim__reduce_init(plim__fold how, const plim__view *out)
{
    fill(out, neutral(how, out->dtype));
}

typedef struct fold_ctx {
    const plim__lanes *lanes;
    plim__fold how;
    plim_dtype compute, acc;
    const plim__view *out;
} fold_ctx;

static void acc_clear(const fold_ctx *f, void *acc, int64_t n)
{
    const cell c = neutral(f->how, f->acc);
    if (plim_dtype_bytes(f->acc) == 4)
        for (int64_t j = 0; j < n; j++) ((float *)acc)[j] = c.f32;
    else
        for (int64_t j = 0; j < n; j++) ((uint64_t *)acc)[j] = c.u64;
}

/* A long row as a block of LANE_WIDTH columns, whose accumulators are then folded by halves: acc[0] holds the result. */
static void fold_along(plim__lane_fn *fold, plim__lane_fn *join, void *acc, uint64_t acc_bytes, const void *x, uint64_t bytes, int64_t n)
{
    const int64_t whole = n / LANE_WIDTH, rest = n % LANE_WIDTH;
    fold(acc, x, LANE_WIDTH, whole, LANE_WIDTH);
    fold(acc, (const char *)x + (uint64_t)(whole * LANE_WIDTH) * bytes, 0, 1, rest);
    for (int64_t half = LANE_WIDTH / 2; half > 0; half /= 2) join(acc, (char *)acc + (uint64_t)half * acc_bytes, 0, 1, half);
}

static void fold_piece(void *ctx, const plim__piece *p)
{
    const fold_ctx *f = ctx;
    _Alignas(64) char acc[PLIM__PIECE_COLS * 8], held[PLIM__PIECE_COLS * 8];
    plim__lane_fn *const fold = f->lanes->fold[f->how][lane_of(f->compute)], *const join = f->lanes->fold[f->how][lane_of(f->acc)];
    if (p->along) {
        acc_clear(f, acc, LANE_WIDTH);
        fold_along(fold, join, acc, plim_dtype_bytes(f->acc), p->x, plim_dtype_bytes(f->compute), p->rows);
    } else {
        acc_clear(f, acc, p->cols);
        fold(acc, p->x, p->pitch, p->rows, p->cols);
    }
    char *out = (char *)f->out->data + p->at[0] * (int64_t)plim_dtype_bytes(f->out->dtype);
    if (f->out->dtype == f->acc && (p->cols == 1 || p->col_step[0] == 1)) {
        join(out, acc, 0, 1, p->cols);
        return;
    }
    if (p->cols == 1 || p->col_step[0] == 1) {
        plim__convert(held, f->acc, out, f->out->dtype, (uint64_t)p->cols);
        join(held, acc, 0, 1, p->cols);
        plim__convert(out, f->out->dtype, held, f->acc, (uint64_t)p->cols);
        return;
    }
    const plim__view there = flat(out, f->out->dtype, 1, 0, p->cols, p->col_step[0]), here = flat(held, f->acc, 1, p->cols, p->cols, 1);
    plim__copy(&here, &there);
    join(held, acc, 0, 1, p->cols);
    plim__copy(&there, &here);
}

/* Strides of an aligned view as a track: a reduced dimension does not move. */
static void track_of(int64_t track[PLIM_MAX_RANK], const plim__view *v, uint32_t mask)
{
    for (uint32_t d = 0; d < v->rank; d++) track[d] = mask >> d & 1 ? 0 : v->stride[d];
}

static plim_dtype fold_compute(plim__fold how, plim_dtype in, plim_dtype out)
{
    if (how == PLIM__FOLD_MIN || how == PLIM__FOLD_MAX) return plim__dtype_compute(in);
    if (!plim__dtype_is_float(out)) return plim__dtype_compute(out);
    return plim__dtype_compute(in) == PLIM_F32 ? PLIM_F32 : PLIM_F64;
}

void plim__reduce_run(plim__fold how, const plim__view *out, const plim__view *in, uint32_t mask)
{
    const plim_dtype compute = fold_compute(how, in->dtype, out->dtype);
    fold_ctx f = {.lanes = plim__lanes_get(), .how = how, .compute = compute, .acc = fold_dtype(how, compute), .out = out};
    plim__tracks tracks = {0};
    track_of(tracks.step[0], out, mask);
    plim__pieces(in, mask, compute, &tracks, fold_piece, &f);
}

void plim__reduce_merge(plim__fold how, const plim__view *out, const plim__view *part)
{
    plim__reduce_run(how, out, part, 0);
}

/* ----------------------------------------------------------------------------------------------- moments */

typedef struct moments_ctx {
    const plim__lanes *lanes;
    plim_dtype compute;
    double *out;
    int64_t step;
} moments_ctx;

/* Chan, Golub and LeVeque: (count, mean, m2) with those of another set. */
static inline void chan_merge(double *at, int64_t step, double count, double mean, double m2)
{
    const double total = at[0] + count;
    if (count == 0) return;
    const double delta = mean - at[step], share = count / total;
    at[2 * step] += m2 + delta * delta * at[0] * share;
    at[step] += delta * share;
    at[0] = total;
}

static void moments_along(const moments_ctx *m, const plim__piece *p)
{
    const plim__lane lane = lane_of(m->compute);
    const uint64_t bytes = plim_dtype_bytes(m->compute);
    const int64_t whole = p->rows / LANE_WIDTH, rest = p->rows % LANE_WIDTH;
    double sum[LANE_WIDTH] = {0}, squares[LANE_WIDTH] = {0}, mean[LANE_WIDTH];
    fold_along(m->lanes->fold[PLIM__FOLD_SUM][lane], m->lanes->fold[PLIM__FOLD_SUM][PLIM__LANE_F64], sum, 8, p->x, bytes, p->rows);
    for (int j = 0; j < LANE_WIDTH; j++) mean[j] = sum[0] / (double)p->rows;
    m->lanes->squares[lane](squares, mean, p->x, LANE_WIDTH, whole, LANE_WIDTH);
    m->lanes->squares[lane](squares, mean, (const char *)p->x + (uint64_t)(whole * LANE_WIDTH) * bytes, 0, 1, rest);
    for (int half = LANE_WIDTH / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) squares[j] += squares[j + half];
    chan_merge(m->out + p->at[0], m->step, (double)p->rows, mean[0], squares[0]);
}

static void moments_piece(void *ctx, const plim__piece *p)
{
    const moments_ctx *m = ctx;
    if (p->along) {
        moments_along(m, p);
        return;
    }
    const plim__lane lane = lane_of(m->compute);
    double mean[PLIM__PIECE_COLS], squares[PLIM__PIECE_COLS];
    memset(mean, 0, (size_t)p->cols * sizeof *mean);
    memset(squares, 0, (size_t)p->cols * sizeof *squares);
    m->lanes->fold[PLIM__FOLD_SUM][lane](mean, p->x, p->pitch, p->rows, p->cols);
    for (int64_t j = 0; j < p->cols; j++) mean[j] /= (double)p->rows;
    m->lanes->squares[lane](squares, mean, p->x, p->pitch, p->rows, p->cols);
    for (int64_t j = 0; j < p->cols; j++) {
        double *at = m->out + p->at[0] + j * p->col_step[0];
        chan_merge(at, m->step, (double)p->rows, mean[j], squares[j]);
    }
}

void plim__moments_run(const plim__view *out, int64_t step, const plim__view *in, uint32_t mask)
{
    const plim_dtype compute = plim__dtype_compute(in->dtype) == PLIM_F32 ? PLIM_F32 : PLIM_F64;
    moments_ctx m = {.lanes = plim__lanes_get(), .compute = compute, .out = out->data, .step = step};
    plim__tracks tracks = {0};
    track_of(tracks.step[0], out, mask);
    plim__pieces(in, mask, compute, &tracks, moments_piece, &m);
}

typedef struct moments_pair {
    double *out;
    const double *part;
    int64_t step, part_step;
} moments_pair;

static void moments_merge_piece(void *ctx, const plim__piece *p)
{
    const moments_pair *m = ctx;
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->cols; j++) {
            const double *from = m->part + p->at[1] + i * p->row_step[1] + j * p->col_step[1];
            chan_merge(m->out + p->at[0] + i * p->row_step[0] + j * p->col_step[0], m->step, from[0], from[m->part_step], from[2 * m->part_step]);
        }
}

void plim__moments_merge(const plim__view *out, int64_t step, const plim__view *part, int64_t part_step)
{
    moments_pair m = {out->data, part->data, step, part_step};
    plim__tracks tracks = {0};
    track_of(tracks.step[0], out, 0);
    track_of(tracks.step[1], part, 0);
    plim__pieces(part, 0, PLIM_F64, &tracks, moments_merge_piece, &m);
}
