/* Blocked convolution: what is asked for goes to the part that does it or, where operands lie in a way that no plan gives them, through plain
 * loops. */
#include "kernels/conv_blocked_lines.h"
#include "kernels/convert.h"

#define LANES(name) name##_base
#define LANES_NAME "base"
#define WIDTH 4
#define BLOCKS 1
#define PIXELS 3
#define ROWS 2
#include "kernels/conv_blocked_lanes.inc"

const plim__blocked_lanes *plim__blocked_best(void)
{
#ifdef PLIM_KERNELS_V4
    if (plim__cpu_has_v4()) return &plim__blocked_lanes_v4;
#endif
    return PLIM__BEST(&plim__blocked_lanes);
}

/* ------------------------------------------------------------------------------------------------------ any strides */

/* A channel of a pixel, absolute. */
static float *pixel(const plim__view *v, int64_t n, int64_t channel, int64_t row, int64_t col)
{
    const bool planes = v->rank == 4;
    float *at = plim__blocked_at(v, n, (planes ? channel : channel / PLIM__BLOCK) - v->lo[1], row - v->lo[2], col - v->lo[3]);
    return planes ? at : at + channel % PLIM__BLOCK * v->stride[4];
}

/* @param channel  of the output's group, absolute otherwise */
static float *weight(const plim__view *w, int64_t out, int64_t channel, int64_t row, int64_t col)
{
    const int64_t o = out / PLIM__BLOCK - w->lo[0], lane = out % PLIM__BLOCK;
    if (w->rank == 4) return plim__blocked_at(w, o, row, col, lane);
    if (w->rank == 5) return plim__blocked_at(w, o, channel - w->lo[1], row, col) + lane * w->stride[4];
    return plim__blocked_at(w, o, channel / PLIM__BLOCK - w->lo[1], row, col) + channel % PLIM__BLOCK * w->stride[4] + lane * w->stride[5];
}

static plim__range lanes_of(const plim__view *v, bool planes)
{
    const int64_t lane = planes ? 1 : PLIM__BLOCK;
    return (plim__range){v->lo[1] * lane, (v->lo[1] + v->n[1]) * lane};
}

/* The channels of x that an output sees, and the outputs that see a channel. */
static plim__range channels_of(const plim__blocked_operands *o, int64_t out)
{
    const plim__blocked *c = o->c;
    if (c->kind == PLIM__BLOCKED_DEPTH) return (plim__range){out, out + 1};
    if (c->groups == 1) return lanes_of(&o->x, c->kind == PLIM__BLOCKED_PLANES);
    const int64_t each = c->channels / c->groups, group = out / (c->outputs / c->groups);
    return (plim__range){group * each, (group + 1) * each};
}

static plim__range outputs_of(const plim__blocked_operands *o, int64_t channel)
{
    const plim__blocked *c = o->c;
    if (c->kind == PLIM__BLOCKED_DEPTH) return (plim__range){channel, channel + 1};
    if (c->groups == 1) return lanes_of(&o->y, false);
    const int64_t each = c->outputs / c->groups, group = channel / (c->channels / c->groups);
    return (plim__range){group * each, (group + 1) * each};
}

static int64_t of_group(const plim__blocked *c, int64_t channel) { return c->groups == 1 ? channel : channel % (c->channels / c->groups); }

static float channel_of(const plim__view *v, int64_t out) { return *(float *)plim__view_at(v, (int64_t[]){out / PLIM__BLOCK, out % PLIM__BLOCK}); }

static float sum_forward(const plim__blocked_operands *o, int64_t n, int64_t out, int64_t row, int64_t col)
{
    const plim__sliding *s = &o->c->window;
    const plim__range high = plim__sliding_taps(s, 1, row, (plim__range){0, s->in[1]});
    const plim__range wide = plim__sliding_taps(s, 2, col, (plim__range){0, s->in[2]}), channels = channels_of(o, out);
    float sum = o->end.bias && !o->end.scale ? channel_of(o->end.bias, out) : 0;
    for (int64_t c = channels.lo; c < channels.hi; c++)
        for (int64_t a = high.lo; a < high.hi; a++)
            for (int64_t b = wide.lo; b < wide.hi; b++) {
                const float x = *pixel(&o->x, n, c, plim__sliding_at(s, 1, row, a), plim__sliding_at(s, 2, col, b));
                sum += x * *weight(&o->w, out, of_group(o->c, c), a, b);
            }
    if (o->end.scale) sum = sum * channel_of(o->end.scale, out) + (o->end.bias ? channel_of(o->end.bias, out) : 0);
    if (o->end.other) sum += *pixel(o->end.other, n, out, row, col);
    if (o->c->relu && sum < 0) sum = 0;
    return o->c->most > 0 && sum > o->c->most ? o->c->most : sum;
}

/* The window whose tap sees element i, or -1. */
static int64_t window_of(const plim__sliding *s, uint32_t d, int64_t i, int64_t tap)
{
    const int64_t at = i + s->before[d] - tap * s->dilation[d];
    return at >= 0 && at % s->stride[d] == 0 && at / s->stride[d] < s->out[d] ? at / s->stride[d] : -1;
}

static float sum_backward(const plim__blocked_operands *o, int64_t n, int64_t channel, int64_t row, int64_t col)
{
    const plim__sliding *s = &o->c->window;
    const plim__range outputs = outputs_of(o, channel);
    float sum = 0;
    for (int64_t out = outputs.lo; out < outputs.hi; out++)
        for (int64_t a = 0; a < s->size[1]; a++)
            for (int64_t b = 0; b < s->size[2]; b++) {
                const int64_t p = window_of(s, 1, row, a), q = window_of(s, 2, col, b);
                if (p >= 0 && q >= 0) sum += *pixel(&o->y, n, out, p, q) * *weight(&o->w, out, of_group(o->c, channel), a, b);
            }
    return sum;
}

static float sum_weights(const plim__blocked_operands *o, int64_t out, int64_t channel, int64_t a, int64_t b)
{
    const plim__sliding *s = &o->c->window;
    const plim__range rows = plim__sliding_meet(s, 1, a, plim__blocked_box(&o->y, 2), (plim__range){0, s->in[1]});
    const plim__range cols = plim__sliding_meet(s, 2, b, plim__blocked_box(&o->y, 3), (plim__range){0, s->in[2]});
    float sum = 0;
    for (int64_t n = 0; n < o->y.n[0]; n++)
        for (int64_t p = rows.lo; p < rows.hi; p++)
            for (int64_t q = cols.lo; q < cols.hi; q++)
                sum += *pixel(&o->x, n, channel, plim__sliding_at(s, 1, p, a), plim__sliding_at(s, 2, q, b)) * *pixel(&o->y, n, out, p, q);
    return sum;
}

static void loops_weights(const plim__blocked_operands *o)
{
    const plim__blocked *c = o->c;
    const plim__range outputs = lanes_of(&o->y, false);
    for (int64_t out = outputs.lo; out < plim__min(outputs.hi, c->outputs); out++) {
        const plim__range channels = channels_of(o, out);
        for (int64_t k = channels.lo; k < plim__min(channels.hi, c->channels); k++)
            for (int64_t a = 0; a < c->window.size[1]; a++)
                for (int64_t b = 0; b < c->window.size[2]; b++) *weight(&o->w, out, of_group(c, k), a, b) += sum_weights(o, out, k, a, b);
    }
}

static void loops_run(const plim__blocked_operands *o, plim__blocked_into into)
{
    if (into == PLIM__BLOCKED_W) {
        loops_weights(o);
        return;
    }
    const bool forward = into == PLIM__BLOCKED_Y;
    const plim__view *to = forward ? &o->y : &o->x;
    const plim__range lanes = lanes_of(to, to->rank == 4), rows = plim__blocked_box(to, 2), cols = plim__blocked_box(to, 3);
    for (int64_t n = 0; n < to->n[0]; n++)
        for (int64_t k = lanes.lo; k < lanes.hi; k++)
            for (int64_t p = rows.lo; p < rows.hi; p++)
                for (int64_t q = cols.lo; q < cols.hi; q++)
                    *pixel(to, n, k, p, q) = forward ? sum_forward(o, n, k, p, q) : sum_backward(o, n, k, p, q);
}

/* ------------------------------------------------------------------------------------------------------------- entry */

/* The dimensions from `first` on are dense. */
static bool dense(const plim__view *v, uint32_t first)
{
    int64_t step = 1;
    for (uint32_t d = v->rank; d-- > first; step *= v->n[d])
        if (v->n[d] != 1 && v->stride[d] != step) return false;
    return true;
}

static bool lies_well(const plim__blocked_operands *o)
{
    return dense(&o->y, 4) && dense(&o->x, o->x.rank == 4 ? 3 : 4) && dense(&o->w, o->w.rank == 4 ? 1 : 2) && (o->w.rank != 5 || dense(&o->w, 1)) &&
           (!o->end.bias || dense(o->end.bias, 1)) && (!o->end.scale || dense(o->end.scale, 1)) && (!o->end.other || dense(o->end.other, 4));
}

/* Windows of one element each that are the elements in order: all rows become one, which falls into equal pieces whatever the map's shape. */
static void flatten(plim__blocked_operands *o, plim__blocked *c, plim__view *other)
{
    plim__sliding *s = &c->window;
    plim__view *v[3] = {&o->y, &o->x, other};
    const uint32_t n = o->end.other ? 3 : 2;
    for (uint32_t d = 1; d < PLIM__SPACE; d++)
        if (s->size[d] != 1 || s->stride[d] != 1 || s->before[d] != 0 || s->in[d] != s->out[d]) return;
    for (uint32_t k = 0; k < n; k++)
        if (v[k]->n[2] != 1 && v[k]->stride[2] != v[k]->n[3] * v[k]->stride[3]) return;
    for (uint32_t k = 0; k < n; k++) {
        v[k]->n[3] *= v[k]->n[2];
        v[k]->n[2] = 1;
        v[k]->lo[2] = v[k]->lo[3] = 0;
    }
    s->in[1] = s->out[1] = 1;
    s->in[2] = s->out[2] = o->x.n[3];
}

void plim__blocked_run(const plim__blocked_lanes *lanes, const plim__blocked *c, plim__blocked_into into, const plim__view *y, const plim__view *x,
                       const plim__view *w, plim__blocked_end end, void *scratch, uint32_t threads)
{
    plim__blocked conv = *c;
    plim__view other = end.other ? *end.other : (plim__view){0};
    plim__blocked_operands o = {.lanes = lanes, .c = &conv, .y = *y, .x = *x, .w = *w, .end = end, .scratch = scratch, .threads = threads};
    const plim__view *to = into == PLIM__BLOCKED_Y ? y : into == PLIM__BLOCKED_X ? x : w;
    if (end.other) o.end.other = &other;
    if (plim__view_count(to) == 0) return;
    if (into == PLIM__BLOCKED_W && plim__view_count(y) == 0) return;
    if (!lies_well(&o)) {
        loops_run(&o, into);
        return;
    }
    flatten(&o, &conv, &other);
    if (into == PLIM__BLOCKED_W) plim__blocked_weights(&o);
    else if (c->kind == PLIM__BLOCKED_DEPTH) plim__blocked_depths(&o, into == PLIM__BLOCKED_X);
    else plim__blocked_tiles(&o, into == PLIM__BLOCKED_X);
}

uint64_t plim__blocked_scratch(const plim__blocked *c, plim__blocked_into into, int64_t outs, int64_t chain, int64_t rows, int64_t cols,
                               uint32_t threads)
{
    uint64_t one = 0, all = 0;
    if (into == PLIM__BLOCKED_W) one = plim__blocked_weights_scratch(c, outs, chain, rows, cols, threads);
    else if (c->kind != PLIM__BLOCKED_DEPTH) one = plim__blocked_tiles_scratch(c, into == PLIM__BLOCKED_X, outs, chain, rows, cols);
    return plim__mul(&all, one, threads) && all <= INT64_MAX ? all : INT64_MAX; /* more than there is in either case */
}
