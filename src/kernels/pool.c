#include "kernels/pool.h"

#include "core/dtype.h"
#include "kernels/convert.h"
#include "kernels/pool_blocked.h"

#include <math.h>
#include <string.h>

#define LANES(name) name##_base
#include "kernels/pool_lanes.inc"

#define SEGMENT 512 /* windows of a row at a time */

static plim__range box(const plim__view *v, uint32_t d) { return (plim__range){v->lo[d], v->lo[d] + v->n[d]}; }

static const plim__pool_lanes *lanes_for(plim_dtype t) { return &PLIM__BEST(plim__pool_lanes)[t == PLIM_F64]; }

/* One channel of one sample. A row of windows is what lies along the last dimension of space. */
typedef struct job {
    const plim__pooling *p;
    const plim__pool_lanes *lanes;
    plim__view x, y, dx, dy; /* rank 3: space; those that there are */
    plim__range whole[3];    /* of x */
    plim__range at[3];       /* the windows */
    int64_t item;            /* bytes of an element */
    plim_dtype dtype;
} job;

static double load(const void *p, plim_dtype t) { return t == PLIM_F64 ? *(const double *)p : *(const float *)p; }

static char *cell(const job *j, const plim__view *v, int64_t a, int64_t b, int64_t c)
{
    return (char *)v->data + ((a - v->lo[0]) * v->stride[0] + (b - v->lo[1]) * v->stride[1] + (c - v->lo[2]) * v->stride[2]) * j->item;
}

int64_t plim__pool_counted(const plim__pooling *p, uint32_t d, int64_t w)
{
    const plim__sliding *s = &p->window;
    const plim__range with = {p->count_border ? -s->before[d] : 0, s->in[d] + (p->count_border ? s->after[d] : 0)};
    return plim__range_len(plim__sliding_taps(s, d, w, with));
}

/* The number of elements of each window of a piece of a row; 1 for none, whose sum is 0. */
static void count_piece(const job *j, const int64_t win[2], plim__range cols, double *out)
{
    const double others = (double)plim__pool_counted(j->p, 0, win[0]) * (double)plim__pool_counted(j->p, 1, win[1]);
    for (int64_t c = cols.lo; c < cols.hi; c++) out[c - cols.lo] = fmax(others * (double)plim__pool_counted(j->p, 2, c), 1);
}

/* What is done for one tap of windows [cols.lo, cols.hi) of a row: their elements start at x, `step` apart. */
typedef void tap_fn(const job *j, void *acc, char *x, int64_t step, int64_t n);

/* Calls fn for every tap that lies in `inside`, which is a part of v's box. acc: of the first of `cols`, `bytes` each. */
static void each_tap(const job *j, const plim__view *v, const plim__range inside[3], const int64_t win[2], plim__range cols, char *acc,
                     int64_t bytes, tap_fn *fn)
{
    const plim__sliding *s = &j->p->window;
    const plim__range outer[2] = {plim__sliding_taps(s, 0, win[0], inside[0]), plim__sliding_taps(s, 1, win[1], inside[1])};
    for (int64_t a = outer[0].lo; a < outer[0].hi; a++)
        for (int64_t b = outer[1].lo; b < outer[1].hi; b++)
            for (int64_t t = 0; t < s->size[2]; t++) {
                const plim__range c = plim__sliding_meet(s, 2, t, cols, inside[2]);
                if (plim__range_len(c) == 0) continue;
                char *x = cell(j, v, plim__sliding_at(s, 0, win[0], a), plim__sliding_at(s, 1, win[1], b), plim__sliding_at(s, 2, c.lo, t));
                fn(j, acc + (c.lo - cols.lo) * bytes, x, s->stride[2] * v->stride[2], plim__range_len(c));
            }
}

/* --------------------------------------------------------------------------------------------------- forward */

static void tap_max(const job *j, void *acc, char *x, int64_t step, int64_t n) { j->lanes->max(acc, x, step, n); }
static void tap_sum(const job *j, void *acc, char *x, int64_t step, int64_t n) { j->lanes->sum(acc, x, step, n); }

#define STORE(T, from)                                                                     \
    do {                                                                                   \
        T *to = (T *)(void *)cell(j, &j->y, win[0], win[1], cols.lo);                      \
        for (int64_t i = 0; i < n; i++) to[i * j->y.stride[2]] = (T)(from);                \
    } while (0)

static void mean_piece(const job *j, const int64_t win[2], plim__range cols)
{
    double acc[SEGMENT], count[SEGMENT];
    const int64_t n = plim__range_len(cols);
    memset(acc, 0, (size_t)n * sizeof *acc);
    each_tap(j, &j->x, j->whole, win, cols, (char *)acc, sizeof *acc, tap_sum);
    count_piece(j, win, cols, count);
    if (j->dtype == PLIM_F64) STORE(double, acc[i] / count[i]);
    else STORE(float, acc[i] / count[i]);
}

static void max_piece(const job *j, const int64_t win[2], plim__range cols)
{
    union {
        float f32[SEGMENT];
        double f64[SEGMENT];
    } acc;
    const int64_t n = plim__range_len(cols);
    for (int64_t i = 0; i < n; i++) {
        if (j->dtype == PLIM_F64) acc.f64[i] = -INFINITY;
        else acc.f32[i] = -INFINITY;
    }
    each_tap(j, &j->x, j->whole, win, cols, (char *)&acc, j->item, tap_max);
    if (j->dtype == PLIM_F64) STORE(double, acc.f64[i]);
    else STORE(float, acc.f32[i]);
}

/* -------------------------------------------------------------------------------------------------- backward */

static void tap_add(const job *j, void *acc, char *x, int64_t step, int64_t n) { j->lanes->add(x, step, acc, n); }

static void mean_back_piece(const job *j, const int64_t win[2], plim__range cols)
{
    double share[SEGMENT], count[SEGMENT];
    const plim__range inside[3] = {box(&j->dx, 0), box(&j->dx, 1), box(&j->dx, 2)};
    count_piece(j, win, cols, count);
    for (int64_t c = cols.lo; c < cols.hi; c++)
        share[c - cols.lo] = load(cell(j, &j->dy, win[0], win[1], c), j->dtype) / count[c - cols.lo];
    each_tap(j, &j->dx, inside, win, cols, (char *)share, sizeof *share, tap_add);
}

/* The first element of a window that equals its largest, y. @return false: the window is empty */
static bool first_largest(const job *j, const plim__range taps[3], const int64_t win[3], double y, int64_t at[3])
{
    const plim__sliding *s = &j->p->window;
    const int64_t first = plim__sliding_at(s, 2, win[2], taps[2].lo), step = s->dilation[2] * j->x.stride[2] * j->item;
    for (int64_t a = taps[0].lo; a < taps[0].hi; a++)
        for (int64_t b = taps[1].lo; b < taps[1].hi; b++) {
            at[0] = plim__sliding_at(s, 0, win[0], a);
            at[1] = plim__sliding_at(s, 1, win[1], b);
            const char *row = cell(j, &j->x, at[0], at[1], first);
            for (at[2] = taps[2].lo; at[2] < taps[2].hi; at[2]++, row += step) {
                const double x = load(row, j->dtype);
                if (x != y && !(x != x && y != y)) continue;
                at[2] = plim__sliding_at(s, 2, win[2], at[2]);
                return true;
            }
        }
    return false;
}

static void max_back_piece(const job *j, const int64_t win[2], plim__range cols)
{
    const plim__sliding *s = &j->p->window;
    plim__range taps[3] = {plim__sliding_taps(s, 0, win[0], j->whole[0]), plim__sliding_taps(s, 1, win[1], j->whole[1])};
    for (int64_t c = cols.lo; c < cols.hi; c++) {
        int64_t at[3];
        taps[2] = plim__sliding_taps(s, 2, c, j->whole[2]);
        if (!first_largest(j, taps, (int64_t[]){win[0], win[1], c}, load(cell(j, &j->y, win[0], win[1], c), j->dtype), at)) continue;
        bool here = true;
        for (uint32_t d = 0; d < 3; d++) here = here && at[d] >= j->dx.lo[d] && at[d] < j->dx.lo[d] + j->dx.n[d];
        if (!here) continue;
        void *to = cell(j, &j->dx, at[0], at[1], at[2]);
        const void *from = cell(j, &j->dy, win[0], win[1], c);
        if (j->dtype == PLIM_F64) *(double *)to += *(const double *)from;
        else *(float *)to += *(const float *)from;
    }
}

static void zero_part(const job *j)
{
    const plim__view *v = &j->dx;
    for (int64_t a = v->lo[0]; a < v->lo[0] + v->n[0]; a++)
        for (int64_t b = v->lo[1]; b < v->lo[1] + v->n[1]; b++) {
            char *row = cell(j, v, a, b, v->lo[2]);
            if (v->stride[2] == 1) memset(row, 0, (size_t)(v->n[2] * j->item));
            else for (int64_t c = 0; c < v->n[2]; c++) memset(row + c * v->stride[2] * j->item, 0, (size_t)j->item);
        }
}

/* ---------------------------------------------------------------------------------------------------- the run */

/* The space of one channel of one sample. */
static plim__view channel(const plim__view *v, int64_t n, int64_t c)
{
    plim__view r = {.dtype = v->dtype, .rank = 3};
    r.data = (char *)v->data + ((n - v->lo[0]) * v->stride[0] + (c - v->lo[1]) * v->stride[1]) * (int64_t)plim_dtype_bytes(v->dtype);
    for (uint32_t d = 0; d < 3; d++) {
        r.lo[d] = v->lo[2 + d];
        r.n[d] = v->n[2 + d];
        r.stride[d] = v->stride[2 + d];
    }
    return r;
}

typedef void piece_fn(const job *j, const int64_t win[2], plim__range cols);

/* Every piece of every row of the windows. */
static void each_piece(const job *j, piece_fn *fn)
{
    int64_t win[2];
    for (win[0] = j->at[0].lo; win[0] < j->at[0].hi; win[0]++)
        for (win[1] = j->at[1].lo; win[1] < j->at[1].hi; win[1]++)
            for (int64_t c = j->at[2].lo; c < j->at[2].hi; c += SEGMENT) fn(j, win, (plim__range){c, plim__min(c + SEGMENT, j->at[2].hi)});
}

static job job_new(const plim__pooling *p, plim_dtype dtype)
{
    job j = {.p = p, .lanes = lanes_for(dtype), .item = (int64_t)plim_dtype_bytes(dtype), .dtype = dtype};
    for (uint32_t d = 0; d < 3; d++) j.whole[d] = (plim__range){0, p->window.in[d]};
    return j;
}

void plim__pool_run(const plim__pooling *p, const plim__view *y, const plim__view *x)
{
    if (plim__pool_in_blocks(p, y, &x, 1)) {
        plim__pool_blocked_run(p, y, x);
        return;
    }
    job j = job_new(p, y->dtype);
    for (uint32_t d = 0; d < 3; d++) j.at[d] = box(y, 2 + d);
    for (int64_t n = y->lo[0]; n < y->lo[0] + y->n[0]; n++)
        for (int64_t c = y->lo[1]; c < y->lo[1] + y->n[1]; c++) {
            j.y = channel(y, n, c);
            j.x = channel(x, n, c);
            each_piece(&j, p->average ? mean_piece : max_piece);
        }
}

void plim__pool_back(const plim__pooling *p, const plim__view *dx, const plim__view *x, const plim__view *y, const plim__view *dy)
{
    if (plim__view_count(dx) == 0) return;
    if (plim__pool_in_blocks(p, dx, (const plim__view *const[]){dy, x, y}, p->average ? 1 : 3)) {
        plim__pool_blocked_back(p, dx, x, y, dy);
        return;
    }
    job j = job_new(p, dx->dtype);
    for (uint32_t d = 0; d < 3; d++) j.at[d] = plim__sliding_touch(&p->window, d, box(dx, 2 + d));
    for (int64_t n = dx->lo[0]; n < dx->lo[0] + dx->n[0]; n++)
        for (int64_t c = dx->lo[1]; c < dx->lo[1] + dx->n[1]; c++) {
            j.dx = channel(dx, n, c);
            j.dy = channel(dy, n, c);
            if (!p->average) {
                j.x = channel(x, n, c);
                j.y = channel(y, n, c);
            }
            zero_part(&j);
            each_piece(&j, p->average ? mean_back_piece : max_back_piece);
        }
}
