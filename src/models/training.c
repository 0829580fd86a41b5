#include "models/training.h"
#include "ops/autodiff.h"

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------- names */

plim_status plim__optimizer_named(plim__optimizer *out, const char *name, plim_error *err)
{
    static const struct {
        const char *name;
        plim__optimizer how;
    } known[] = {
        {"sgd", {PLIM__SGD, 0, 0, 0, 0}},
        {"momentum", {PLIM__MOMENTUM, 0.9, 0, 0, 0}},
        {"nesterov", {PLIM__NESTEROV, 0.9, 0, 0, 0}},
        {"adam", {PLIM__ADAM, 0.9, 0.999, 1e-8, 0}},
        {"adamw", {PLIM__ADAMW, 0.9, 0.999, 1e-8, 0.01}},
        {"rmsprop", {PLIM__RMSPROP, 0.9, 0, 1e-8, 0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            *out = known[i].how;
            return PLIM_OK;
        }
    return plim__fail(err, PLIM_E_INVALID, "no optimizer '%.40s': there are sgd, momentum, nesterov, adam, adamw, rmsprop", name);
}

plim_status plim__loss_named(plim__loss *out, const char *name, plim_error *err)
{
    static const char *const known[] = {"mse", "mae", "bce", "bce-logits", "ce", "ce-logits", "sparse-ce", "sparse-ce-logits"}; /* in plim__loss's order */
    for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
        if (strcmp(name, known[i]) == 0) {
            *out = (plim__loss)i;
            return PLIM_OK;
        }
    return plim__fail(err, PLIM_E_INVALID, "no loss '%.40s': there are mse, mae, bce, bce-logits, ce, ce-logits, sparse-ce, sparse-ce-logits", name);
}

/* ------------------------------------------------------------------------------------------------- the step */

static bool is_sparse(plim__loss l) { return l == PLIM__LOSS_SPARSE || l == PLIM__LOSS_SPARSE_LOGITS; }

static plim_status add_loss(plim__train_graph *t, plim__model *m, plim__loss loss, plim_error *err)
{
    PLIM_FAIL_IF(m->n_outputs == 0, err, PLIM_E_INVALID, "the model has no output that could be trained");
    const uint32_t y = m->output[0].value;
    const plim_shape shape = m->graph->value[y].shape;
    PLIM_FAIL_IF(shape.rank == 0, err, PLIM_E_SHAPE, "output '%s' is a single number: there are no samples to train on", m->output[0].name);
    const uint32_t axis = shape.rank > 1 ? shape.rank - 1 : 0;
    plim_shape target = shape;
    if (is_sparse(loss)) target.rank--;
    PLIM_TRY(plim__model_unbound(m, "target", is_sparse(loss) ? PLIM_I64 : m->graph->value[y].dtype, &target, &t->target, err));
    PLIM_TRY(plim__model_layer(m, "loss", "Loss", err));
    return plim__op_loss(m->graph, loss, y, t->target, axis, &t->loss, err);
}

/* Which parameters are trained, and their gradients. */
static plim_status add_gradients(plim__train_graph *t, plim__model *m, plim_error *err)
{
    const plim__alloc *a = &m->graph->alloc;
    t->trained = plim__new(a, m->n_params, sizeof *t->trained, err);
    uint32_t *with = plim__new(a, m->n_params, sizeof *with, err);
    uint32_t *grad = plim__new(a, m->n_params, sizeof *grad, err);
    plim_status status = t->trained && with && grad ? PLIM_OK : PLIM_E_NOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_params && status == PLIM_OK; i++)
        if (m->param[i].trainable) with[n++] = m->param[i].value;
    if (status == PLIM_OK) status = plim__graph_gradients(m->graph, t->loss, with, n, grad, err);
    n = 0;
    for (uint32_t i = 0; i < m->n_params && status == PLIM_OK; i++) {
        if (!m->param[i].trainable) continue;
        const uint32_t gradient = grad[n++];
        if (gradient == PLIM__NONE) continue; /* the loss does not depend on it */
        t->trained[t->n_trained++] = (plim__trained){.param = i, .gradient = gradient, .state = {PLIM__NONE, PLIM__NONE}};
    }
    plim__free(a, with);
    plim__free(a, grad);
    return status;
}

static plim_status add_update(plim__train_graph *t, plim__trained *p, plim__model *m, const plim__optimizer *how, plim_error *err)
{
    plim_graph *g = m->graph;
    const plim__param *param = &m->param[p->param];
    const uint32_t n_states = plim__optimizer_states(how->kind);
    g->tag = param->layer;
    for (uint32_t k = 0; k < n_states; k++) {
        char name[PLIM__MODEL_NAME + 24];
        snprintf(name, sizeof name, "%s (state %u)", param->name, k + 1);
        const plim_shape shape = g->value[param->value].shape;
        PLIM_TRY(plim__model_unbound(m, name, g->value[param->value].dtype, &shape, &p->state[k], err));
    }
    uint32_t out[PLIM__MAX_OUT];
    PLIM_TRY(plim__op_optimize(g, how, param->value, p->gradient, t->rate, t->step, p->state, out, err));
    PLIM_TRY(plim__graph_state(g, param->value, out[0], err));
    for (uint32_t k = 0; k < n_states; k++) PLIM_TRY(plim__graph_state(g, p->state[k], out[k + 1], err));
    return PLIM_OK;
}

/* Running statistics. */
static plim_status add_other_updates(plim__model *m, plim_error *err)
{
    for (uint32_t i = 0; i < m->n_params; i++)
        if (m->param[i].update != PLIM__NONE) PLIM_TRY(plim__graph_state(m->graph, m->param[i].value, m->param[i].update, err));
    return PLIM_OK;
}

plim_status plim__model_train(plim__train_graph *out, plim__model *m, const plim__training *how, plim_error *err)
{
    const plim_shape scalar = {0};
    *out = (plim__train_graph){0};
    PLIM_TRY(add_loss(out, m, how->loss, err));
    PLIM_TRY(plim__graph_output(m->graph, out->loss, "loss", NULL, err));
    PLIM_TRY(add_gradients(out, m, err));
    PLIM_TRY(plim__model_unbound(m, "learning rate", PLIM_F32, &scalar, &out->rate, err));
    PLIM_TRY(plim__model_unbound(m, "step", PLIM_F32, &scalar, &out->step, err));
    for (uint32_t i = 0; i < out->n_trained; i++) PLIM_TRY(add_update(out, &out->trained[i], m, &how->optimizer, err));
    return add_other_updates(m, err);
}

void plim__train_graph_free(plim__train_graph *t, const plim__model *m)
{
    plim__free(&m->graph->alloc, t->trained);
    *t = (plim__train_graph){0};
}
