/* One step of an optimizer for one parameter. Axis d is dimension d of the parameter; all are parallel. Rate and step are scalars. Inputs: p, dp,
 * rate, step, states; outputs: p, states.
 *
 * Attributes: kind the optimizer, f[0...3] beta1, beta2, eps, decay. */
#include "kernels/optimizer.h"
#include "ops/checks.h"
#include "ops/reducing.h"

#include <math.h>
#include <string.h>

/* Where the states begin. */
#define FIRST_STATE 4

uint32_t plim__optimizer_states(plim__optimizer_kind kind)
{
    switch (kind) {
    case PLIM__SGD: return 0;
    case PLIM__ADAM: case PLIM__ADAMW: return 2;
    default: return 1;
    }
}

static plim_status check_settings(const plim__attr *a, plim_error *err)
{
    PLIM_FAIL_IF(a->kind > PLIM__RMSPROP, err, PLIM_E_INVALID, "optimizer %u does not exist", a->kind);
    for (int k = 0; k < 2; k++)
        PLIM_FAIL_IF(!(a->f[k] >= 0 && a->f[k] < 1), err, PLIM_E_INVALID, "optimizer: beta%d is %g, not in [0, 1)", k + 1, a->f[k]);
    PLIM_FAIL_IF(!(a->f[2] >= 0 && isfinite(a->f[2])), err, PLIM_E_INVALID, "optimizer: eps is %g", a->f[2]);
    PLIM_FAIL_IF(!(a->f[3] >= 0 && isfinite(a->f[3])), err, PLIM_E_INVALID, "optimizer: a decay of %g", a->f[3]);
    return PLIM_OK;
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    PLIM_TRY(check_settings(&n->attr, err));
    const uint32_t states = plim__optimizer_states((plim__optimizer_kind)n->attr.kind);
    PLIM_FAIL_IF(n->n_in != FIRST_STATE + states, err, PLIM_E_INVALID, "optimizer: %u operands, not %u", n->n_in, FIRST_STATE + states);
    const plim__value *p = plim__in(g, n, 0);
    PLIM_TRY(plim__check_float(p, "optimizer", err));
    for (uint32_t k = 2; k < FIRST_STATE; k++) {
        const plim__value *scalar = plim__in(g, n, k);
        PLIM_FAIL_IF(scalar->dtype != PLIM_F32 || scalar->shape.rank != 0, err, PLIM_E_TYPE,
                     "optimizer: the %s is a scalar of f32, not %s of rank %u", k == 2 ? "rate" : "step", plim_dtype_name(scalar->dtype), scalar->shape.rank);
    }
    PLIM_TRY(plim__check_alike(p, plim__in(g, n, 1), "optimizer", err));
    for (uint32_t k = 0; k < states; k++) PLIM_TRY(plim__check_alike(p, plim__in(g, n, FIRST_STATE + k), "optimizer", err));
    for (uint32_t j = 0; j <= states; j++) type[j] = (plim__type){p->dtype, p->shape};
    n->n_out = states + 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a)
{
    plim__axes_reduce(a, &plim__in(g, n, 0)->shape, 0, PLIM__PARALLEL);
    for (uint32_t j = 0; j < n->n_out && j < PLIM__MAX_OUT; j++) plim__axes_reduce_out(a, j, 0, 0, false);
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
}

static float scalar_of(const plim__view *v)
{
    float x;
    memcpy(&x, v->data, sizeof x);
    return x;
}

/* The outputs as the inputs were; they may lie on them. */
static void leave_alone(const plim__call *c, const plim__view *in, uint32_t states)
{
    for (uint32_t j = 0; j <= states; j++) {
        const plim__view *from = &in[j == 0 ? 0 : 1 + j];
        if (from->data != c->out[j].data) plim__copy(&c->out[j], from);
    }
}

static void run(const plim__call *c)
{
    static const plim__update how[] = {[PLIM__SGD] = PLIM__UPDATE_SGD, [PLIM__MOMENTUM] = PLIM__UPDATE_MOMENTUM,
                                       [PLIM__NESTEROV] = PLIM__UPDATE_NESTEROV, [PLIM__ADAM] = PLIM__UPDATE_ADAM,
                                       [PLIM__ADAMW] = PLIM__UPDATE_ADAM, [PLIM__RMSPROP] = PLIM__UPDATE_RMSPROP};
    const plim__attr *a = &c->node->attr;
    const double rate = scalar_of(&c->in[2]), step = scalar_of(&c->in[3]);
    const bool decoupled = a->kind == PLIM__ADAMW;
    const plim__update_by by = {.rate = rate, .l2 = decoupled ? 0 : a->f[3], .shrink = decoupled ? 1 - rate * a->f[3] : 1, .beta1 = a->f[0],
                                .beta2 = a->f[1], .eps = a->f[2], .fix1 = 1 / (1 - pow(a->f[0], step)), .fix2 = 1 / (1 - pow(a->f[1], step))};
    const uint32_t states = c->node->n_out - 1;
    plim__view in[2 + PLIM__MAX_OUT] = {plim__call_in(c, 0), plim__call_in(c, 1)};
    for (uint32_t k = 0; k < states; k++) in[2 + k] = plim__call_in(c, FIRST_STATE + k);
    if (isnan(rate)) {
        leave_alone(c, in, states);
        return;
    }
    plim__update_run(how[a->kind], &by, c->out, in, states);
}

/* Operands that are read and written; a root and a division count as some more. */
static plim__work work(const plim_graph *g, const plim__node *n)
{
    const double operands = n->attr.kind == PLIM__SGD ? 3 : n->attr.kind >= PLIM__ADAM ? 12 : 5;
    return (plim__work){PLIM_KERNEL_ELEMENTWISE, operands * (double)plim_dtype_bytes(plim__in(g, n, 0)->dtype)};
}

const plim__op_row plim__row_optimize = {
    .name = "optimize", .flags = PLIM__OP_UPDATE, .infer = infer, .axes = axes, .reads = reads, .run = run, .work = work,
};

plim_status plim__op_optimize(plim_graph *g, const plim__optimizer *how, uint32_t p, uint32_t dp, uint32_t rate, uint32_t step, const uint32_t *state,
                              uint32_t out[PLIM__MAX_OUT], plim_error *err)
{
    const plim__attr attr = {.kind = how->kind, .f = {how->beta1, how->beta2, how->eps, how->decay}};
    uint32_t in[FIRST_STATE + PLIM__MAX_OUT] = {p, dp, rate, step};
    const uint32_t states = plim__optimizer_states(how->kind);
    for (uint32_t k = 0; k < states; k++) in[FIRST_STATE + k] = state[k];
    return plim__graph_apply(g, PLIM__OP_OPTIMIZE, in, FIRST_STATE + states, &attr, out, err);
}
