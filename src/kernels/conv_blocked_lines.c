#include "kernels/conv_blocked_lines.h"
#include "core/size.h"

#include <string.h>

plim__line plim__line_forward(const plim__sliding *s, uint32_t d, plim__range windows)
{
    return (plim__line){.n = plim__range_len(windows), .taps = s->size[d], .out_lo = windows.lo, .out_step = 1, .tap_step = 1,
                        .in_lo = plim__sliding_at(s, d, windows.lo, 0), .in_step = s->stride[d], .tap_in = s->dilation[d]};
}

/* Tap t of window p sees an element if p*stride = element + before - t*dilation: one t that solves it gives the others, every stride/gcd taps. */
plim__line plim__line_backward(const plim__sliding *s, uint32_t d, plim__range part, int64_t phase)
{
    const int64_t stride = s->stride[d], dilation = s->dilation[d], first = part.lo + phase, tap_step = stride / plim__gcd(stride, dilation);
    const int64_t most = plim__min(s->size[d], tap_step), at = first + s->before[d];
    plim__line l = {.n = plim__max(plim__ceil_div(part.hi - first, stride), 0), .out_lo = first, .out_step = stride, .in_step = 1,
                    .tap_step = tap_step};
    while (l.tap_lo < most && (at - l.tap_lo * dilation) % stride != 0) l.tap_lo++;
    if (l.tap_lo == most) return l; /* none sees it */
    l.taps = plim__share(s->size[d] - l.tap_lo, tap_step);
    l.in_lo = (at - l.tap_lo * dilation) / stride;
    l.tap_in = -(tap_step * dilation / stride);
    return l;
}

plim__line plim__line_part(plim__line l, int64_t at, int64_t n)
{
    l.n = plim__clamp(l.n - at, 0, n);
    l.out_lo += at * l.out_step;
    l.in_lo += at * l.in_step;
    return l;
}

plim__range plim__line_seen(const plim__line *l)
{
    const int64_t taps = (l->taps - 1) * l->tap_in, last = l->in_lo + (l->n - 1) * l->in_step;
    return (plim__range){l->in_lo + plim__min(taps, 0), last + plim__max(taps, 0) + 1};
}

plim__range plim__line_clear(const plim__line *l, int64_t extent)
{
    const plim__line first = plim__line_part(*l, 0, 1);
    const plim__range seen = plim__line_seen(&first);
    const int64_t lo = plim__clamp(plim__ceil_div(-seen.lo, l->in_step), 0, l->n);
    return (plim__range){lo, plim__clamp(plim__floor_div(extent - seen.hi, l->in_step) + 1, lo, l->n)};
}

plim__range plim__line_taps(const plim__line *l, int64_t q, int64_t extent)
{
    plim__range r = {0, l->taps};
    const int64_t at = l->in_lo + q * l->in_step;
    while (r.lo < r.hi && (at + r.lo * l->tap_in < 0 || at + r.lo * l->tap_in >= extent)) r.lo++;
    while (r.lo < r.hi && (at + (r.hi - 1) * l->tap_in < 0 || at + (r.hi - 1) * l->tap_in >= extent)) r.hi--;
    return r;
}

plim__laid plim__lay(const plim__line *l, int64_t step_most)
{
    const plim__range seen = plim__line_seen(l);
    if (l->in_step <= step_most && plim__range_len(seen) <= l->n * l->taps)
        return (plim__laid){1, plim__range_len(seen), seen.lo, 0, 1, l->in_lo - seen.lo, l->in_step, l->tap_in};
    return (plim__laid){l->taps, l->n, l->in_lo, l->tap_in, l->in_step, 0, 1, l->n};
}

/* Pixels [lo, hi) of a run of n; the others are border. */
static void lay_run(float *to, const float *from, int64_t from_step, int64_t lane, int64_t lo, int64_t hi, int64_t n)
{
    memset(to, 0, (size_t)(lo * lane) * sizeof *to);
    if (hi > lo && from_step == lane) memcpy(to + lo * lane, from + lo * from_step, (size_t)((hi - lo) * lane) * sizeof *to);
    else if (lane == PLIM__BLOCK) for (int64_t i = lo; i < hi; i++) memcpy(to + i * PLIM__BLOCK, from + i * from_step, PLIM__BLOCK * sizeof *to);
    else for (int64_t i = lo; i < hi; i++) to[i] = from[i * from_step];
    memset(to + hi * lane, 0, (size_t)((n - hi) * lane) * sizeof *to);
}

/* @param inside  the row is none of the border's */
static void lay_row(float *to, const plim__seen *from, int64_t sample, int64_t block, int64_t row, bool inside, const plim__laid *cols)
{
    const plim__view *v = from->v;
    const int64_t n = cols->inner, by = cols->inner_from;
    for (int64_t a = 0; a < cols->outer; a++, to += n * from->lane) {
        const int64_t first = cols->from + a * cols->outer_from;
        const int64_t lo = inside ? plim__clamp(plim__ceil_div(-first, by), 0, n) : n;
        const int64_t hi = plim__clamp(plim__ceil_div(from->extent[1] - first, by), lo, n);
        const float *at = hi > lo ? plim__blocked_at(v, sample, block, row - v->lo[2], first - v->lo[3]) : NULL;
        lay_run(to, at, by * v->stride[3], from->lane, lo, hi, n);
    }
}

void plim__lay_out(float *to, const plim__seen *from, int64_t sample, int64_t first, int64_t blocks, const plim__laid *rows, const plim__laid *cols)
{
    const int64_t n = plim__laid_count(rows), step = plim__laid_count(cols) * from->lane;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t r = 0; r < n; r++, to += step) {
            const int64_t row = rows->from + r / rows->inner * rows->outer_from + r % rows->inner * rows->inner_from;
            lay_row(to, from, sample, first + b, row, row >= 0 && row < from->extent[0], cols);
        }
}
