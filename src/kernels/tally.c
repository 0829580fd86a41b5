/* The reductions that look at single elements: argmin, argmax and the histogram (declared in reduce.h).
 *
 * The position of an extreme is found in two steps: the vectorised fold of reduce_lanes.inc gives the extreme of a piece, and only where that beats
 * what the result holds is the piece searched for its first place. Over a random order a result is beaten O(log pieces) times. */
#include "kernels/reduce.h"

#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- argmin */

typedef struct arg_ctx {
    plim__lane_fn *fold;
    plim__lane lane;
    bool largest;
    plim_dtype compute;
    const plim__view *pos, *val;
    int64_t base;            /* position of the input's first element */
    const int64_t *part_pos; /* when merging: the other positions */
} arg_ctx;

#define ARG_LANES 64

/* Is a better than b, or as good? Sign of the answer: 1, 0, -1. */
#define RANK_FN(name, T)                                                                 \
    static int name(T a, T b, bool largest)                                              \
    {                                                                                    \
        if (a != a || b != b) return (a != a) - (b != b);                                \
        if (a == b) return 0;                                                            \
        return (a < b) != largest ? 1 : -1;                                              \
    }

RANK_FN(rank_f32, float)
RANK_FN(rank_f64, double)
RANK_FN(rank_i64, int64_t)
RANK_FN(rank_u64, uint64_t)

/* Compares element i of one array of the lane's type with element j of another. */
static int rank_at(plim__lane lane, const void *a, int64_t i, const void *b, int64_t j, bool largest)
{
    switch (lane) {
    case PLIM__LANE_F32: return rank_f32(((const float *)a)[i], ((const float *)b)[j], largest);
    case PLIM__LANE_F64: return rank_f64(((const double *)a)[i], ((const double *)b)[j], largest);
    case PLIM__LANE_I64: return rank_i64(((const int64_t *)a)[i], ((const int64_t *)b)[j], largest);
    default: return rank_u64(((const uint64_t *)a)[i], ((const uint64_t *)b)[j], largest);
    }
}

/* First row of a column that is as good as `best`. It is there: best came from that column. */
static int64_t find_first(plim__lane lane, const void *x, int64_t pitch, int64_t rows, const void *best, int64_t j)
{
    for (int64_t i = 0; i < rows; i++)
        if (rank_at(lane, x, i * pitch, best, j, false) == 0) return i;
    return rows - 1;
}

/* Offers the best element of column j to its place in the result. */
static void arg_offer(const arg_ctx *a, const plim__piece *p, const void *best, int64_t j)
{
    const int64_t bytes = (int64_t)plim_dtype_bytes(a->compute);
    int64_t *pos = (int64_t *)a->pos->data + p->at[0] + j * p->col_step[0];
    char *val = (char *)a->val->data + (p->at[1] + j * p->col_step[1]) * (int64_t)plim_dtype_bytes(a->val->dtype);
    const int64_t top = a->base + p->at[2] + j * p->col_step[2];
    int rank = 1;
    if (*pos >= 0) {
        uint64_t held;
        plim__convert(&held, a->compute, val, a->val->dtype, 1);
        rank = rank_at(a->lane, best, j, &held, 0, a->largest);
        if (rank < 0 || (rank == 0 && top >= *pos)) return;
    }
    const char *column = (const char *)p->x + j * bytes;
    const int64_t i = find_first(a->lane, column, p->pitch, p->rows, best, j);
    const int64_t found = top + i * p->row_step[2];
    if (rank == 0 && found >= *pos) return;
    *pos = found;
    plim__convert(val, a->val->dtype, column + i * p->pitch * bytes, a->compute, 1);
}

static void arg_piece(void *ctx, const plim__piece *p)
{
    const arg_ctx *a = ctx;
    const uint64_t bytes = plim_dtype_bytes(a->compute);
    _Alignas(64) char best[PLIM__PIECE_COLS * 8];
    if (!p->along) {
        memcpy(best, p->x, (uint64_t)p->cols * bytes);
        a->fold(best, (const char *)p->x + p->pitch * (int64_t)bytes, p->pitch, p->rows - 1, p->cols);
    } else {
        const int64_t lanes = plim__min(ARG_LANES, p->rows), whole = p->rows / lanes;
        memcpy(best, p->x, (uint64_t)lanes * bytes);
        a->fold(best, p->x, lanes, whole, lanes);
        a->fold(best, (const char *)p->x + whole * lanes * (int64_t)bytes, 0, 1, p->rows % lanes);
        a->fold(best, best + bytes, 1, lanes - 1, 1);
    }
    for (int64_t j = 0; j < p->cols; j++) arg_offer(a, p, best, j);
}

static void arg_walk(arg_ctx *a, const plim__view *in, uint32_t mask, const int64_t weight[], plim__piece_fn *fn)
{
    const plim_dtype t = a->compute = plim__dtype_compute(in->dtype);
    a->lane = t == PLIM_F32 ? PLIM__LANE_F32 : t == PLIM_F64 ? PLIM__LANE_F64 : t == PLIM_U64 ? PLIM__LANE_U64 : PLIM__LANE_I64;
    a->fold = plim__lanes_get()->fold[a->largest ? PLIM__FOLD_MAX : PLIM__FOLD_MIN][a->lane];
    plim__tracks tracks = {0};
    for (uint32_t d = 0; d < in->rank; d++) {
        const bool reduced = mask >> d & 1;
        tracks.step[0][d] = reduced ? 0 : a->pos->stride[d];
        tracks.step[1][d] = reduced ? 0 : a->val->stride[d];
        tracks.step[2][d] = weight[d];
    }
    plim__pieces(in, mask, t, &tracks, fn, a);
}

void plim__arg_run(bool largest, const plim__view *pos, const plim__view *val, const plim__view *in, uint32_t mask, const int64_t weight[])
{
    arg_ctx a = {.largest = largest, .pos = pos, .val = val};
    for (uint32_t d = 0; d < in->rank; d++) a.base += in->lo[d] * weight[d];
    arg_walk(&a, in, mask, weight, arg_piece);
}

/* Here the third track leads through the other positions. */
static void arg_merge_piece(void *ctx, const plim__piece *p)
{
    const arg_ctx *a = ctx;
    for (int64_t j = 0; j < p->cols; j++) {
        const int64_t from = a->part_pos[p->at[2] + j * p->col_step[2]];
        int64_t *pos = (int64_t *)a->pos->data + p->at[0] + j * p->col_step[0];
        char *val = (char *)a->val->data + (p->at[1] + j * p->col_step[1]) * (int64_t)plim_dtype_bytes(a->val->dtype);
        if (from < 0) continue;
        if (*pos >= 0) {
            uint64_t held;
            plim__convert(&held, a->compute, val, a->val->dtype, 1);
            const int rank = rank_at(a->lane, p->x, j, &held, 0, a->largest);
            if (rank < 0 || (rank == 0 && from >= *pos)) continue;
        }
        *pos = from;
        plim__convert(val, a->val->dtype, (const char *)p->x + j * (int64_t)plim_dtype_bytes(a->compute), a->compute, 1);
    }
}

void plim__arg_merge(bool largest, const plim__view *pos, const plim__view *val, const plim__view *part_pos, const plim__view *part_val)
{
    arg_ctx a = {.largest = largest, .pos = pos, .val = val, .part_pos = part_pos->data};
    arg_walk(&a, part_val, 0, part_pos->stride, arg_merge_piece);
}

/* ---------------------------------------------------------------------------------------------- histogram */

#define HIST_COPIES 4         /* neighbours that fall into one bin must not wait for each other's store */
#define HIST_COPIES_BINS 8192 /* with more bins than this, neighbours seldom do */
#define HIST_CHUNK 256

typedef struct hist_ctx {
    int64_t bins, copies;
    uint64_t *count; /* (copies, bins) */
    void *edges;     /* (bins + 1) in the compute dtype */
    double lo, hi, norm;
} hist_ctx;

uint64_t plim__histogram_scratch(int64_t bins)
{
    const int64_t copies = bins <= HIST_COPIES_BINS ? HIST_COPIES : 1;
    return (uint64_t)(copies * bins + bins + 1) * 8;
}

/* numpy.linspace(lo, hi, bins + 1): i*step + lo, the last exactly hi. The product is rounded before the addition: a fused one would move edges. */
static void hist_edges(hist_ctx *h, plim_dtype compute, plim_dtype in)
{
    const double step = (h->hi - h->lo) / (double)h->bins;
    for (int64_t i = 0; i <= h->bins; i++) {
        const volatile double product = (double)i * step;
        double edge = i == h->bins ? h->hi : product + h->lo;
        if (plim__dtype_is_float(in)) { /* the edges have the data's own precision, as NumPy's do */
            uint64_t own;
            plim__convert(&own, in, &edge, PLIM_F64, 1);
            plim__convert(&edge, PLIM_F64, &own, in, 1);
        }
        if (compute == PLIM_F64) ((double *)h->edges)[i] = edge;
        else ((float *)h->edges)[i] = (float)edge;
    }
}

#define HIST_FN(name, T)                                                                            \
    static void name(const hist_ctx *h, const T *restrict x, int64_t n)                             \
    {                                                                                               \
        const T *edges = h->edges, lo = edges[0], hi = edges[h->bins], norm = (T)h->norm;           \
        int64_t index[HIST_CHUNK];                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                           \
            const T f = (x[i] - lo) * norm;                                                         \
            index[i] = ((x[i] >= lo) & (x[i] <= hi)) ? (int64_t)f : -1;                               \
        }                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                           \
            int64_t k = index[i];                                                                   \
            if (k < 0) continue;                                                                    \
            k = plim__min(k, h->bins - 1);                                                          \
            k -= (x[i] < edges[k]) & (k > 0);                                                       \
            k += (x[i] >= edges[k + 1]) & (k < h->bins - 1);                                        \
            h->count[(i & (h->copies - 1)) * h->bins + k]++;                                        \
        }                                                                                           \
    }

HIST_FN(hist_f32, float)
HIST_FN(hist_f64, double)

static void hist_piece_f32(void *ctx, const plim__piece *p)
{
    const int64_t rows = p->along ? 1 : p->rows, n = p->along ? p->rows : p->cols;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j += HIST_CHUNK) hist_f32(ctx, (const float *)p->x + i * p->pitch + j, plim__min(HIST_CHUNK, n - j));
}

static void hist_piece_f64(void *ctx, const plim__piece *p)
{
    const int64_t rows = p->along ? 1 : p->rows, n = p->along ? p->rows : p->cols;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j += HIST_CHUNK) hist_f64(ctx, (const double *)p->x + i * p->pitch + j, plim__min(HIST_CHUNK, n - j));
}

void plim__histogram_run(int64_t *out, int64_t stride, int64_t bins, double lo, double hi, const plim__view *in, void *scratch)
{
    if (lo == hi) {
        lo -= 0.5;
        hi += 0.5;
    }
    if (!(lo < hi) || !isfinite(hi - lo)) return;
    hist_ctx h = {.bins = bins, .copies = bins <= HIST_COPIES_BINS ? HIST_COPIES : 1, .lo = lo, .hi = hi, .norm = (double)bins / (hi - lo)};
    h.count = scratch;
    h.edges = h.count + h.copies * bins;
    memset(h.count, 0, (uint64_t)(h.copies * bins) * sizeof *h.count);
    const bool narrow = plim__dtype_compute(in->dtype) == PLIM_F32 && hi - lo <= FLT_MAX; /* of which x - lo is at most as much */
    hist_edges(&h, narrow ? PLIM_F32 : PLIM_F64, in->dtype);

    const plim__tracks tracks = {0};
    const uint32_t all = (1u << in->rank) - 1;
    plim__pieces(in, all, narrow ? PLIM_F32 : PLIM_F64, &tracks, narrow ? hist_piece_f32 : hist_piece_f64, &h);
    for (int64_t c = 0; c < h.copies; c++)
        for (int64_t b = 0; b < bins; b++) out[b * stride] += (int64_t)h.count[c * bins + b];
}
