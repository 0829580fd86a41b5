#include "kernels/resize.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/strided.h"

#include <math.h>
#include <string.h>

#define LANES(name) name##_base
#include "kernels/resize_lanes.inc"

#define COLS 512

static const plim__resize_lanes *lanes_for(plim_dtype t) { return &PLIM__BEST(plim__resize_lanes)[t == PLIM_F64]; }

/* ------------------------------------------------------------------------------------------------- taps */

static double coordinate(const plim__resize_map *m, int64_t i) { return ((double)i + m->half) / m->scale - m->half; }

int64_t plim__resize_floor(const plim__resize_map *m, int64_t i)
{
    if (m->c > 0) return plim__floor_div(m->a * i + m->b, m->c);
    const double x = coordinate(m, i);
    const double nearest[] = {ceil(x - 0.5), floor(x + 0.5), floor(x), ceil(x)};
    const double at = m->linear ? floor(x) : nearest[m->round];
    return at < -1 ? -1 : at > (double)m->in ? m->in : (int64_t)at; /* a coordinate may be far beyond 64 bits; what is outside is clamped anyway */
}

plim__resize_tap plim__resize_tap_at(const plim__resize_map *m, int64_t i)
{
    const int64_t at = plim__resize_floor(m, i), last = m->in - 1;
    plim__resize_tap t = {.lo = plim__clamp(at, 0, last), .hi = plim__clamp(at + 1, 0, last)};
    if (m->linear && t.hi != t.lo) t.w = m->c > 0 ? (double)(m->a * i + m->b - at * m->c) / (double)m->c : coordinate(m, i) - (double)at;
    if (t.w == 0) t.hi = t.lo; /* a neighbour without weight is not looked at: it may be NaN */
    return t;
}

/* The first index whose upper tap (or lower tap) is not below j. */
static int64_t first_index(const plim__resize_map *m, int64_t j, bool upper)
{
    int64_t lo = 0, hi = m->out;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        const plim__resize_tap t = plim__resize_tap_at(m, mid);
        if ((upper ? t.hi : t.lo) < j) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

plim__range plim__resize_span(const plim__resize_map *m, int64_t j)
{
    return (plim__range){first_index(m, j, true), first_index(m, j + 1, false)};
}

/* What index i gives to input element j. */
static double tap_weight(const plim__resize_map *m, int64_t i, int64_t j)
{
    const plim__resize_tap t = plim__resize_tap_at(m, i);
    return (t.lo == j ? 1 - t.w : 0) + (t.hi == j && t.hi != t.lo ? t.w : 0);
}

/* ------------------------------------------------------------------------------------------------- rows */

/* The absolute index of row r of v: `at` without the last dimension. */
static void row_index(const plim__view *v, uint64_t r, int64_t at[PLIM_MAX_RANK])
{
    for (uint32_t d = v->rank - 1; d-- > 0;) {
        at[d] = v->lo[d] + (int64_t)(r % (uint64_t)v->n[d]);
        r /= (uint64_t)v->n[d];
    }
}

static uint64_t row_count(const plim__view *v)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d + 1 < v->rank; d++) n *= (uint64_t)v->n[d];
    return n;
}

/* ---------------------------------------------------------------------------------------------- forward */

/* The columns that are worked on: their taps, as offsets into a row of the input's box. */
typedef struct columns {
    int64_t first, n;
    int64_t lo[COLS], hi[COLS];
    _Alignas(64) char w[COLS * 8];
} columns;

static void columns_find(columns *c, const plim__resize_map *m, const plim__view *in)
{
    const uint32_t last = in->rank - 1;
    for (int64_t j = 0; j < c->n; j++) {
        const plim__resize_tap t = plim__resize_tap_at(m, c->first + j);
        PLIM_ASSERT(t.lo >= in->lo[last] && t.hi < in->lo[last] + in->n[last]);
        c->lo[j] = (t.lo - in->lo[last]) * in->stride[last];
        c->hi[j] = (t.hi - in->lo[last]) * in->stride[last];
        if (in->dtype == PLIM_F32) ((float *)(void *)c->w)[j] = (float)t.w;
        else ((double *)(void *)c->w)[j] = t.w;
    }
}

/* One stretch of an output row: up to four rows of the input, blended by their weights. */
static void row_blend(void *to, const columns *c, const plim__view *in, const int64_t *at, const plim__resize_map *map, uint32_t space)
{
    const plim__resize_lanes *lanes = lanes_for(in->dtype);
    const uint32_t last = in->rank - 1, rows = space - 1, first = last - rows;
    int64_t from[PLIM_MAX_RANK];
    memcpy(from, at, sizeof from);
    from[last] = in->lo[last];
    plim__resize_tap tap[PLIM__RESIZE_MAX];
    for (uint32_t d = 0; d < rows; d++) tap[d] = plim__resize_tap_at(&map[d], at[first + d]);
    bool add = false;
    for (uint32_t corner = 0; corner < 1u << rows; corner++) {
        double weight = 1;
        for (uint32_t d = 0; d < rows; d++) {
            const bool upper = corner >> d & 1;
            weight *= upper ? tap[d].w : 1 - tap[d].w;
            from[first + d] = upper ? tap[d].hi : tap[d].lo;
        }
        if (weight == 0) continue;
        const void *x = plim__view_at(in, from);
        if (map[rows].linear) lanes->blend(to, x, c->lo, c->hi, c->w, weight, add, c->n);
        else lanes->pick(to, x, c->lo, c->n);
        add = true;
    }
}

void plim__resize_run(const plim__view *out, const plim__view *in, const plim__resize_map *map, uint32_t space)
{
    if (plim__view_count(out) == 0) return;
    const uint32_t last = out->rank - 1;
    const uint64_t rows = row_count(out), item = plim_dtype_bytes(out->dtype);
    const bool direct = out->stride[last] == 1;
    columns c;
    _Alignas(64) char stage[COLS * 8];
    for (int64_t j = 0; j < out->n[last]; j += COLS) {
        c.first = out->lo[last] + j;
        c.n = plim__min(COLS, out->n[last] - j);
        columns_find(&c, &map[space - 1], in);
        for (uint64_t r = 0; r < rows; r++) {
            int64_t at[PLIM_MAX_RANK] = {0};
            row_index(out, r, at);
            at[last] = c.first;
            char *to = plim__view_at(out, at);
            row_blend(direct ? to : stage, &c, in, at, map, space);
            if (!direct) plim__scatter(to, stage, item, 1, c.n, 0, out->stride[last] * (int64_t)item);
        }
    }
}

/* --------------------------------------------------------------------------------------------- gradient */

/* Columns of dy whose taps lie in a stretch of dx's columns. */
typedef struct spread {
    int64_t first, n;             /* columns of dy */
    int64_t lo[COLS], hi[COLS];   /* columns of dx, from the stretch's first on; -1: outside it */
    double w[COLS];
} spread;

static void spread_find(spread *s, const plim__resize_map *m, int64_t dx_first, int64_t dx_n)
{
    for (int64_t j = 0; j < s->n; j++) {
        const plim__resize_tap t = plim__resize_tap_at(m, s->first + j);
        s->lo[j] = t.lo >= dx_first && t.lo < dx_first + dx_n ? t.lo - dx_first : -1;
        s->hi[j] = t.hi != t.lo && t.hi >= dx_first && t.hi < dx_first + dx_n ? t.hi - dx_first : -1;
        s->w[j] = t.w;
    }
}

/* sum = the rows of dy that take something from dx's row `at`, times what they take. */
static void rows_collect(double *sum, const spread *s, const plim__view *dy, const int64_t *at, const plim__resize_map *map, uint32_t space)
{
    const plim__resize_lanes *lanes = lanes_for(dy->dtype);
    const uint32_t last = dy->rank - 1, rows = space - 1, first = last - rows;
    int64_t from[PLIM_MAX_RANK];
    plim__range span[2] = {{0, 1}, {0, 1}};
    memcpy(from, at, sizeof from);
    from[last] = s->first;
    memset(sum, 0, (size_t)s->n * sizeof *sum);
    if (s->n == 0) return;
    for (uint32_t d = 0; d < rows; d++) {
        span[d] = plim__resize_span(&map[d], at[first + d]);
        PLIM_ASSERT(plim__range_len(span[d]) == 0 || (span[d].lo >= dy->lo[first + d] && span[d].hi <= dy->lo[first + d] + dy->n[first + d]));
    }
    for (int64_t i0 = span[0].lo; i0 < span[0].hi; i0++) {
        for (int64_t i1 = span[1].lo; i1 < span[1].hi; i1++) {
            double weight = 1;
            const int64_t i[2] = {i0, i1};
            for (uint32_t d = 0; d < rows; d++) {
                weight *= tap_weight(&map[d], i[d], at[first + d]);
                from[first + d] = i[d];
            }
            if (weight != 0) lanes->collect(sum, plim__view_at(dy, from), dy->stride[last], weight, s->n);
        }
    }
}

/* A stretch of dx's columns and a stretch of the columns of dy that belong to it, in every row. */
static void back_columns(const plim__view *dx, const plim__view *dy, const plim__resize_map *map, uint32_t space, const spread *s, int64_t first,
                         int64_t n, bool add)
{
    const uint32_t last = dx->rank - 1;
    const uint64_t rows = row_count(dx);
    double sum[COLS], acc[COLS];
    for (uint64_t r = 0; r < rows; r++) {
        int64_t at[PLIM_MAX_RANK] = {0};
        row_index(dx, r, at);
        rows_collect(sum, s, dy, at, map, space);
        memset(acc, 0, (size_t)n * sizeof *acc);
        for (int64_t j = 0; j < s->n; j++) {
            if (s->lo[j] >= 0) acc[s->lo[j]] += (1 - s->w[j]) * sum[j];
            if (s->hi[j] >= 0) acc[s->hi[j]] += s->w[j] * sum[j];
        }
        at[last] = first;
        lanes_for(dx->dtype)->store(plim__view_at(dx, at), dx->stride[last], acc, add, n);
    }
}

void plim__resize_back_run(const plim__view *dx, const plim__view *dy, const plim__resize_map *map, uint32_t space)
{
    if (plim__view_count(dx) == 0) return;
    const uint32_t last = dx->rank - 1;
    const plim__resize_map *m = &map[space - 1];
    spread s;
    for (int64_t j = 0; j < dx->n[last]; j += COLS) {
        const int64_t first = dx->lo[last] + j, n = plim__min(COLS, dx->n[last] - j);
        const plim__range all = {plim__resize_span(m, first).lo, plim__resize_span(m, first + n - 1).hi};
        PLIM_ASSERT(plim__range_len(all) == 0 || (all.lo >= dy->lo[last] && all.hi <= dy->lo[last] + dy->n[last]));
        s.first = all.lo;
        do { /* once even for nothing: zeros are written */
            s.n = plim__clamp(all.hi - s.first, 0, COLS);
            spread_find(&s, m, first, n);
            back_columns(dx, dy, map, space, &s, first, n, s.first > all.lo);
            s.first += s.n;
        } while (s.first < all.hi);
    }
}
