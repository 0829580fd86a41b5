/* Lowering: RNN, GRU and LSTM, with the activations that they have unless told otherwise. Steps in time are unrolled: each is a few nodes of the
 * graph. What does not depend on the step before (x times its weights) is one product for all steps.
 *
 *   X [T, N, I], W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H], initial h (and c) [D, N, H]; D directions, G gates
 *   Y [T, D, N, H], Y_h and Y_c [D, N, H]. With layout 1 N comes first in X, Y and the states. */
#include "core/dtype.h"
#include "models/onnx.h"

#include <string.h>

#define STEPS_MAX 2048

enum { CELL_RNN, CELL_GRU, CELL_LSTM };
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_PEEPHOLES };

typedef struct rnn {
    uint32_t kind, gates;
    bool batch_first;
    uint32_t directions;
    bool backward;   /* the first, or only, direction */
    bool late_reset; /* GRU: linear_before_reset */
    int64_t steps, batch, in, hidden;
    plim_dtype dtype;
} rnn;

/* One direction's weights and state. */
typedef struct lane {
    uint32_t xw;       /* [T, N, G*H]: x times W, and the biases that can be added before */
    uint32_t r;        /* [G*H, H] */
    uint32_t late;     /* GRU with a late reset: the bias [H] that is added before it; PLIM__NONE */
    uint32_t h, c;     /* [N, H] */
} lane;

static plim_status ew2(plim__onnx_call *c, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v, plim_error *err)
{
    return plim__onnx_ew2(c, fn, a, b, v, err);
}

/* Row d of the first dimension, which goes. */
static plim_status row(plim__onnx_call *c, uint32_t x, int64_t d, uint32_t *v, plim_error *err)
{
    plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__op_slice_axis(c->g, x, 0, d, 1, 1, v, err));
    memmove(s.dim, s.dim + 1, sizeof s.dim - sizeof s.dim[0]);
    s.rank--;
    return plim__op_reshape(c->g, *v, &s, v, err);
}

/* Columns of gate `gate`, the last dimension's part of H. */
static plim_status gate_of(plim__onnx_call *c, const rnn *r, uint32_t x, uint32_t gate, uint32_t *v, plim_error *err)
{
    return plim__op_slice_axis(c->g, x, plim__onnx_shape(c, x).rank - 1, gate * r->hidden, 1, r->hidden, v, err);
}

/* ---------------------------------------------------------------------------------------------------------- operands */

static plim_status shape_is(plim__onnx_call *c, uint32_t v, const char *what, const plim_shape *want, plim_error *err)
{
    char have[160], text[160];
    const plim_shape s = plim__onnx_shape(c, v);
    PLIM_FAIL_IF(!plim__shape_equal(&s, want), err, PLIM_E_SHAPE, "%s of shape %s, not %s", what, plim_shape_format(have, sizeof have, &s),
                 plim_shape_format(text, sizeof text, want));
    return PLIM_OK;
}

static plim_status directions_of(plim__onnx_call *c, rnn *r, plim_error *err)
{
    const char *direction = plim__onnx_text(c, "direction", "forward");
    r->backward = !strcmp(direction, "reverse");
    r->directions = !strcmp(direction, "bidirectional") ? 2 : 1;
    if (r->directions == 1 && !r->backward && strcmp(direction, "forward") != 0) return plim__onnx_refuse(c, "direction", err);
    return PLIM_OK;
}

/* Sequences that end before the others are not supported. */
static plim_status check_lengths(plim__onnx_call *c, const rnn *r, plim_error *err)
{
    const plim__onnx_host *h;
    if (!plim__onnx_has(c, IN_LENGTHS)) return PLIM_OK;
    PLIM_TRY(plim__onnx_given(c, IN_LENGTHS, "sequence_lens", &h, err));
    for (uint64_t i = 0; i < h->count; i++)
        PLIM_FAIL_IF(plim__onnx_integer(h, i) != r->steps, err, PLIM_E_UNSUPPORTED, "a sequence that ends before the others");
    return PLIM_OK;
}

static plim_status settle(plim__onnx_call *c, rnn *r, uint32_t *x, plim_error *err)
{
    const int64_t layout = plim__onnx_int(c, "layout", 0);
    if (layout != 0 && layout != 1) return plim__onnx_refuse(c, "layout", err);
    if (plim__onnx_int(c, "input_forget", 0)) return plim__onnx_refuse(c, "input_forget", err);
    PLIM_FAIL_IF(plim__onnx_has(c, IN_PEEPHOLES), err, PLIM_E_UNSUPPORTED, "input %u (P): peepholes", IN_PEEPHOLES);
    PLIM_TRY(directions_of(c, r, err));
    r->batch_first = layout;
    r->late_reset = plim__onnx_int(c, "linear_before_reset", 0);
    PLIM_TRY(plim__onnx_in_float(c, IN_X, x, err));
    r->dtype = plim__onnx_type(c, *x);
    if (plim__onnx_shape(c, *x).rank == 3 && r->batch_first) PLIM_TRY(plim__op_transpose(c->g, *x, (const uint32_t[]){1, 0, 2}, x, err));
    const plim_shape s = plim__onnx_shape(c, *x);
    r->hidden = plim__onnx_int(c, "hidden_size", 0);
    PLIM_FAIL_IF(s.rank != 3 || r->hidden < 1 || r->hidden > INT32_MAX, err, PLIM_E_SHAPE, "an input of %u dimensions, and a hidden_size of %lld",
                 s.rank, (long long)r->hidden);
    r->steps = s.dim[0];
    r->batch = s.dim[1];
    r->in = s.dim[2];
    PLIM_FAIL_IF(r->steps < 1 || r->steps > STEPS_MAX, err, PLIM_E_UNSUPPORTED, "%lld steps; 1 to %d are supported", (long long)r->steps, STEPS_MAX);
    return check_lengths(c, r, err);
}

/* Input k of direction d, in the compute type. */
static plim_status weight(plim__onnx_call *c, const rnn *r, uint32_t k, const char *what, int64_t d, const plim_shape *want, uint32_t *v,
                          plim_error *err)
{
    plim_shape whole = {.rank = want->rank + 1, .dim = {r->directions}};
    memcpy(whole.dim + 1, want->dim, want->rank * sizeof want->dim[0]);
    PLIM_TRY(plim__onnx_in_float(c, k, v, err));
    PLIM_TRY(plim__op_cast(c->g, *v, r->dtype, v, err));
    PLIM_TRY(shape_is(c, *v, what, &whole, err));
    return row(c, *v, d, v, err);
}

/* A state before the first step: zeros where the model gives none. */
static plim_status initial(plim__onnx_call *c, const rnn *r, uint32_t k, int64_t d, uint32_t *v, plim_error *err)
{
    const plim_shape s = {2, {r->batch, r->hidden}};
    if (!plim__onnx_has(c, k)) {
        PLIM_TRY(plim__onnx_constant(c, r->dtype, 0, v, err));
        return plim__op_broadcast(c->g, *v, &s, v, err);
    }
    PLIM_TRY(plim__onnx_in_float(c, k, v, err));
    PLIM_TRY(plim__op_cast(c->g, *v, r->dtype, v, err));
    if (plim__onnx_shape(c, *v).rank == 3 && r->batch_first) PLIM_TRY(plim__op_transpose(c->g, *v, (const uint32_t[]){1, 0, 2}, v, err));
    PLIM_TRY(shape_is(c, *v, "an initial state", &(plim_shape){3, {r->directions, r->batch, r->hidden}}, err));
    return row(c, *v, d, v, err);
}

/* Both biases are added before the steps, but for that of R in a late reset. */
static plim_status add_biases(plim__onnx_call *c, const rnn *r, int64_t d, lane *l, plim_error *err)
{
    const int64_t width = r->gates * r->hidden;
    uint32_t b, part[2];
    l->late = PLIM__NONE;
    if (!plim__onnx_has(c, IN_B)) return PLIM_OK;
    PLIM_TRY(weight(c, r, IN_B, "biases", d, &(plim_shape){1, {2 * width}}, &b, err));
    for (uint32_t i = 0; i < 2; i++) PLIM_TRY(plim__op_slice_axis(c->g, b, 0, i * width, 1, width, &part[i], err));
    PLIM_TRY(ew2(c, PLIM__EW_ADD, l->xw, part[0], &l->xw, err));
    if (!r->late_reset) return ew2(c, PLIM__EW_ADD, l->xw, part[1], &l->xw, err);
    const int64_t before[] = {0}, after[] = {r->hidden};
    PLIM_TRY(gate_of(c, r, part[1], 2, &l->late, err));
    PLIM_TRY(plim__op_slice_axis(c->g, part[1], 0, 0, 1, 2 * r->hidden, &b, err));
    PLIM_TRY(plim__op_pad(c->g, b, before, after, PLIM__EDGE_CONSTANT, 0, &b, err));
    return ew2(c, PLIM__EW_ADD, l->xw, b, &l->xw, err);
}

static plim_status lane_of(plim__onnx_call *c, const rnn *r, uint32_t x, int64_t d, lane *l, plim_error *err)
{
    const int64_t width = r->gates * r->hidden;
    uint32_t w;
    PLIM_TRY(weight(c, r, IN_W, "weights", d, &(plim_shape){2, {width, r->in}}, &w, err));
    PLIM_TRY(weight(c, r, IN_R, "recurrence weights", d, &(plim_shape){2, {width, r->hidden}}, &l->r, err));
    PLIM_TRY(plim__op_matmul_turned(c->g, x, false, w, true, &l->xw, err));
    PLIM_TRY(add_biases(c, r, d, l, err));
    PLIM_TRY(initial(c, r, IN_H, d, &l->h, err));
    l->c = PLIM__NONE;
    return r->kind == CELL_LSTM ? initial(c, r, IN_C, d, &l->c, err) : PLIM_OK;
}

/* -------------------------------------------------------------------------------------------------------------- steps */

/* h times the rows of R of gates [from, from + n). */
static plim_status recur(plim__onnx_call *c, const rnn *r, const lane *l, uint32_t h, uint32_t from, uint32_t n, uint32_t *v, plim_error *err)
{
    uint32_t part;
    PLIM_TRY(plim__op_slice_axis(c->g, l->r, 0, from * r->hidden, 1, n * r->hidden, &part, err));
    return plim__op_matmul_turned(c->g, h, false, part, true, v, err);
}

static plim_status step_rnn(plim__onnx_call *c, const rnn *r, lane *l, uint32_t xw, plim_error *err)
{
    uint32_t v;
    PLIM_TRY(recur(c, r, l, l->h, 0, 1, &v, err));
    PLIM_TRY(ew2(c, PLIM__EW_ADD, xw, v, &v, err));
    return plim__onnx_ew1(c, PLIM__EW_TANH, v, &l->h, err);
}

/* i, o, f and the candidate: c = f*c + i*candidate, h = o*tanh(c). */
static plim_status step_lstm(plim__onnx_call *c, const rnn *r, lane *l, uint32_t xw, plim_error *err)
{
    uint32_t v, gate[4];
    PLIM_TRY(recur(c, r, l, l->h, 0, 4, &v, err));
    PLIM_TRY(ew2(c, PLIM__EW_ADD, xw, v, &v, err));
    for (uint32_t g = 0; g < 4; g++) {
        PLIM_TRY(gate_of(c, r, v, g, &gate[g], err));
        PLIM_TRY(plim__onnx_ew1(c, g == 3 ? PLIM__EW_TANH : PLIM__EW_SIGMOID, gate[g], &gate[g], err));
    }
    PLIM_TRY(ew2(c, PLIM__EW_MUL, gate[2], l->c, &l->c, err));
    PLIM_TRY(ew2(c, PLIM__EW_MUL, gate[0], gate[3], &v, err));
    PLIM_TRY(ew2(c, PLIM__EW_ADD, l->c, v, &l->c, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_TANH, l->c, &v, err));
    return ew2(c, PLIM__EW_MUL, gate[1], v, &l->h, err);
}

/* What the state adds to the candidate: reset * h times R, or reset * (h times R + bias). */
static plim_status candidate(plim__onnx_call *c, const rnn *r, const lane *l, uint32_t reset, uint32_t *v, plim_error *err)
{
    if (!r->late_reset) {
        PLIM_TRY(ew2(c, PLIM__EW_MUL, reset, l->h, v, err));
        return recur(c, r, l, *v, 2, 1, v, err);
    }
    PLIM_TRY(recur(c, r, l, l->h, 2, 1, v, err));
    if (l->late != PLIM__NONE) PLIM_TRY(ew2(c, PLIM__EW_ADD, *v, l->late, v, err));
    return ew2(c, PLIM__EW_MUL, reset, *v, v, err);
}

/* z and r (the reset), then the candidate: h = (1 - z)*candidate + z*h. */
static plim_status step_gru(plim__onnx_call *c, const rnn *r, lane *l, uint32_t xw, plim_error *err)
{
    uint32_t v, x, gate[2], one;
    PLIM_TRY(recur(c, r, l, l->h, 0, 2, &v, err));
    for (uint32_t g = 0; g < 2; g++) {
        PLIM_TRY(gate_of(c, r, v, g, &gate[g], err));
        PLIM_TRY(gate_of(c, r, xw, g, &x, err));
        PLIM_TRY(ew2(c, PLIM__EW_ADD, x, gate[g], &gate[g], err));
        PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_SIGMOID, gate[g], &gate[g], err));
    }
    PLIM_TRY(candidate(c, r, l, gate[1], &v, err));
    PLIM_TRY(gate_of(c, r, xw, 2, &x, err));
    PLIM_TRY(ew2(c, PLIM__EW_ADD, x, v, &v, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_TANH, v, &v, err));
    PLIM_TRY(plim__onnx_constant(c, r->dtype, 1, &one, err));
    PLIM_TRY(ew2(c, PLIM__EW_SUB, one, gate[0], &one, err));
    PLIM_TRY(ew2(c, PLIM__EW_MUL, one, v, &v, err));
    PLIM_TRY(ew2(c, PLIM__EW_MUL, gate[0], l->h, &l->h, err));
    return ew2(c, PLIM__EW_ADD, v, l->h, &l->h, err);
}

/* ---------------------------------------------------------------------------------------------------------- the whole */

/* Runs through time; y [T, 1, N, H] holds every state. */
static plim_status run_lane(plim__onnx_call *c, const rnn *r, lane *l, bool backward, uint32_t *y, plim_error *err)
{
    uint32_t *state = plim__onnx_new(&c->x->arena, (uint64_t)r->steps, sizeof *state, err), xw;
    if (!state) return PLIM_E_NOMEM;
    for (int64_t i = 0; i < r->steps; i++) {
        const int64_t t = backward ? r->steps - 1 - i : i;
        PLIM_TRY(row(c, l->xw, t, &xw, err));
        PLIM_TRY(r->kind == CELL_LSTM ? step_lstm(c, r, l, xw, err) : r->kind == CELL_GRU ? step_gru(c, r, l, xw, err) : step_rnn(c, r, l, xw, err));
        PLIM_TRY(plim__op_reshape(c->g, l->h, &(plim_shape){4, {1, 1, r->batch, r->hidden}}, &state[t], err));
    }
    *y = state[0];
    return r->steps > 1 && plim__onnx_wants(c, 0) ? plim__op_concat(c->g, state, (uint32_t)r->steps, 0, y, err) : PLIM_OK;
}

/* The directions' parts side by side in dimension `axis`, N moved to the front where it belongs there. */
static plim_status give(plim__onnx_call *c, const rnn *r, uint32_t j, const uint32_t part[2], uint32_t axis, plim_error *err)
{
    static const uint32_t states[] = {1, 0, 2}, all[] = {2, 0, 1, 3};
    uint32_t v = part[0];
    if (!plim__onnx_wants(c, j)) return PLIM_OK;
    if (r->directions == 2) PLIM_TRY(plim__op_concat(c->g, part, 2, axis, &v, err));
    if (r->batch_first) PLIM_TRY(plim__op_transpose(c->g, v, axis ? all : states, &v, err));
    return plim__onnx_out_like(c, j, v, err);
}

plim_status plim__onnx_lower_rnn(plim__onnx_call *c, plim_error *err)
{
    static const uint32_t gates[] = {1, 3, 4};
    rnn r = {.kind = c->arg, .gates = gates[c->arg]};
    uint32_t x, y[2], h[2], cell[2];
    PLIM_TRY(settle(c, &r, &x, err));
    const plim_shape state = {3, {1, r.batch, r.hidden}};
    for (uint32_t d = 0; d < r.directions; d++) {
        lane l;
        PLIM_TRY(lane_of(c, &r, x, d, &l, err));
        PLIM_TRY(run_lane(c, &r, &l, r.backward || d == 1, &y[d], err));
        PLIM_TRY(plim__op_reshape(c->g, l.h, &state, &h[d], err));
        if (r.kind == CELL_LSTM) PLIM_TRY(plim__op_reshape(c->g, l.c, &state, &cell[d], err));
    }
    PLIM_TRY(give(c, &r, 0, y, 1, err));
    PLIM_TRY(give(c, &r, 1, h, 0, err));
    return r.kind == CELL_LSTM ? give(c, &r, 2, cell, 0, err) : PLIM_OK;
}
