/* A row of windows is cut into stretches whose windows have the same taps: those that lie inside as one, those at its ends alone. The dimensions of
 * space are called rows, columns and lanes here; 16 lanes make a block. */
#include "kernels/pool_blocked.h"

#include "kernels/convert.h"

#include <math.h>
#include <string.h>

#define LANES(name) name##_base
#include "kernels/pool_blocked_lanes.inc"

/* The plane of one block of one channel of one sample. */
typedef struct plane {
    float *data; /* the element at the box's start */
    plim__range row, col;
    int64_t row_step, col_step;
} plane;

typedef struct block_job {
    const plim__pooling *p;
    const plim__pool_block_lanes *lanes;
    plane x, y, dx, dy; /* those that there are */
    plim__range rows, cols; /* the windows */
} block_job;

static plane plane_of(const plim__view *v, int64_t n, int64_t c, int64_t lane)
{
    const int64_t at = (n - v->lo[0]) * v->stride[0] + (c - v->lo[1]) * v->stride[1] + (lane - v->lo[4]);
    return (plane){.data = (float *)v->data + at, .row = {v->lo[2], v->lo[2] + v->n[2]}, .col = {v->lo[3], v->lo[3] + v->n[3]},
                   .row_step = v->stride[2], .col_step = v->stride[3]};
}

static float *at(const plane *p, int64_t row, int64_t col) { return p->data + (row - p->row.lo) * p->row_step + (col - p->col.lo) * p->col_step; }

bool plim__pool_in_blocks(const plim__pooling *p, const plim__view *part, const plim__view *const *v, uint32_t n)
{
    const plim__sliding *s = &p->window;
    if (part->dtype != PLIM_F32 || s->size[2] != 1 || s->stride[2] != 1 || s->before[2] != 0 || s->after[2] != 0) return false;
    if (part->n[4] == 0 || part->n[4] % PLIM__POOL_BLOCK != 0 || part->stride[4] != 1) return false;
    for (uint32_t k = 0; k < n; k++)
        if (v[k]->stride[4] != 1) return false;
    return true;
}

/* How many elements a mean of the window at (row, col) counts; 1 for none, whose sum is 0. */
static double count_of(const plim__pooling *p, int64_t row, int64_t col)
{
    return fmax((double)plim__pool_counted(p, 0, row) * (double)plim__pool_counted(p, 1, col), 1);
}

typedef void stretch_fn(const block_job *j, int64_t row, int64_t col, plim__range row_taps, plim__range col_taps, plim__pool_stretch *t);

/* All windows; `inside` is where the taps of a stretch of several must lie. */
static void each_stretch(const block_job *j, int64_t row, plim__range inside, stretch_fn *fn)
{
    const plim__sliding *s = &j->p->window;
    const plim__range first = plim__sliding_meet(s, 1, 0, j->cols, inside), last = plim__sliding_meet(s, 1, s->size[1] - 1, j->cols, inside);
    const plim__range alike = {plim__max(first.lo, last.lo), plim__min(first.hi, last.hi)};
    const plim__range row_taps = plim__sliding_taps(s, 0, row, (plim__range){0, s->in[0]});
    for (int64_t col = j->cols.lo, next; col < j->cols.hi; col = next) {
        next = col == alike.lo && alike.lo < alike.hi ? alike.hi : col + 1;
        const plim__range col_taps = plim__sliding_taps(s, 1, col, (plim__range){0, s->in[1]});
        plim__pool_stretch t = {.windows = next - col, .rows = plim__range_len(row_taps), .cols = plim__range_len(col_taps)};
        if (j->p->average) t.count = count_of(j->p, row, col);
        fn(j, row, col, row_taps, col_taps, &t);
    }
}

/* The first tap of a window, which has one. */
static float *tap(const block_job *j, const plane *p, int64_t row, int64_t col, int64_t row_tap, int64_t col_tap)
{
    return at(p, plim__sliding_at(&j->p->window, 0, row, row_tap), plim__sliding_at(&j->p->window, 1, col, col_tap));
}

static void set_x(const block_job *j, plim__pool_stretch *t)
{
    const plim__sliding *s = &j->p->window;
    t->x_row = s->dilation[0] * j->x.row_step;
    t->x_col = s->dilation[1] * j->x.col_step;
    t->x_next = s->stride[1] * j->x.col_step;
}

/* --------------------------------------------------------------------------------------------------- forward */

static void forward(const block_job *j, int64_t row, int64_t col, plim__range row_taps, plim__range col_taps, plim__pool_stretch *t)
{
    const bool none = t->rows == 0 || t->cols == 0;
    const float *x = none ? j->x.data : tap(j, &j->x, row, col, row_taps.lo, col_taps.lo);
    set_x(j, t);
    t->y_next = j->y.col_step;
    (j->p->average ? j->lanes->mean : j->lanes->max)(at(&j->y, row, col), x, t);
}

void plim__pool_blocked_run(const plim__pooling *p, const plim__view *y, const plim__view *x)
{
    block_job j = {.p = p, .lanes = PLIM__BEST(&plim__pool_block_lanes)};
    j.cols = (plim__range){y->lo[3], y->lo[3] + y->n[3]};
    for (int64_t n = y->lo[0]; n < y->lo[0] + y->n[0]; n++)
        for (int64_t c = y->lo[1]; c < y->lo[1] + y->n[1]; c++)
            for (int64_t lane = y->lo[4]; lane < y->lo[4] + y->n[4]; lane += PLIM__POOL_BLOCK) {
                j.y = plane_of(y, n, c, lane);
                j.x = plane_of(x, n, c, lane);
                for (int64_t row = y->lo[2]; row < y->lo[2] + y->n[2]; row++) each_stretch(&j, row, (plim__range){0, p->window.in[1]}, forward);
            }
}

/* -------------------------------------------------------------------------------------------------- backward */

static void backward(const block_job *j, int64_t row, int64_t col, plim__range row_taps, plim__range col_taps, plim__pool_stretch *t)
{
    const plim__sliding *s = &j->p->window;
    const plim__range rows = plim__sliding_taps(s, 0, row, j->dx.row), cols = plim__sliding_taps(s, 1, col, j->dx.col);
    if (plim__range_len(rows) == 0 || plim__range_len(cols) == 0) return;
    t->own_rows = (plim__range){rows.lo - row_taps.lo, rows.hi - row_taps.lo};
    t->own_cols = (plim__range){cols.lo - col_taps.lo, cols.hi - col_taps.lo};
    t->dx_row = s->dilation[0] * j->dx.row_step;
    t->dx_col = s->dilation[1] * j->dx.col_step;
    t->dx_next = s->stride[1] * j->dx.col_step;
    t->dy_next = j->dy.col_step;
    float *dx = tap(j, &j->dx, row, col, rows.lo, cols.lo);
    const float *dy = at(&j->dy, row, col);
    if (j->p->average) {
        j->lanes->mean_back(dx, dy, t);
        return;
    }
    set_x(j, t);
    t->y_next = j->y.col_step;
    j->lanes->max_back(dx, tap(j, &j->x, row, col, row_taps.lo, col_taps.lo), at(&j->y, row, col), dy, t);
}

static void zero_rows(const plane *dx, int64_t lo, int64_t hi)
{
    for (int64_t row = lo; row < hi; row++)
        for (int64_t col = dx->col.lo; col < dx->col.hi; col++) memset(at(dx, row, col), 0, PLIM__POOL_BLOCK * sizeof(float));
}

/* Rows of dx are set to 0 shortly before the first window adds to them, while they stay in the cache. */
static void back_plane(const block_job *j)
{
    const plim__sliding *s = &j->p->window;
    int64_t zeroed = j->dx.row.lo;
    for (int64_t row = j->rows.lo; row < j->rows.hi; row++) {
        const int64_t reach = plim__clamp(plim__sliding_at(s, 0, row, s->size[0] - 1) + 1, zeroed, j->dx.row.hi);
        zero_rows(&j->dx, zeroed, reach);
        zeroed = reach;
        each_stretch(j, row, j->dx.col, backward);
    }
    zero_rows(&j->dx, zeroed, j->dx.row.hi);
}

void plim__pool_blocked_back(const plim__pooling *p, const plim__view *dx, const plim__view *x, const plim__view *y, const plim__view *dy)
{
    block_job j = {.p = p, .lanes = PLIM__BEST(&plim__pool_block_lanes)};
    j.rows = plim__sliding_touch(&p->window, 0, (plim__range){dx->lo[2], dx->lo[2] + dx->n[2]});
    j.cols = plim__sliding_touch(&p->window, 1, (plim__range){dx->lo[3], dx->lo[3] + dx->n[3]});
    for (int64_t n = dx->lo[0]; n < dx->lo[0] + dx->n[0]; n++)
        for (int64_t c = dx->lo[1]; c < dx->lo[1] + dx->n[1]; c++)
            for (int64_t lane = dx->lo[4]; lane < dx->lo[4] + dx->n[4]; lane += PLIM__POOL_BLOCK) {
                j.dx = plane_of(dx, n, c, lane);
                j.dy = plane_of(dy, n, c, lane);
                if (!p->average) {
                    j.x = plane_of(x, n, c, lane);
                    j.y = plane_of(y, n, c, lane);
                }
                back_plane(&j);
            }
}
