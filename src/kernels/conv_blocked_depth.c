/* Blocked convolution of each channel by itself: forward, and backward to x. Too little is done with each number to copy it for its border's sake:
 * the taps that see the border are left out, of a row for all of it, of columns at its ends pixel by pixel. */
#include "kernels/conv_blocked_lines.h"
#include "os/os.h"

#define STRIPS 8 /* of rows, for threads to share */

typedef struct job {
    const plim__blocked_operands *o;
    const plim__view *out, *in;
    bool backward;
    int64_t extent[2], phases[2];
    int64_t strip, strips;
} job;

static plim__line line_of(const job *j, uint32_t d, int64_t phase)
{
    const plim__range part = plim__blocked_box(j->out, 2 + d);
    return j->backward ? plim__line_backward(&j->o->c->window, 1 + d, part, phase) : plim__line_forward(&j->o->c->window, 1 + d, part);
}

/* Row `row` of a phase. @param clear  its columns that see no border */
static void row_run(const job *j, int64_t sample, int64_t block, const plim__line *rows, int64_t row, const plim__line *cols, plim__range clear)
{
    const plim__view *in = j->in, *out = j->out, *w = &j->o->w, *bias = j->o->end.bias, *scale = j->o->end.scale, *other = j->o->end.other;
    const int64_t at[2] = {rows->out_lo + row * rows->out_step, cols->out_lo};
    const plim__range high = plim__line_taps(rows, row, j->extent[0]);
    const int64_t seen = rows->in_lo + row * rows->in_step + high.lo * rows->tap_in - in->lo[2];
    float *y = plim__blocked_at(out, sample, block, at[0] - out->lo[2], at[1] - out->lo[3]);
    const float *plus = other ? plim__blocked_at(other, sample, block, at[0] - other->lo[2], at[1] - other->lo[3]) : NULL;
    const float *kernel = (const float *)w->data + block * w->stride[0] + (rows->tap_lo + high.lo * rows->tap_step) * w->stride[1];
    plim__blocked_depth t = {.bias = bias ? (const float *)bias->data + block * bias->stride[0] : NULL,
        .scale = scale ? (const float *)scale->data + block * scale->stride[0] : NULL, .other_col = other ? cols->out_step * other->stride[3] : 0,
        .relu = j->o->c->relu && !j->backward, .most = j->backward ? 0 : j->o->c->most, .x_col = cols->in_step * in->stride[3], .y_col = cols->out_step * out->stride[3],
        .x_step = {rows->tap_in * in->stride[2], cols->tap_in * in->stride[3]},
        .w_step = {rows->tap_step * w->stride[1], cols->tap_step * w->stride[2]}};
    for (int64_t q = 0; q < cols->n; q += t.n) {
        const bool whole = q == clear.lo && q < clear.hi;
        const plim__range wide = whole ? (plim__range){0, cols->taps} : plim__line_taps(cols, q, j->extent[1]);
        t.n = whole ? plim__range_len(clear) : 1;
        t.taps[0] = plim__range_len(wide) > 0 ? plim__range_len(high) : 0;
        t.taps[1] = plim__range_len(wide);
        t.y = y + q * t.y_col;
        t.other = plus ? plus + q * t.other_col : NULL;
        t.w = kernel + (cols->tap_lo + wide.lo * cols->tap_step) * w->stride[2];
        t.x = t.taps[0] == 0 ? t.y : plim__blocked_at(in, sample, block, seen, cols->in_lo + q * cols->in_step + wide.lo * cols->tap_in - in->lo[3]);
        j->o->lanes->depth(&t);
    }
}

/* A strip of rows of one block. */
static void strip_run(void *arg, uint64_t i, uint32_t worker)
{
    (void)worker;
    const job *j = arg;
    const int64_t plane = (int64_t)i / j->strips, at = (int64_t)i % j->strips * j->strip, block = plane % j->out->n[1], sample = plane / j->out->n[1];
    for (int64_t a = 0; a < j->phases[0]; a++) {
        const plim__line rows = plim__line_part(line_of(j, 0, a), at, j->strip);
        for (int64_t b = 0; b < j->phases[1]; b++) {
            const plim__line cols = line_of(j, 1, b);
            const plim__range clear = plim__line_clear(&cols, j->extent[1]);
            for (int64_t r = 0; r < rows.n; r++) row_run(j, sample, block, &rows, r, &cols, clear);
        }
    }
}

void plim__blocked_depths(const plim__blocked_operands *o, bool backward)
{
    const plim__sliding *s = &o->c->window;
    job j = {.o = o, .out = backward ? &o->x : &o->y, .in = backward ? &o->y : &o->x, .backward = backward};
    for (uint32_t d = 0; d < 2; d++) {
        j.extent[d] = backward ? s->out[1 + d] : s->in[1 + d];
        j.phases[d] = backward ? plim__line_phases(s, 1 + d, plim__blocked_box(j.out, 2 + d)) : 1;
    }
    const int64_t rows = plim__share(j.out->n[2], j.phases[0]);
    j.strip = plim__share(rows, STRIPS);
    j.strips = plim__share(rows, j.strip);
    plim__parallel(o->threads, (uint64_t)(j.out->n[0] * j.out->n[1] * j.strips), strip_run, &j);
}
