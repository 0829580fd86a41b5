#include "models/training.h"
#include "ops/autodiff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------- names */

/* "beta1=0.8,eps=1e-7" */
static plim_status take_parameters(plim__optimizer *o, const char *text, plim_error *err)
{
    const struct {
        const char *key;
        double *to;
        bool there;
    } known[] = {
        {"momentum", &o->beta1, o->kind == PLIM__MOMENTUM || o->kind == PLIM__NESTEROV},
        {"rho", &o->beta1, o->kind == PLIM__RMSPROP},
        {"beta1", &o->beta1, o->kind == PLIM__ADAM || o->kind == PLIM__ADAMW},
        {"beta2", &o->beta2, o->kind == PLIM__ADAM || o->kind == PLIM__ADAMW},
        {"eps", &o->eps, o->kind == PLIM__ADAM || o->kind == PLIM__ADAMW || o->kind == PLIM__RMSPROP},
        {"decay", &o->decay, true},
    };
    while (*text) {
        const size_t n = strcspn(text, "="), end = strcspn(text, ",");
        double *to = NULL;
        for (size_t i = 0; i < sizeof known / sizeof *known && n < end; i++)
            if (known[i].there && strlen(known[i].key) == n && memcmp(text, known[i].key, n) == 0) to = known[i].to;
        PLIM_FAIL_IF(!to, err, PLIM_E_INVALID, "'%.*s' is no parameter of this optimizer", (int)(end < 40 ? end : 40), text);
        char *stop;
        *to = strtod(text + n + 1, &stop);
        PLIM_FAIL_IF(stop != text + end || stop == text + n + 1 || !isfinite(*to), err, PLIM_E_INVALID, "'%.*s' is no number for %.*s",
                     (int)(end - n - 1 < 40 ? end - n - 1 : 40), text + n + 1, (int)n, text);
        text += end + (text[end] == ',');
    }
    return PLIM_OK;
}

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
    const size_t n = strcspn(name, ":");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == n && memcmp(name, known[i].name, n) == 0) {
            *out = known[i].how;
            return name[n] ? take_parameters(out, name + n + 1, err) : PLIM_OK;
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

/* One of several classes is right: losses over classes, and numbers per class that look like a choice. */
static bool has_classes(plim__loss l, const plim_shape *y)
{
    return y->rank >= 2 && y->dim[y->rank - 1] > 1 && l != PLIM__LOSS_MAE && l != PLIM__LOSS_BINARY && l != PLIM__LOSS_BINARY_LOGITS;
}

static plim_status add_accuracy(plim__train_graph *t, plim__model *m, uint32_t y, uint32_t target, uint32_t axis, plim_error *err)
{
    plim_graph *g = m->graph;
    uint32_t in[2] = {y, target}, equal;
    PLIM_TRY(plim__op_argreduce(g, true, y, 1u << axis, false, &in[0], err));
    if (g->value[target].shape.rank == g->value[y].shape.rank) PLIM_TRY(plim__op_argreduce(g, true, target, 1u << axis, false, &in[1], err));
    PLIM_TRY(plim__op_elementwise(g, PLIM__EW_EQUAL, PLIM_I64, PLIM_F32, in, 2, &equal, err));
    double count = 1;
    for (uint32_t d = 0; d < g->value[equal].shape.rank; d++) count *= (double)g->value[equal].shape.dim[d];
    PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, equal, (1u << g->value[equal].shape.rank) - 1, false, PLIM_F32, &t->accuracy, err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_DIV, t->accuracy, count, &t->accuracy, err));
    return plim__graph_output(g, t->accuracy, "accuracy", NULL, err);
}

static plim_status add_loss(plim__train_graph *t, plim__model *m, const plim__training *how, plim_error *err)
{
    PLIM_FAIL_IF(m->n_outputs == 0, err, PLIM_E_INVALID, "the model has no output that could be trained");
    const uint32_t y = m->output[0].value;
    const plim_shape shape = m->graph->value[y].shape;
    PLIM_FAIL_IF(shape.rank == 0, err, PLIM_E_SHAPE, "output '%s' is a single number: there are no samples to train on", m->output[0].name);
    const uint32_t axis = shape.rank > 1 ? shape.rank - 1 : 0;
    plim_shape target = shape;
    if (is_sparse(how->loss)) target.rank--;
    const plim_dtype wanted = is_sparse(how->loss) ? PLIM_I64 : m->graph->value[y].dtype;
    uint32_t converted;
    PLIM_TRY(plim__model_unbound(m, "target", how->target_typed ? how->target_dtype : wanted, &target, &t->target, err));
    PLIM_TRY(plim__model_layer(m, "loss", "Loss", err));
    PLIM_TRY(plim__op_cast(m->graph, t->target, wanted, &converted, err));
    PLIM_TRY(plim__op_loss(m->graph, how->loss, y, converted, axis, &t->loss, err));
    PLIM_TRY(plim__graph_output(m->graph, t->loss, "loss", NULL, err));
    return has_classes(how->loss, &shape) ? add_accuracy(t, m, y, converted, axis, err) : PLIM_OK;
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

/* The rate, or no number where the loss is none: then the optimizer leaves everything as it is, and the step can be looked at. */
static plim_status guard_rate(const plim__train_graph *t, plim_graph *g, uint32_t *rate, plim_error *err)
{
    uint32_t loss;
    PLIM_TRY(plim__op_cast(g, t->loss, PLIM_F32, &loss, err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, loss, 0, &loss, err));
    return plim__op_float2(g, PLIM__EW_ADD, t->rate, loss, rate, err);
}

static plim_status add_update(plim__train_graph *t, plim__trained *p, plim__model *m, const plim__optimizer *how, uint32_t rate, plim_error *err)
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
        plim__model_stays(m, p->state[k], PLIM__STAY_MAY);
    }
    uint32_t out[PLIM__MAX_OUT];
    PLIM_TRY(plim__op_optimize(g, how, param->value, p->gradient, rate, t->step, p->state, out, err));
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
    *out = (plim__train_graph){.accuracy = PLIM__NONE};
    PLIM_TRY(add_loss(out, m, how, err));
    PLIM_TRY(add_gradients(out, m, err));
    PLIM_TRY(plim__model_setting(m, "learning rate", PLIM_F32, &out->rate, err));
    PLIM_TRY(plim__model_setting(m, "step", PLIM_F32, &out->step, err));
    uint32_t rate;
    PLIM_TRY(guard_rate(out, m->graph, &rate, err));
    for (uint32_t i = 0; i < out->n_trained; i++) PLIM_TRY(add_update(out, &out->trained[i], m, &how->optimizer, rate, err));
    return add_other_updates(m, err);
}

plim_status plim__model_measure(plim__train_graph *out, plim__model *m, const plim__training *how, plim_error *err)
{
    *out = (plim__train_graph){.rate = PLIM__NONE, .step = PLIM__NONE, .accuracy = PLIM__NONE};
    return add_loss(out, m, how, err);
}

void plim__train_graph_free(plim__train_graph *t, const plim__model *m)
{
    plim__free(&m->graph->alloc, t->trained);
    *t = (plim__train_graph){0};
}
