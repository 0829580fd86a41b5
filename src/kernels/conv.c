#include "kernels/conv.h"

#include "core/dtype.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/strided.h"
#include "os/os.h"

#include <string.h>

#define LANES(name) name##_base
#include "kernels/conv_lanes.inc"

#define CHAIN_MAX 384          /* rows of `seen` at a time: enough for a product to pay */
#define TILE_MAX (384 * 1024)  /* elements of `seen` */
#define OUTPUTS_MIN 4          /* of a group: with fewer, laying out the windows costs more than the product saves */
#define SEGMENT 2048           /* windows of a row at a time in the loops */
#define THREADS_WORTH 1e6      /* multiplications below which threads do not pay */

static_assert(CHAIN_MAX <= TILE_MAX, "one window fits a tile");

/* One run, and where its loops stand. A row of windows is what lies along the last dimension. */
typedef struct job {
    const plim__filter *f;
    plim__conv_into into;
    plim__view y, x, w;
    const plim__conv_lanes *lanes;
    int64_t item;           /* bytes of an element */
    int64_t taps;           /* of a window */
    plim__range inside[3];  /* of x's space: what may be touched */
    plim__range at[3];      /* the windows */
    plim__range samples;
    bool plain;             /* `seen` is x as it lies */
    int64_t w_step, y_step, x_step; /* between neighbours along (channel, tap), and along all windows; 0: they are not evenly spaced */
    char *packed;           /* scratch of products */
    char *seen;             /* (chain, rows * cols) */
    uint32_t threads;
    int64_t sample, group;
    plim__range outs, chain, rows, cols; /* the tile: outputs; (channel, tap); rows of windows, counted from 0; windows of a row */
} job;

static plim__range box(const plim__view *v, uint32_t d) { return (plim__range){v->lo[d], v->lo[d] + v->n[d]}; }

static const plim__conv_lanes *lanes_for(plim_dtype t) { return &PLIM__BEST(plim__conv_lanes)[t == PLIM_F64]; }

/* -------------------------------------------------------------------------------------------------- places */

/* Element [a, b, ...] of a view, the first of its box in the dimensions of space. */
static char *plane(const job *j, const plim__view *v, int64_t a, int64_t b)
{
    return (char *)v->data + ((a - v->lo[0]) * v->stride[0] + (b - v->lo[1]) * v->stride[1]) * j->item;
}

/* Index in the two outer dimensions of space of row `row` of the windows. */
static void row_place(const job *j, int64_t row, int64_t win[2])
{
    const int64_t high = plim__range_len(j->at[1]);
    win[0] = j->at[0].lo + row / high;
    win[1] = j->at[1].lo + row % high;
}

static void row_next(const job *j, int64_t win[2])
{
    if (++win[1] < j->at[1].hi) return;
    win[1] = j->at[1].lo;
    win[0]++;
}

/* Where the tap's row in x starts, in elements from the plane; false: it lies outside. */
static bool row_seen(const job *j, const int64_t win[2], const int64_t tap[3], int64_t *off)
{
    *off = 0;
    for (uint32_t d = 0; d < 2; d++) {
        const int64_t i = plim__sliding_at(&j->f->window, d, win[d], tap[d]);
        if (i < j->inside[d].lo || i >= j->inside[d].hi) return false;
        *off += (i - j->x.lo[2 + d]) * j->x.stride[2 + d];
    }
    return true;
}

/* The same for one window of the row. */
static int64_t col_seen(const job *j, int64_t col, int64_t tap)
{
    return (plim__sliding_at(&j->f->window, 2, col, tap) - j->x.lo[4]) * j->x.stride[4];
}

static int64_t win_offset(const job *j, const int64_t win[2], int64_t col)
{
    const plim__view *y = &j->y;
    return (win[0] - y->lo[2]) * y->stride[2] + (win[1] - y->lo[3]) * y->stride[3] + (col - y->lo[4]) * y->stride[4];
}

static void tap_place(const job *j, int64_t tap, int64_t place[3])
{
    const int64_t *size = j->f->window.size;
    place[2] = tap % size[2];
    place[1] = tap / size[2] % size[1];
    place[0] = tap / size[2] / size[1];
}

/* The channel of x that row r of the chain is about. */
static int64_t chain_channel(const job *j, int64_t r)
{
    return (j->f->groups > 1 ? j->group * j->f->channels : 0) + j->w.lo[1] + r / j->taps;
}

/* ------------------------------------------------------------------------------------------- tiles as matrices */

/* Lays out one row of `seen`: what a tap of a channel sees in every window of the tile, zero in the border. */
static void fill_row(void *arg, uint64_t i, uint32_t worker)
{
    (void)worker;
    const job *j = arg;
    const int64_t r = j->chain.lo + (int64_t)i, width = plim__range_len(j->cols), item = j->item;
    int64_t tap[3], win[2], off;
    tap_place(j, r % j->taps, tap);
    row_place(j, j->rows.lo, win);
    const plim__range cols = plim__sliding_meet(&j->f->window, 2, tap[2], j->cols, j->inside[2]);
    const int64_t head = cols.lo - j->cols.lo, n = plim__range_len(cols), tail = width - head - n;
    const int64_t step = j->f->window.stride[2] * j->x.stride[4] * item;
    const char *from = plane(j, &j->x, j->sample, chain_channel(j, r)) + col_seen(j, cols.lo, tap[2]) * item;
    char *to = j->seen + (int64_t)i * plim__range_len(j->rows) * width * item;
    for (int64_t row = j->rows.lo; row < j->rows.hi; row++, row_next(j, win), to += width * item) {
        if (n == 0 || !row_seen(j, win, tap, &off)) {
            memset(to, 0, (size_t)(width * item));
            continue;
        }
        memset(to, 0, (size_t)(head * item));
        plim__gather(to + head * item, from + off * item, (uint64_t)item, 1, n, 0, step);
        memset(to + (head + n) * item, 0, (size_t)(tail * item));
    }
}

/* Adds one row of `seen` to what its windows saw. */
static void spread_row(const job *j, int64_t r)
{
    static const float one_f32 = 1;
    static const double one_f64 = 1;
    const void *one = j->x.dtype == PLIM_F64 ? (const void *)&one_f64 : &one_f32;
    const int64_t width = plim__range_len(j->cols), item = j->item;
    int64_t tap[3], win[2], off;
    tap_place(j, r % j->taps, tap);
    row_place(j, j->rows.lo, win);
    const plim__range cols = plim__sliding_meet(&j->f->window, 2, tap[2], j->cols, j->inside[2]);
    const int64_t n = plim__range_len(cols);
    char *to = plane(j, &j->x, j->sample, chain_channel(j, r)) + col_seen(j, cols.lo, tap[2]) * item;
    const char *from = j->seen + ((r - j->chain.lo) * plim__range_len(j->rows) * width + cols.lo - j->cols.lo) * item;
    for (int64_t row = j->rows.lo; row < j->rows.hi && n > 0; row++, row_next(j, win), from += width * item)
        if (row_seen(j, win, tap, &off)) j->lanes->axpy(to + off * item, j->f->window.stride[2] * j->x.stride[4], from, 1, one, n);
}

/* All rows of the tile that are about one channel: taps of a channel meet in the same elements, channels do not. */
static void spread_channel(void *arg, uint64_t i, uint32_t worker)
{
    (void)worker;
    const job *j = arg;
    const int64_t c = j->chain.lo / j->taps + (int64_t)i;
    const int64_t end = plim__min(j->chain.hi, (c + 1) * j->taps);
    for (int64_t r = plim__max(j->chain.lo, c * j->taps); r < end; r++) spread_row(j, r);
}

/* Strides are not 0; along one row or column any will do. */
static plim__matrix matrix(char *data, int64_t row, int64_t col) { return (plim__matrix){data, row ? row : 1, col ? col : 1}; }

static plim__matrix turned(plim__matrix m) { return (plim__matrix){m.data, m.col, m.row}; }

/* The product for n windows: seen (chain, n), y (outs, n). */
static void multiply(const job *j, plim__matrix seen, plim__matrix y, int64_t n)
{
    const int64_t o = plim__range_len(j->outs), r = plim__range_len(j->chain);
    const uint32_t threads = (double)o * (double)r * (double)n < THREADS_WORTH ? 1 : j->threads;
    const plim__matrix w = matrix(plane(j, &j->w, j->outs.lo, j->w.lo[1]) + j->chain.lo * j->w_step * j->item, j->w.stride[0], j->w_step);
    const plim_dtype t = j->w.dtype;
    switch (j->into) {
    case PLIM__CONV_Y: plim__gemm(t, threads, true, y, w, seen, o, n, r, j->packed); break;
    case PLIM__CONV_X: plim__gemm(t, threads, true, seen, turned(w), y, r, n, o, j->packed); break;
    case PLIM__CONV_W: plim__gemm(t, threads, true, w, y, turned(seen), o, r, n, j->packed); break;
    }
}

/* The product for the tile: at once where the windows are evenly spaced, row by row otherwise. */
static void multiply_tile(const job *j)
{
    static const int64_t no_tap[3];
    const int64_t rows = plim__range_len(j->rows), width = plim__range_len(j->cols);
    const bool even = j->y_step && (j->x_step || !j->plain);
    int64_t win[2], off;
    row_place(j, j->rows.lo, win);
    for (int64_t row = 0; row < rows; row += even ? rows : 1, row_next(j, win)) {
        const plim__matrix y = matrix(plane(j, &j->y, j->sample, j->outs.lo) + win_offset(j, win, j->cols.lo) * j->item, j->y.stride[1],
                                      even ? j->y_step : j->y.stride[4]);
        plim__matrix seen = {j->seen + row * width * j->item, rows * width, 1};
        if (j->plain) {
            const bool there = row_seen(j, win, no_tap, &off);
            PLIM_ASSERT(there);
            (void)there;
            off += col_seen(j, j->cols.lo, 0);
            seen = matrix(plane(j, &j->x, j->sample, chain_channel(j, j->chain.lo)) + off * j->item, j->x.stride[1],
                          even ? j->x_step : j->x.stride[4]);
        }
        multiply(j, seen, y, even ? rows * width : width);
    }
}

static void tile_run(job *j)
{
    const int64_t chain = plim__range_len(j->chain), windows = plim__range_len(j->rows) * plim__range_len(j->cols);
    if (!j->plain) {
        if (j->into == PLIM__CONV_X) memset(j->seen, 0, (size_t)(chain * windows * j->item));
        else plim__parallel(j->threads, (uint64_t)chain, fill_row, j);
    }
    multiply_tile(j);
    const int64_t channels = (j->chain.hi - 1) / j->taps - j->chain.lo / j->taps + 1;
    if (!j->plain && j->into == PLIM__CONV_X) plim__parallel(j->threads, (uint64_t)channels, spread_channel, j);
}

/* All tiles of a sample and a group: whole rows of windows, or pieces of long ones. */
static void tiles_run(job *j)
{
    const int64_t chain = j->w.n[1] * j->taps, width = plim__range_len(j->at[2]);
    const int64_t rows = plim__range_len(j->at[0]) * plim__range_len(j->at[1]);
    const int64_t step = j->plain ? chain : plim__min(chain, CHAIN_MAX), most = j->plain ? INT64_MAX : TILE_MAX / step;
    const int64_t cols_step = plim__min(width, most), rows_step = cols_step < width ? 1 : plim__min(rows, most / width);
    for (int64_t row = 0; row < rows; row += rows_step)
        for (int64_t col = j->at[2].lo; col < j->at[2].hi; col += cols_step)
            for (int64_t r = 0; r < chain; r += step) {
                j->rows = (plim__range){row, plim__min(row + rows_step, rows)};
                j->cols = (plim__range){col, plim__min(col + cols_step, j->at[2].hi)};
                j->chain = (plim__range){r, plim__min(r + step, chain)};
                tile_run(j);
            }
}

static void products_run(job *j)
{
    const plim__range outs = box(&j->w, 0);
    for (j->sample = j->samples.lo; j->sample < j->samples.hi; j->sample++)
        for (j->group = 0; j->group < j->f->groups; j->group++) {
            j->outs.lo = plim__max(outs.lo, j->group * j->f->outputs);
            j->outs.hi = plim__min(outs.hi, (j->group + 1) * j->f->outputs);
            if (plim__range_len(j->outs) > 0) tiles_run(j);
        }
}

/* --------------------------------------------------------------------------------------------- loops over rows */

/* All taps of a piece of a row of windows, for one sample, output and channel. w points at the kernel. */
static void line_run(const job *j, char *y, char *x, char *w, const int64_t win[2], plim__range cols)
{
    const plim__sliding *s = &j->f->window;
    const int64_t y_step = j->y.stride[4], x_step = s->stride[2] * j->x.stride[4], item = j->item;
    int64_t tap[3], off;
    for (tap[0] = 0; tap[0] < s->size[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < s->size[1]; tap[1]++) {
            if (!row_seen(j, win, tap, &off)) continue;
            for (tap[2] = 0; tap[2] < s->size[2]; tap[2]++) {
                const plim__range c = plim__sliding_meet(s, 2, tap[2], cols, j->inside[2]);
                const int64_t n = plim__range_len(c);
                if (n == 0) continue;
                char *yp = y + win_offset(j, win, c.lo) * item, *xp = x + (off + col_seen(j, c.lo, tap[2])) * item;
                char *wp = w + (tap[0] * j->w.stride[2] + tap[1] * j->w.stride[3] + tap[2] * j->w.stride[4]) * item;
                switch (j->into) {
                case PLIM__CONV_Y: j->lanes->axpy(yp, y_step, xp, x_step, wp, n); break;
                case PLIM__CONV_X: j->lanes->axpy(xp, x_step, yp, y_step, wp, n); break;
                case PLIM__CONV_W: j->lanes->dot(wp, yp, y_step, xp, x_step, n); break;
                }
            }
        }
}

/* Item i of the output's first two dimensions: what is written by it is written by no other. */
static void direct_item(void *arg, uint64_t i, uint32_t worker)
{
    (void)worker;
    const job *j = arg;
    const plim__filter *f = j->f;
    const plim__view *to = j->into == PLIM__CONV_Y ? &j->y : j->into == PLIM__CONV_X ? &j->x : &j->w;
    const int64_t a = to->lo[0] + (int64_t)i / to->n[1], b = to->lo[1] + (int64_t)i % to->n[1];
    const int64_t group = f->groups == 1 ? 0 : j->into == PLIM__CONV_Y ? b / f->outputs : j->into == PLIM__CONV_X ? b / f->channels : a / f->outputs;
    plim__range samples = {a, a + 1}, outs = {b, b + 1}, channels = box(&j->w, 1);
    if (j->into == PLIM__CONV_X) {
        outs = (plim__range){plim__max(j->w.lo[0], group * f->outputs), plim__min(j->w.lo[0] + j->w.n[0], (group + 1) * f->outputs)};
        channels = (plim__range){b - group * f->channels, b - group * f->channels + 1};
    } else if (j->into == PLIM__CONV_W) {
        samples = j->samples;
        outs = (plim__range){a, a + 1};
        channels = (plim__range){b, b + 1};
    }
    const int64_t rows = plim__range_len(j->at[0]) * plim__range_len(j->at[1]);
    for (int64_t n = samples.lo; n < samples.hi; n++)
        for (int64_t o = outs.lo; o < outs.hi; o++) {
            int64_t win[2] = {j->at[0].lo, j->at[1].lo};
            for (int64_t row = 0; row < rows; row++, row_next(j, win))
                for (int64_t col = j->at[2].lo; col < j->at[2].hi; col += SEGMENT)
                    for (int64_t c = channels.lo; c < channels.hi; c++)
                        line_run(j, plane(j, &j->y, n, o), plane(j, &j->x, n, group * f->channels + c), plane(j, &j->w, o, c), win,
                                 (plim__range){col, plim__min(col + SEGMENT, j->at[2].hi)});
        }
}

/* ----------------------------------------------------------------------------------------------------- the run */

/* The distance between neighbours if the elements of a nest, taken in C order, are evenly spaced; 0 if they are not. */
static int64_t even_step(uint32_t rank, const int64_t *n, const int64_t *stride)
{
    int64_t step = 0, next = 0;
    for (uint32_t d = rank; d-- > 0;) {
        if (n[d] == 1) continue;
        if (step != 0 && stride[d] != next) return 0;
        if (step == 0) step = next = stride[d];
        next *= n[d];
    }
    return step ? step : 1;
}

/* Windows of one element each that are the elements in order. */
static bool is_plain(const plim__sliding *s)
{
    for (uint32_t d = 0; d < PLIM__SPACE; d++)
        if (s->size[d] != 1 || s->stride[d] != 1 || s->before[d] != 0 || s->in[d] != s->out[d]) return false;
    return true;
}

/* For products of any extents. */
static uint64_t products_scratch(plim_dtype t, uint32_t threads) { return plim__gemm_scratch(t, threads, INT32_MAX, INT32_MAX, INT32_MAX); }

void plim__conv_run(const plim__filter *f, plim__conv_into into, const plim__view *y, const plim__view *x, const plim__view *w, void *scratch,
                    uint32_t threads)
{
    const plim__sliding *s = &f->window;
    job j = {.f = f, .into = into, .y = *y, .x = *x, .w = *w, .lanes = lanes_for(w->dtype), .item = (int64_t)plim_dtype_bytes(w->dtype),
             .taps = plim__sliding_count(s), .plain = is_plain(s), .packed = scratch,
             .seen = (char *)scratch + products_scratch(w->dtype, threads), .threads = threads};
    const plim__view *to = into == PLIM__CONV_Y ? y : into == PLIM__CONV_X ? x : w;
    if (plim__view_count(to) == 0) return;
    for (uint32_t d = 0; d < PLIM__SPACE; d++) {
        j.inside[d] = into == PLIM__CONV_X ? box(x, 2 + d) : (plim__range){0, s->in[d]};
        j.at[d] = into == PLIM__CONV_X ? plim__sliding_touch(s, d, j.inside[d]) : box(y, 2 + d);
        if (plim__range_len(j.at[d]) == 0) return;
    }
    j.samples = box(into == PLIM__CONV_X ? x : y, 0);
    const int64_t windows[3] = {plim__range_len(j.at[0]), plim__range_len(j.at[1]), plim__range_len(j.at[2])};
    j.w_step = even_step(4, w->n + 1, w->stride + 1);
    j.y_step = even_step(3, windows, y->stride + 2);
    j.x_step = even_step(3, windows, x->stride + 2);
    const bool loops = f->outputs < OUTPUTS_MIN || j.w_step == 0;
    if (loops) plim__parallel(threads, (uint64_t)(to->n[0] * to->n[1]), direct_item, &j);
    else products_run(&j);
}

/* a * b, but no more than `most`. */
static int64_t capped(int64_t a, int64_t b, int64_t most) { return a > 0 && b > most / a ? most : plim__min(a * b, most); }

uint64_t plim__conv_scratch(const plim__filter *f, plim_dtype dtype, int64_t channels, int64_t windows, uint32_t threads)
{
    if (f->outputs < OUTPUTS_MIN) return 0;
    if (is_plain(&f->window)) return products_scratch(dtype, threads);
    const int64_t chain = capped(channels, plim__sliding_count(&f->window), CHAIN_MAX);
    return products_scratch(dtype, threads) + (uint64_t)capped(chain, windows, TILE_MAX) * plim_dtype_bytes(dtype);
}
