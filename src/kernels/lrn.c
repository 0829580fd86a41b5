#include "kernels/lrn.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"

#include <string.h>

#define LANES(name) name##_base
#include "kernels/lrn_lanes.inc"

#define COLS 256

static const plim__lrn_lanes *lanes_for(plim_dtype t) { return &PLIM__BEST(plim__lrn_lanes)[t == PLIM_F64]; }

/* One stretch of columns at one place in the dimensions that are neither channels nor columns. */
typedef struct stretch {
    const plim__lrn *l;
    const plim__lrn_lanes *lanes;
    const plim__view *out, *x, *dy;
    uint32_t lane;             /* the dimension of columns */
    int64_t at[PLIM_MAX_RANK]; /* absolute; at[lane] is the first column */
    int64_t n;
    char *q, *dyp;             /* the gradient's rings: (depth, COLS), row k of channel c = k mod depth */
} stretch;

/* Calls `sweep` for every stretch of the output. */
static void stretches(stretch *s, void (*sweep)(stretch *s))
{
    const plim__view *out = s->out;
    if (plim__view_count(out) == 0) return;
    s->lane = out->rank > 2 ? out->rank - 1 : 0;
    s->lanes = lanes_for(out->dtype);
    uint64_t places = 1;
    for (uint32_t d = 0; d < out->rank; d++) places *= d == 1 || d == s->lane ? 1 : (uint64_t)out->n[d];
    for (uint64_t p = 0; p < places; p++) {
        uint64_t rest = p;
        for (uint32_t d = out->rank; d-- > 0;) {
            if (d == 1 || d == s->lane) continue;
            s->at[d] = out->lo[d] + (int64_t)(rest % (uint64_t)out->n[d]);
            rest /= (uint64_t)out->n[d];
        }
        for (int64_t j = 0; j < out->n[s->lane]; j += COLS) {
            s->at[s->lane] = out->lo[s->lane] + j;
            s->n = plim__min(COLS, out->n[s->lane] - j);
            sweep(s);
        }
    }
}

static void *row_of(const stretch *s, const plim__view *v, int64_t channel)
{
    int64_t at[PLIM_MAX_RANK];
    memcpy(at, s->at, sizeof at);
    at[1] = channel;
    return plim__view_at(v, at);
}

/* `sum` = s(c), `power` = s(c)**-beta. */
static void norms(const stretch *s, int64_t channel, void *sum, void *power)
{
    const plim__lrn *l = s->l;
    double acc[COLS] = {0};
    const int64_t lo = plim__max(channel - plim__lrn_down(l), 0), hi = plim__min(channel + plim__lrn_up(l), l->channels - 1);
    for (int64_t k = lo; k <= hi; k++) s->lanes->squares(acc, row_of(s, s->x, k), s->x->stride[s->lane], s->n);
    s->lanes->affine(sum, acc, l->alpha / (double)l->size, l->bias, s->n);
    const double exponent = -l->beta;
    const plim__view p = {.data = power, .dtype = s->x->dtype, .rank = 1, .n = {s->n}, .stride = {1}};
    plim__view in[2] = {p, p};
    in[0].data = sum;
    in[1] = (plim__view){.data = (void *)(uintptr_t)&exponent, .dtype = PLIM_F64, .rank = 1, .n = {s->n}};
    plim__ew_run(PLIM__EW_POW, p.dtype, &p, in, 2);
}

static void sweep_forward(stretch *s)
{
    _Alignas(64) char sum[COLS * 8], power[COLS * 8];
    for (int64_t c = s->out->lo[1]; c < s->out->lo[1] + s->out->n[1]; c++) {
        norms(s, c, sum, power);
        s->lanes->times(row_of(s, s->out, c), s->out->stride[s->lane], row_of(s, s->x, c), s->x->stride[s->lane], power, s->n);
    }
}

void plim__lrn_run(const plim__lrn *l, const plim__view *out, const plim__view *x)
{
    stretch s = {.l = l, .out = out, .x = x};
    stretches(&s, sweep_forward);
}

/* --------------------------------------------------------------------------------------------- gradient */

/* A window's rows, none twice. */
static int64_t ring_depth(const plim__lrn *l) { return plim__clamp(l->size, 1, plim__max(l->channels, 1)); }

uint64_t plim__lrn_back_scratch(const plim__lrn *l, plim_dtype t) { return 2 * (uint64_t)ring_depth(l) * COLS * plim_dtype_bytes(t); }

static void *ring_row(const stretch *s, char *ring, int64_t channel)
{
    return ring + (uint64_t)(channel % ring_depth(s->l) * COLS) * plim_dtype_bytes(s->out->dtype);
}

/* Channels in order: each comes into the rings once, and goes out when the last one of its window has come. */
static void sweep_backward(stretch *s)
{
    const plim__lrn *l = s->l;
    const plim__lrn_lanes *lanes = s->lanes;
    const int64_t x_step = s->x->stride[s->lane], lo = s->out->lo[1], hi = lo + s->out->n[1], down = plim__lrn_down(l), up = plim__lrn_up(l);
    _Alignas(64) char sum[COLS * 8], power[COLS * 8];
    int64_t next = plim__max(lo - up, 0);
    for (int64_t c = lo; c < hi; c++) {
        for (; next <= plim__min(c + down, l->channels - 1); next++) {
            void *dyp = ring_row(s, s->dyp, next);
            norms(s, next, sum, power);
            lanes->times(dyp, 1, row_of(s, s->dy, next), s->dy->stride[s->lane], power, s->n);
            lanes->over(ring_row(s, s->q, next), dyp, row_of(s, s->x, next), x_step, sum, s->n);
        }
        double acc[COLS] = {0};
        for (int64_t k = plim__max(c - up, 0); k < next; k++) lanes->sum(acc, ring_row(s, s->q, k), s->n);
        lanes->finish(row_of(s, s->out, c), s->out->stride[s->lane], ring_row(s, s->dyp, c), row_of(s, s->x, c), x_step, acc,
                      2 * l->alpha * l->beta / (double)l->size, s->n);
    }
}

void plim__lrn_back_run(const plim__lrn *l, const plim__view *dx, const plim__view *x, const plim__view *dy, void *scratch)
{
    stretch s = {.l = l, .out = dx, .x = x, .dy = dy, .q = scratch};
    s.dyp = s.q + plim__lrn_back_scratch(l, dx->dtype) / 2;
    stretches(&s, sweep_backward);
}
