/* Blocked convolution, the gradient with respect to w. The work is a grid of units, each a few blocks of w that fit the registers, by blocks of pixels
 * that fit a cache. Threads divide the units; where these are too few they divide the pixels, each with a sum of its own that is added at the end. */
#include "kernels/conv_blocked_lines.h"
#include "kernels/reduce.h"
#include "os/os.h"

#include <string.h>

#define STREAM 256                    /* pixels of a block */
#define UNITS 4                       /* units of a thread: fewer are too few */
#define UNIT_MOST (2 * PLIM__SQUARE)  /* elements of w in a unit */
#define ROWS_MOST 8                   /* of `outer` */

typedef struct job {
    const plim__blocked_operands *o;
    int64_t taps, chain;          /* of a window; blocks or planes that one output sees */
    int64_t outs, pairs;          /* output blocks of a group; how often lanes->blocks of them */
    int64_t units;
    int64_t block[3], blocks[3];  /* samples, rows and columns of a block of pixels; how many blocks there are */
    bool apart;                   /* each thread has a sum of its own */
    int64_t seen_step, sum_step;  /* elements of scratch of a thread */
} job;

/* A block of pixels. Samples are counted from the first of the box, windows are absolute. */
typedef struct pixels {
    int64_t sample, samples;
    plim__range rows, cols;
    const float *seen;            /* planes: laid out */
    plim__laid laid[2];
} pixels;

/* ----------------------------------------------------------------------------------------------------------- units */

/* A square of w in pieces that fit the registers. */
static void outer_run(const job *j, plim__blocked_outer t, int blocks)
{
    const int64_t most = j->o->lanes->rows, n = plim__share(PLIM__BLOCK, most);
    const plim__blocked_outer all = t;
    for (int64_t i = 0; i < n; i++) {
        const int64_t lo = PLIM__BLOCK * i / n, hi = PLIM__BLOCK * (i + 1) / n;
        t.x = all.x + lo;
        t.w = all.w + lo * PLIM__BLOCK;
        j->o->lanes->outer(&t, blocks, (int)(hi - lo));
    }
}

/* A tap of some output blocks and one channel block. The windows whose tap sees the border add nothing. */
static void unit_full(const job *j, const plim__view *w, const pixels *p, int64_t unit)
{
    const plim__sliding *s = &j->o->c->window;
    const plim__view *x = &j->o->x, *y = &j->o->y;
    const int64_t tap = unit % j->taps, row_tap = tap / s->size[2], col_tap = tap % s->size[2], block = unit / j->taps % j->chain;
    const int64_t pair = unit / j->taps / j->chain, group = pair / j->pairs, of_group = pair % j->pairs * j->o->lanes->blocks;
    const int64_t out = group * j->outs + of_group;
    const plim__range rows = plim__sliding_meet(s, 1, row_tap, p->rows, (plim__range){0, s->in[1]});
    const plim__range cols = plim__sliding_meet(s, 2, col_tap, p->cols, (plim__range){0, s->in[2]});
    if (plim__range_len(rows) == 0 || plim__range_len(cols) == 0) return;
    const plim__blocked_outer t = {
        .w = plim__blocked_at(w, out, block, row_tap, col_tap), .w_block = w->stride[0],
        .x = plim__blocked_at(x, p->sample, group * j->chain + block, plim__sliding_at(s, 1, rows.lo, row_tap) - x->lo[2],
                              plim__sliding_at(s, 2, cols.lo, col_tap) - x->lo[3]),
        .y = plim__blocked_at(y, p->sample, out, rows.lo - y->lo[2], cols.lo - y->lo[3]), .y_block = y->stride[1],
        .n = {p->samples, plim__range_len(rows), plim__range_len(cols)},
        .x_step = {x->stride[0], s->stride[1] * x->stride[2], s->stride[2] * x->stride[3]}, .y_step = {y->stride[0], y->stride[2], y->stride[3]}};
    outer_run(j, t, (int)plim__min(j->o->lanes->blocks, j->outs - of_group));
}

/* A few (channel, tap) of some output blocks. */
static void unit_planes(const job *j, const plim__view *w, const pixels *p, int64_t unit)
{
    const plim__view *y = &j->o->y;
    const int64_t links = j->chain * j->taps, pieces = plim__share(links, j->o->lanes->rows), out = unit / pieces * j->o->lanes->blocks;
    const int64_t lo = links * (unit % pieces) / pieces, hi = links * (unit % pieces + 1) / pieces, wide = j->o->c->window.size[2];
    const int64_t row = plim__laid_count(&p->laid[1]), plane = plim__laid_count(&p->laid[0]) * row;
    int64_t at[ROWS_MOST];
    for (int64_t k = lo; k < hi; k++)
        at[k - lo] = k / j->taps * plane + (p->laid[0].first + k % j->taps / wide * p->laid[0].tap) * row + p->laid[1].first + k % wide * p->laid[1].tap;
    const plim__blocked_outer t = {
        .w = (float *)w->data + out * w->stride[0] + lo * PLIM__BLOCK, .w_block = w->stride[0], .x = p->seen, .at = at,
        .y = plim__blocked_at(y, p->sample, out, p->rows.lo - y->lo[2], p->cols.lo - y->lo[3]), .y_block = y->stride[1],
        .n = {1, plim__range_len(p->rows), plim__range_len(p->cols)}, .x_step = {0, p->laid[0].step * row, p->laid[1].step},
        .y_step = {0, y->stride[2], y->stride[3]}};
    j->o->lanes->outer(&t, (int)plim__min(j->o->lanes->blocks, j->outs - out), (int)(hi - lo));
}

/* A tap of one block, each channel by itself. */
static void unit_depth(const job *j, const plim__view *w, const pixels *p, int64_t unit)
{
    const plim__sliding *s = &j->o->c->window;
    const plim__view *x = &j->o->x, *y = &j->o->y;
    const int64_t block = unit / j->taps, tap = unit % j->taps, row_tap = tap / s->size[2], col_tap = tap % s->size[2];
    const plim__range rows = plim__sliding_meet(s, 1, row_tap, p->rows, (plim__range){0, s->in[1]});
    const plim__range cols = plim__sliding_meet(s, 2, col_tap, p->cols, (plim__range){0, s->in[2]});
    if (plim__range_len(rows) == 0 || plim__range_len(cols) == 0) return;
    for (int64_t n = p->sample; n < p->sample + p->samples; n++) {
        const plim__blocked_dot t = {
            .w = (float *)w->data + block * w->stride[0] + row_tap * w->stride[1] + col_tap * w->stride[2],
            .x = plim__blocked_at(x, n, block, plim__sliding_at(s, 1, rows.lo, row_tap) - x->lo[2], plim__sliding_at(s, 2, cols.lo, col_tap) - x->lo[3]),
            .y = plim__blocked_at(y, n, block, rows.lo - y->lo[2], cols.lo - y->lo[3]), .n = {plim__range_len(rows), plim__range_len(cols)},
            .x_step = {s->stride[1] * x->stride[2], s->stride[2] * x->stride[3]}, .y_step = {y->stride[2], y->stride[3]}};
        j->o->lanes->dot(&t);
    }
}

/* ---------------------------------------------------------------------------------------------------------- blocks */

/* Block number i of the pixels; planes are laid out for it in `seen`. */
static pixels pixels_of(const job *j, int64_t i, float *seen)
{
    const plim__view *y = &j->o->y;
    const plim__sliding *s = &j->o->c->window;
    const int64_t col = i % j->blocks[2] * j->block[2], row = i / j->blocks[2] % j->blocks[1] * j->block[1];
    pixels p = {.sample = i / j->blocks[2] / j->blocks[1] * j->block[0], .seen = seen};
    p.samples = plim__min(j->block[0], y->n[0] - p.sample);
    p.rows = (plim__range){y->lo[2] + row, y->lo[2] + plim__min(row + j->block[1], y->n[2])};
    p.cols = (plim__range){y->lo[3] + col, y->lo[3] + plim__min(col + j->block[2], y->n[3])};
    if (j->o->c->kind != PLIM__BLOCKED_PLANES) return p;
    const plim__seen from = {.v = &j->o->x, .lane = 1, .extent = {s->in[1], s->in[2]}};
    const plim__line rows = plim__line_forward(s, 1, p.rows), cols = plim__line_forward(s, 2, p.cols);
    p.laid[0] = plim__lay(&rows, INT64_MAX);
    p.laid[1] = plim__lay(&cols, INT64_MAX);
    plim__lay_out(seen, &from, p.sample, 0, j->chain, &p.laid[0], &p.laid[1]);
    return p;
}

static plim__view sum_of(const job *j, uint32_t thread)
{
    const plim__region r = plim__view_region(&j->o->w);
    return plim__view_dense(j->o->scratch + j->o->threads * j->seen_step + thread * j->sum_step, PLIM_F32, &r);
}

static plim__range part_of(int64_t n, int64_t i, int64_t parts) { return (plim__range){n * i / parts, n * (i + 1) / parts}; }

static void share_run(void *arg, uint64_t i, uint32_t worker)
{
    const job *j = arg;
    const int64_t blocks = j->blocks[0] * j->blocks[1] * j->blocks[2], threads = j->o->threads, share = (int64_t)i;
    const plim__range b = part_of(blocks, j->apart ? share : 0, j->apart ? threads : 1);
    const plim__range u = part_of(j->units, j->apart ? 0 : share, j->apart ? 1 : threads);
    plim__view w = j->o->w;
    if (j->apart) {
        w = sum_of(j, (uint32_t)i);
        memset(w.data, 0, plim__view_count(&w) * sizeof(float));
    }
    for (int64_t k = b.lo; k < b.hi && plim__range_len(u) > 0; k++) {
        const pixels p = pixels_of(j, k, j->o->scratch + worker * j->seen_step);
        for (int64_t unit = u.lo; unit < u.hi; unit++) {
            if (j->o->c->kind == PLIM__BLOCKED_FULL) unit_full(j, &w, &p, unit);
            else if (j->o->c->kind == PLIM__BLOCKED_PLANES) unit_planes(j, &w, &p, unit);
            else unit_depth(j, &w, &p, unit);
        }
    }
}

/* -------------------------------------------------------------------------------------------------------- division */

/* Elements of the planes that a block of so many pixels sees, at most. */
static int64_t planes_seen(const job *j, int64_t rows, int64_t cols)
{
    const plim__line r = plim__line_forward(&j->o->c->window, 1, (plim__range){0, rows}), c = plim__line_forward(&j->o->c->window, 2, (plim__range){0, cols});
    const plim__laid high = plim__lay(&r, INT64_MAX), wide = plim__lay(&c, INT64_MAX);
    return j->chain * plim__laid_count(&high) * plim__laid_count(&wide);
}

static void divide(job *j)
{
    const plim__view *y = &j->o->y;
    const bool planes = j->o->c->kind == PLIM__BLOCKED_PLANES;
    int64_t cols = plim__share(y->n[3], plim__share(y->n[3], 2 * STREAM)), rows = plim__clamp(STREAM / cols, 1, y->n[2]);
    while (planes && rows > 1 && planes_seen(j, rows, cols) > PLIM__BLOCKED_AREA) rows = plim__share(rows, 2);
    while (planes && cols > 1 && planes_seen(j, rows, cols) > PLIM__BLOCKED_AREA) cols = plim__share(cols, 2);
    const bool whole = rows == y->n[2] && cols == y->n[3] && !planes;
    j->block[0] = whole ? plim__clamp(STREAM / (rows * cols), 1, y->n[0]) : 1;
    j->block[1] = rows;
    j->block[2] = cols;
    j->blocks[0] = plim__share(y->n[0], j->block[0]);
    j->blocks[1] = plim__share(y->n[2], rows);
    j->blocks[2] = plim__share(y->n[3], cols);
    j->apart = j->units < UNITS * (int64_t)j->o->threads && j->blocks[0] * j->blocks[1] * j->blocks[2] > 1 && j->o->threads > 1;
}

/* Exact zeros where there is only padding, whatever y and x hold there. */
static void clear_padding(const plim__blocked *c, const plim__view *w)
{
    const bool depth = c->kind == PLIM__BLOCKED_DEPTH, squares = c->kind == PLIM__BLOCKED_FULL;
    const int64_t links = depth ? 1 : w->n[1], vectors = depth ? w->n[1] * w->n[2] : w->n[2] * w->n[3] * (squares ? PLIM__BLOCK : 1);
    for (int64_t o = 0; o < w->n[0]; o++)
        for (int64_t k = 0; k < links; k++) {
            const int64_t lanes = plim__min(c->outputs - (w->lo[0] + o) * PLIM__BLOCK, PLIM__BLOCK);
            const int64_t rows = squares && c->groups == 1 ? plim__min(c->channels - (w->lo[1] + k) * PLIM__BLOCK, PLIM__BLOCK) : PLIM__BLOCK;
            if (lanes == PLIM__BLOCK && rows == PLIM__BLOCK) continue;
            float *at = (float *)w->data + o * w->stride[0] + (depth ? 0 : k * w->stride[1]);
            for (int64_t v = 0; v < vectors; v++)
                for (int64_t i = v % PLIM__BLOCK < rows ? lanes : 0; i < PLIM__BLOCK; i++) at[v * PLIM__BLOCK + i] = 0;
        }
}

/* ------------------------------------------------------------------------------------------------------------- run */

/* Elements of the planes that a thread lays out: at least what one pixel sees. */
static int64_t seen_elements(const plim__blocked *c, int64_t chain, int64_t rows, int64_t cols)
{
    if (c->kind != PLIM__BLOCKED_PLANES) return 0;
    const int64_t most = plim__max(PLIM__BLOCKED_AREA, plim__capped(chain, plim__sliding_count(&c->window), INT64_MAX / 16));
    const int64_t high = plim__capped(rows, c->window.size[1], most), wide = plim__capped(cols, c->window.size[2], most);
    return (int64_t)plim__round_up((uint64_t)plim__capped(plim__capped(high, wide, most), chain, most), PLIM__BLOCK);
}

/* Elements of a thread's own sum: units are too few only while w is small. */
static int64_t sum_elements(const plim__blocked *c, int64_t outs, int64_t chain, uint32_t threads)
{
    const int64_t most = UNITS * (int64_t)threads * UNIT_MOST, taps = plim__sliding_count(&c->window);
    const int64_t square = c->kind == PLIM__BLOCKED_FULL ? PLIM__SQUARE : PLIM__BLOCK, of_out = c->kind == PLIM__BLOCKED_DEPTH ? 1 : chain;
    if (threads == 1) return 0;
    return plim__capped(plim__capped(plim__capped(outs, of_out, most), taps, most), square, most);
}

void plim__blocked_weights(const plim__blocked_operands *o)
{
    const plim__blocked *c = o->c;
    const bool depth = c->kind == PLIM__BLOCKED_DEPTH;
    job j = {.o = o, .taps = plim__sliding_count(&c->window), .chain = depth ? 1 : o->w.n[1], .outs = o->y.n[1] / c->groups};
    if (depth) j.outs = o->y.n[1];
    j.pairs = plim__share(j.outs, o->lanes->blocks);
    if (c->kind == PLIM__BLOCKED_FULL) j.units = c->groups * j.pairs * j.chain * j.taps;
    else if (depth) j.units = j.outs * j.taps;
    else j.units = j.pairs * plim__share(j.chain * j.taps, o->lanes->rows);
    j.seen_step = seen_elements(c, j.chain, o->y.n[2], o->y.n[3]);
    j.sum_step = sum_elements(c, o->y.n[1], j.chain, o->threads);
    divide(&j);
    plim__parallel(o->threads, o->threads, share_run, &j);
    for (uint32_t i = 0; i < o->threads && j.apart; i++) {
        const plim__view sum = sum_of(&j, i);
        plim__reduce_merge(PLIM__FOLD_SUM, &o->w, &sum);
    }
    clear_padding(c, &o->w);
}

uint64_t plim__blocked_weights_scratch(const plim__blocked *c, int64_t outs, int64_t chain, int64_t rows, int64_t cols, uint32_t threads)
{
    return threads * ((uint64_t)seen_elements(c, chain, rows, cols) + (uint64_t)sum_elements(c, outs, chain, threads)) * sizeof(float);
}
