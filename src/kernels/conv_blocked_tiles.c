/* Blocked convolution by tiles: forward, and backward to x. */
#include "kernels/conv_blocked_lines.h"
#include "os/os.h"

#define PANEL 256   /* squares of w that are used before the next ones: 256 KiB, half of a small second-level cache */
#define SUPER 8     /* blocks of outputs that share a piece of the input, where there are as many */
#define STEP_MOST 2 /* pixels of a tile are neighbours in the input, or every other one */

/* One run. `in` is what is summed up: x, or y on the way back. */
typedef struct job {
    const plim__blocked_lanes *lanes;
    const plim__sliding *window;
    plim__view out, in, w;
    plim__blocked_end end;
    plim__seen from;
    bool planes, backward, relu;
    float most;
    int64_t phases[2];
    int64_t groups, outs, chain; /* blocks of a group; planes count one each */
    int64_t super, link;         /* outputs, and blocks of the chain, that are worked on together */
    int64_t area[2];             /* and pixels of each phase */
    int64_t supers, areas[2], units; /* how many: of a group, of a sample, of all samples */
    uint32_t threads;
    float *scratch;
    int64_t scratch_step;        /* elements of a thread */
} job;

/* What a thread works on. */
typedef struct piece {
    int64_t group, out, outs, link, links; /* blocks of the group: the first, and how many */
    float *panel, *seen;                   /* scratch: turned weights, (outs, links, taps, 16, 16); what is seen, with its border */
    int64_t *at;                           /* planes have no panel, but a table: what each row of w is multiplied with */
    int64_t sample;
    plim__line line[2];
} piece;

static int64_t taps_of(const job *j) { return j->window->size[1] * j->window->size[2]; }

static plim__line line_of(const job *j, uint32_t d, int64_t phase)
{
    const plim__range part = plim__blocked_box(&j->out, 2 + d);
    return j->backward ? plim__line_backward(j->window, 1 + d, part, phase) : plim__line_forward(j->window, 1 + d, part);
}

/* ------------------------------------------------------------------------------------------------------- operands */

static bool inside(const plim__line *l, int64_t extent)
{
    const plim__range seen = plim__line_seen(l);
    return seen.lo >= 0 && seen.hi <= extent;
}

/* What the tiles of an area see, and t's steps there: where the input lies if no border is seen, else in scratch. */
static const float *see(const job *j, const piece *p, plim__blocked_tile *t)
{
    const plim__line *rows = &p->line[0], *cols = &p->line[1];
    const int64_t *stride = j->in.stride, lane = j->from.lane, step = cols->in_step * stride[3], first = p->group * j->chain + p->link;
    if ((step == lane || step == STEP_MOST * lane) && inside(rows, j->from.extent[0]) && inside(cols, j->from.extent[1])) {
        t->x_row = rows->in_step * stride[2];
        t->x_col = step;
        t->x_step[0] = stride[1];
        t->x_step[1] = rows->tap_in * stride[2];
        t->x_step[2] = cols->tap_in * stride[3];
        return plim__blocked_at(&j->in, p->sample, first, rows->in_lo - j->in.lo[2], cols->in_lo - j->in.lo[3]);
    }
    const plim__laid r = plim__lay(rows, INT64_MAX), c = plim__lay(cols, STEP_MOST);
    const int64_t row = plim__laid_count(&c) * lane;
    plim__lay_out(p->seen, &j->from, p->sample, first, p->links, &r, &c);
    t->x_row = r.step * row;
    t->x_col = c.step * lane;
    t->x_step[0] = plim__laid_count(&r) * row;
    t->x_step[1] = r.tap * row;
    t->x_step[2] = c.tap * lane;
    return p->seen + r.first * row + c.first * lane;
}

/* Turns the squares of w that a piece needs: on the way back channels are what is made. */
static void turn(const job *j, const piece *p)
{
    const int64_t wide = j->window->size[2];
    float *to = p->panel;
    for (int64_t o = 0; o < p->outs; o++)
        for (int64_t c = 0; c < p->links; c++)
            for (int64_t k = 0; k < taps_of(j); k++, to += PLIM__SQUARE)
                j->lanes->turn(to, plim__blocked_at(&j->w, p->group * j->chain + p->link + c, p->out + o, k / wide, k % wide));
}

/* Fills t->w and its steps, for the first block of the piece. */
static void weigh(const job *j, const piece *p, plim__blocked_tile *t)
{
    const plim__line *rows = &p->line[0], *cols = &p->line[1];
    const int64_t taps = taps_of(j);
    const int64_t panel[4] = {p->links * taps * PLIM__SQUARE, taps * PLIM__SQUARE, j->window->size[2] * PLIM__SQUARE, PLIM__SQUARE};
    const int64_t *stride = j->backward ? panel : j->w.stride;
    const float *w = j->backward ? p->panel : plim__blocked_at(&j->w, p->group * j->outs + p->out, p->link, 0, 0);
    t->w = w + rows->tap_lo * stride[2] + cols->tap_lo * stride[3];
    t->w_block = stride[0];
    t->w_step[0] = stride[1];
    t->w_step[1] = rows->tap_step * stride[2];
    t->w_step[2] = cols->tap_step * stride[3];
}

/* ------------------------------------------------------------------------------------------------------------ runs */

/* Time of two rows of so many pixels in tiles of `rows` rows, in pixels; each tile costs one more. */
static int64_t tiles_time(const plim__blocked_lanes *lanes, int64_t cols, int64_t rows)
{
    const int64_t tiles = plim__share(cols, lanes->pixels / rows), wide = cols / tiles, wider = cols % tiles;
    return (wider * plim__max((wide + 1) * rows, lanes->least) + (tiles - wider) * plim__max(wide * rows, lanes->least) + tiles) * 2 / rows;
}

/* All tiles of an area for some blocks. Those of a row are as equal as can be. */
static void tiles_run(const job *j, const plim__blocked_tile *t, float *y, const float *x, const float *other, int blocks, int64_t rows, int64_t cols)
{
    const bool pairs = cols <= 3 * j->lanes->pixels && tiles_time(j->lanes, cols, 2) < tiles_time(j->lanes, cols, 1);
    int high;
    for (int64_t r = 0; r < rows; r += high, y += high * t->y_row, x += high * t->x_row, other += high * t->other_row) {
        high = pairs && r + 2 <= rows ? 2 : 1;
        const int64_t tiles = plim__share(cols, j->lanes->pixels / high), wide = cols / tiles, wider = cols % tiles, rest = wider * (wide + 1);
        if (wider > 0) j->lanes->tile(t, y, x, other, blocks, high, (int)wide + 1, wider);
        j->lanes->tile(t, y + rest * t->y_col, x + rest * t->x_col, other + rest * t->other_col, blocks, high, (int)wide, tiles - wider);
    }
}

/* Planes: the chain in one level. */
static void chain_planes(const piece *p, plim__blocked_tile *t)
{
    int64_t n = 0;
    for (int64_t a = 0; a < t->chain[0]; a++)
        for (int64_t b = 0; b < t->chain[1]; b++)
            for (int64_t c = 0; c < t->chain[2]; c++) p->at[n++] = a * t->x_step[0] + b * t->x_step[1] + c * t->x_step[2];
    t->chain[0] = n;
    t->at = p->at;
}

static const float *channels_at(const plim__view *v, int64_t block) { return v ? (const float *)v->data + block * v->stride[0] : NULL; }

/* What happens at the end of a sum, for the tiles from block `first` on. @return what is added; where that is nothing, anything */
static const float *finish(const job *j, const piece *p, int64_t first, const float *y, plim__blocked_tile *t)
{
    const plim__line *rows = &p->line[0], *cols = &p->line[1];
    const plim__view *bias = j->end.bias, *scale = j->end.scale, *other = j->end.other;
    t->end = p->link + p->links == j->chain;
    t->relu = j->relu;
    t->most = j->most;
    t->bias = channels_at(bias, first);
    t->scale = channels_at(scale, first);
    t->bias_block = bias ? bias->stride[0] : 0;
    t->scale_block = scale ? scale->stride[0] : 0;
    t->plus = other;
    if (!other) return y;
    t->other_block = other->stride[1];
    t->other_row = rows->out_step * other->stride[2];
    t->other_col = cols->out_step * other->stride[3];
    return plim__blocked_at(other, p->sample, first, rows->out_lo - other->lo[2], cols->out_lo - other->lo[3]);
}

/* One phase of an area: p->line. */
static void phase_run(const job *j, const piece *p)
{
    const plim__line *rows = &p->line[0], *cols = &p->line[1];
    const int64_t *stride = j->out.stride, first = p->group * j->outs + p->out;
    const bool any = rows->taps > 0 && cols->taps > 0;
    plim__blocked_tile t = {.y_block = stride[1], .y_row = rows->out_step * stride[2], .y_col = cols->out_step * stride[3],
        .x_col = j->from.lane, .chain = {any ? p->links : 0, rows->taps, cols->taps}, .more = p->link > 0};
    const float *x = any ? see(j, p, &t) : p->seen;
    float *y = plim__blocked_at(&j->out, p->sample, first, rows->out_lo - j->out.lo[2], cols->out_lo - j->out.lo[3]);
    weigh(j, p, &t);
    if (j->planes) chain_planes(p, &t);
    const float *other = finish(j, p, first, y, &t);
    for (int64_t b = 0; b < p->outs; b += j->lanes->blocks) {
        const int blocks = (int)plim__min(j->lanes->blocks, p->outs - b);
        tiles_run(j, &t, y + b * t.y_block, x, other + b * t.other_block, blocks, rows->n, cols->n);
        t.w += blocks * t.w_block;
        if (t.bias) t.bias += blocks * t.bias_block;
        if (t.scale) t.scale += blocks * t.scale_block;
    }
}

static void area_run(const job *j, piece *p, int64_t unit)
{
    const int64_t col = unit % j->areas[1] * j->area[1], row = unit / j->areas[1] % j->areas[0] * j->area[0];
    p->sample = unit / j->areas[1] / j->areas[0];
    for (int64_t a = 0; a < j->phases[0]; a++) {
        p->line[0] = plim__line_part(line_of(j, 0, a), row, j->area[0]);
        for (int64_t b = 0; b < j->phases[1]; b++) {
            p->line[1] = plim__line_part(line_of(j, 1, b), col, j->area[1]);
            if (p->line[0].n > 0 && p->line[1].n > 0) phase_run(j, p);
        }
    }
}

/* Of planes: one of plim__blocked_tile.at for each row of w. */
static int64_t table_elements(int64_t chain, int64_t taps)
{
    return plim__capped(chain, taps, INT64_MAX / 64) * (int64_t)(sizeof(int64_t) / sizeof(float));
}

/* The areas [lo, hi) of one super. Sums wait in the output while the next piece of the chain is fetched. */
static void super_run(const job *j, float *scratch, int64_t super, int64_t lo, int64_t hi)
{
    piece p = {.group = super / j->supers, .out = super % j->supers * j->super, .panel = scratch, .at = (int64_t *)(void *)scratch};
    p.outs = plim__min(j->super, j->outs - p.out);
    for (p.link = 0; p.link < j->chain; p.link += j->link) {
        p.links = plim__min(j->link, j->chain - p.link);
        p.seen = scratch + (j->planes ? table_elements(j->chain, taps_of(j)) : j->backward ? p.outs * p.links * taps_of(j) * PLIM__SQUARE : 0);
        if (j->backward) turn(j, &p);
        for (int64_t u = lo; u < hi; u++) area_run(j, &p, u);
    }
}

static void share_run(void *arg, uint64_t i, uint32_t worker)
{
    const job *j = arg;
    const int64_t all = j->groups * j->supers * j->units, end = all * ((int64_t)i + 1) / j->threads;
    for (int64_t u = all * (int64_t)i / j->threads; u < end;) {
        const int64_t super = u / j->units, first = super * j->units, next = plim__min(end, first + j->units);
        super_run(j, j->scratch + worker * j->scratch_step, super, u - first, next - first);
        u = next;
    }
}

/* -------------------------------------------------------------------------------------------------------- division */

/* Elements that an area of so many pixels sees, at most. */
static int64_t area_seen(const job *j, int64_t rows, int64_t cols)
{
    int64_t high = 0, wide = 0;
    for (int64_t a = 0; a < j->phases[0]; a++) {
        const plim__line l = plim__line_part(line_of(j, 0, a), 0, rows);
        const plim__laid r = plim__lay(&l, INT64_MAX);
        high = plim__max(high, plim__laid_count(&r));
    }
    for (int64_t b = 0; b < j->phases[1]; b++) {
        const plim__line l = plim__line_part(line_of(j, 1, b), 0, cols);
        const plim__laid c = plim__lay(&l, STEP_MOST);
        wide = plim__max(wide, plim__laid_count(&c));
    }
    return j->link * high * wide * j->from.lane;
}

static void count_units(job *j, const int64_t all[2])
{
    j->supers = plim__share(j->outs, j->super);
    for (uint32_t d = 0; d < 2; d++) j->areas[d] = plim__share(all[d], j->area[d]);
    j->units = j->out.n[0] * j->areas[0] * j->areas[1];
}

/* Every thread gets as much as the others, or the pieces are many. */
static bool fed(const job *j)
{
    const int64_t all = j->groups * j->supers * j->units;
    return all % j->threads == 0 || all >= 8 * (int64_t)j->threads;
}

/* So many output blocks or a little less, which tiles of as many blocks as they can hold go through. */
static int64_t whole_tiles(const job *j, int64_t blocks)
{
    return blocks < j->outs && blocks > j->lanes->blocks ? blocks - blocks % j->lanes->blocks : blocks;
}

/* Sizes that suit the caches, then smaller ones if threads would have nothing to do. None of it changes any result. */
static void divide(job *j)
{
    const int64_t squares = j->planes ? plim__share(taps_of(j), PLIM__BLOCK) : taps_of(j), pixels = j->lanes->pixels;
    const int64_t all[2] = {plim__share(j->out.n[2], j->phases[0]), plim__share(j->out.n[3], j->phases[1])};
    j->super = whole_tiles(j, plim__clamp(PANEL / squares, 1, plim__min(SUPER, j->outs)));
    j->link = plim__clamp(PANEL / (j->super * squares), 1, j->chain);
    if (j->link == j->chain) j->super = whole_tiles(j, plim__clamp(PANEL / (j->chain * squares), j->super, j->outs));
    for (uint32_t d = 0; d < 2; d++) j->area[d] = all[d];
    while (j->area[1] > 1 && area_seen(j, 1, j->area[1]) > PLIM__BLOCKED_AREA) j->area[1] = plim__share(j->area[1], 2);
    if (j->area[1] < all[1] && j->area[1] > pixels) j->area[1] -= j->area[1] % pixels;
    while (j->area[0] > 1 && area_seen(j, j->area[0], j->area[1]) > PLIM__BLOCKED_AREA) j->area[0] = plim__share(j->area[0], 2);
    count_units(j, all);
    while (!fed(j)) {
        if (j->super > j->lanes->blocks) j->super = whole_tiles(j, plim__share(j->super, 2));
        else if (j->area[0] > 2) j->area[0] = plim__share(j->area[0], 2);
        else if (j->area[1] > 2 * pixels) j->area[1] = plim__share(j->area[1], 2);
        else break;
        count_units(j, all);
    }
}

void plim__blocked_tiles(const plim__blocked_operands *o, bool backward)
{
    const plim__blocked *c = o->c;
    job j = {.lanes = o->lanes, .window = &c->window, .out = backward ? o->x : o->y, .in = backward ? o->y : o->x, .w = o->w, .end = o->end,
             .planes = c->kind == PLIM__BLOCKED_PLANES, .backward = backward, .relu = c->relu && !backward, .most = backward ? 0 : c->most, .groups = c->groups,
             .threads = o->threads, .scratch = o->scratch};
    j.outs = j.out.n[1] / c->groups;
    j.chain = j.in.n[1] / c->groups;
    j.scratch_step = (int64_t)(plim__blocked_tiles_scratch(c, backward, j.out.n[1], j.in.n[1], j.out.n[2], j.out.n[3]) / sizeof(float));
    j.from = (plim__seen){.v = &j.in, .lane = j.planes ? 1 : PLIM__BLOCK};
    for (uint32_t d = 0; d < 2; d++) {
        j.from.extent[d] = backward ? c->window.out[1 + d] : c->window.in[1 + d];
        j.phases[d] = backward ? plim__line_phases(&c->window, 1 + d, plim__blocked_box(&j.out, 2 + d)) : 1;
    }
    divide(&j);
    plim__parallel(o->threads, o->threads, share_run, &j);
}

/* What an area sees, which is at least what one pixel sees of one block, and the panel, at least that of one square per tap. */
uint64_t plim__blocked_tiles_scratch(const plim__blocked *c, bool backward, int64_t outs, int64_t chain, int64_t rows, int64_t cols)
{
    const int64_t lane = c->kind == PLIM__BLOCKED_PLANES ? 1 : PLIM__BLOCK, taps = plim__sliding_count(&c->window);
    const int64_t seen_most = plim__max(PLIM__BLOCKED_AREA, plim__capped(taps, lane, INT64_MAX / 16)), panel_most = plim__max(PANEL, taps);
    const int64_t high = plim__capped(rows, c->window.size[1], seen_most), wide = plim__capped(cols, c->window.size[2], seen_most);
    const int64_t deep = plim__capped(chain, lane, seen_most);
    const int64_t seen = plim__capped(plim__capped(high, wide, seen_most), deep, seen_most);
    const int64_t panel = backward ? plim__capped(plim__capped(outs, chain, panel_most), taps, panel_most) : 0;
    const int64_t table = c->kind == PLIM__BLOCKED_PLANES ? table_elements(chain, taps) : 0;
    return plim__round_up(((uint64_t)seen + (uint64_t)panel * PLIM__SQUARE + (uint64_t)table) * sizeof(float), 64);
}
