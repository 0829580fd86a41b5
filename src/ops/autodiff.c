/* Reverse mode: from the loss backwards, each node once, by the gradients of its row. Nodes stand behind their inputs, so the gradient with respect to a
 * value is complete when the walk reaches the node that made it. */
#include "ops/autodiff.h"
#include "core/dtype.h"
#include "ops/gradient.h"

#include <string.h>

typedef struct walk {
    plim_graph *g;
    uint32_t n_nodes, n_values; /* when it began: new ones are not walked */
    bool *needed;               /* [n_values] does the value depend on what is differentiated with respect to */
    uint32_t *grad;             /* [n_values] so far, or PLIM__NONE */
    plim_error *err;
} walk;

static bool passes_gradients(const plim_graph *g, uint32_t v) { return plim__dtype_is_float(g->value[v].dtype); }

/* Which values lie between `with` and the end. */
static void mark_needed(walk *w, const uint32_t *with, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) w->needed[with[i]] = true;
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        const plim__node *node = &w->g->node[i];
        bool any = false;
        for (uint32_t k = 0; k < node->n_in; k++) any |= w->needed[node->in[k]];
        for (uint32_t j = 0; j < node->n_out; j++) w->needed[node->out[j]] |= any && passes_gradients(w->g, node->out[j]);
    }
}

static plim_status add_to(walk *w, uint32_t v, uint32_t gradient)
{
    if (w->grad[v] == PLIM__NONE) {
        w->grad[v] = gradient;
        return PLIM_OK;
    }
    return plim__op_float2(w->g, PLIM__EW_ADD, w->grad[v], gradient, &w->grad[v], w->err);
}

static plim_status step_back(walk *w, uint32_t node)
{
    const plim__node n = w->g->node[node]; /* a copy: the array moves. Its `in` does not */
    const plim__op_row *row = plim__op_row_of(n.op);
    uint32_t dout[PLIM__MAX_OUT];
    bool reached = false;
    for (uint32_t j = 0; j < n.n_out; j++) {
        dout[j] = w->needed[n.out[j]] ? w->grad[n.out[j]] : PLIM__NONE;
        reached |= dout[j] != PLIM__NONE;
    }
    if (!reached) return PLIM_OK;
    PLIM_FAIL_IF(!row->grad, w->err, PLIM_E_UNSUPPORTED, "the loss depends on '%s', an op that passes no gradient", row->name);
    bool *want = plim__new(&w->g->alloc, n.n_in, sizeof *want, w->err);
    uint32_t *din = plim__new(&w->g->alloc, n.n_in, sizeof *din, w->err);
    plim_status status = want && din ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        for (uint32_t k = 0; k < n.n_in; k++) {
            want[k] = w->needed[n.in[k]];
            din[k] = PLIM__NONE;
        }
        w->g->tag = n.tag;
        plim__gradient d = {.graph = w->g, .node = node, .dout = dout, .want = want, .din = din, .err = w->err};
        status = row->grad(&d);
    }
    for (uint32_t k = 0; k < n.n_in && status == PLIM_OK; k++)
        if (want[k] && din[k] != PLIM__NONE) status = add_to(w, n.in[k], din[k]);
    plim__free(&w->g->alloc, want);
    plim__free(&w->g->alloc, din);
    return status;
}

static plim_status walk_back(walk *w, uint32_t loss)
{
    PLIM_TRY(plim__op_scalar(w->g, w->g->value[loss].dtype, 1, &w->grad[loss], w->err));
    for (uint32_t i = w->n_nodes; i-- > 0;) PLIM_TRY(step_back(w, i));
    return PLIM_OK;
}

static plim_status check(const plim_graph *g, uint32_t loss, const uint32_t *with, uint32_t n, plim_error *err)
{
    PLIM_FAIL_IF(loss >= g->n_values || g->value[loss].shape.rank != 0 || !passes_gradients(g, loss), err, PLIM_E_INVALID,
                 "gradients are of a float scalar");
    for (uint32_t i = 0; i < n; i++)
        PLIM_FAIL_IF(with[i] >= g->n_values || !passes_gradients(g, with[i]), err, PLIM_E_TYPE, "no gradient with respect to '%s': it is not a float",
                     with[i] < g->n_values ? g->value[with[i]].name : "?");
    return PLIM_OK;
}

plim_status plim__graph_gradients(plim_graph *g, uint32_t loss, const uint32_t *with, uint32_t n, uint32_t *out, plim_error *err)
{
    PLIM_TRY(check(g, loss, with, n, err));
    const uint32_t tag = g->tag;
    walk w = {.g = g, .n_nodes = g->n_nodes, .n_values = g->n_values, .err = err};
    w.needed = plim__new(&g->alloc, w.n_values, sizeof *w.needed, err);
    w.grad = plim__new(&g->alloc, w.n_values, sizeof *w.grad, err);
    plim_status status = w.needed && w.grad ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        memset(w.grad, 0xff, w.n_values * sizeof *w.grad); /* PLIM__NONE */
        mark_needed(&w, with, n);
        g->backward = true;
        status = walk_back(&w, loss);
    }
    for (uint32_t i = 0; i < n && status == PLIM_OK; i++) out[i] = w.grad[with[i]];
    g->backward = false;
    g->tag = tag;
    plim__free(&g->alloc, w.needed);
    plim__free(&g->alloc, w.grad);
    return status;
}
