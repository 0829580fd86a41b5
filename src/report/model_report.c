/* A model's memory by layer, and what it would take without a plan. Everything but the workspaces is counted on the graph alone: values that
 * are views of others have no bytes of their own. */
#include "report/model_report.h"
#include "core/size.h"
#include "report/plain.h"

#include <stdio.h>
#include <string.h>

const char *plim__node_direction(const plim_graph *g, uint32_t node)
{
    if (g->node[node].backward) return "backward";
    for (uint32_t i = 0; i < g->n_states; i++)
        if (g->value[g->state[i].out].node == node) return "update";
    return "forward";
}

plim_status plim__check_plan_of(const plim_model *m, const plim_plan *plan, plim_error *err)
{
    PLIM_FAIL_IF(plan && plan->graph != m->model->graph, err, PLIM_E_INVALID, "this is a plan of something else than this model");
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- by layer */

static plim_status add(uint64_t *sum, uint64_t bytes, plim_error *err)
{
    PLIM_FAIL_IF(!plim__add(sum, *sum, bytes), err, PLIM_E_OVERFLOW, "the model's values have more than 2**64 bytes");
    return PLIM_OK;
}

/* What is asked of every value. */
typedef struct marks {
    uint32_t *root; /* whose elements it shows */
    bool *apart;    /* a parameter, a gradient of one, the optimizer's, or what takes such a one's place */
    bool *saved;    /* a node of the backward pass reads it */
    bool *update;   /* per node: it makes what takes a state's place */
} marks;

static void marks_free(marks *k, const plim__alloc *a)
{
    plim__free(a, k->root);
    plim__free(a, k->apart);
    plim__free(a, k->saved);
    plim__free(a, k->update);
}

static void mark(marks *k, const plim_model *m)
{
    const plim_graph *g = m->model->graph;
    plim__storage_of(g, k->root);
    for (uint32_t i = 0; i < m->model->n_params; i++) k->apart[m->model->param[i].value] = true;
    for (uint32_t i = 0; i < m->train.n_trained; i++) k->apart[k->root[m->train.trained[i].gradient]] = true;
    for (uint32_t i = 0; i < g->n_states; i++) {
        const uint32_t out = g->state[i].out;
        k->apart[g->state[i].in] = k->apart[k->root[out]] = true;
        if (g->value[out].kind == PLIM__VALUE_NODE) k->update[g->value[out].node] = true;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->node[i].n_in && g->node[i].backward; j++) k->saved[k->root[g->node[i].in[j]]] = true;
}

static plim_status marks_new(marks *k, const plim_model *m, plim_error *err)
{
    const plim_graph *g = m->model->graph;
    *k = (marks){
        .root = plim__new(&m->alloc, g->n_values, sizeof *k->root, err),
        .apart = plim__new(&m->alloc, g->n_values, sizeof *k->apart, err),
        .saved = plim__new(&m->alloc, g->n_values, sizeof *k->saved, err),
        .update = plim__new(&m->alloc, g->n_nodes, sizeof *k->update, err),
    };
    if (k->root && k->apart && k->saved && k->update) {
        mark(k, m);
        return PLIM_OK;
    }
    marks_free(k, &m->alloc);
    return PLIM_E_NOMEM;
}

static plim_status count_parameters(plim_layer *out, const plim_model *m, plim_error *err)
{
    const plim__value *value = m->model->graph->value;
    for (uint32_t i = 0; i < m->model->n_params; i++) {
        const plim__param *p = &m->model->param[i];
        uint64_t n;
        PLIM_TRY(plim_shape_count(&n, &value[p->value].shape, err));
        PLIM_TRY(add(&out[p->layer].parameters, n, err));
        PLIM_TRY(add(&out[p->layer].parameter_bytes, value[p->value].bytes, err));
    }
    for (uint32_t i = 0; i < m->train.n_trained; i++) {
        const plim__trained *t = &m->train.trained[i];
        plim_layer *l = &out[m->model->param[t->param].layer];
        PLIM_TRY(add(&l->gradient_bytes, value[t->gradient].bytes, err));
        for (int k = 0; k < 2; k++)
            if (t->state[k] != PLIM__NONE) PLIM_TRY(add(&l->state_bytes, value[t->state[k]].bytes, err));
    }
    return PLIM_OK;
}

static plim_status count_values(plim_layer *out, const plim_model *m, const marks *k, plim_error *err)
{
    const plim_graph *g = m->model->graph;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const plim__value *x = &g->value[v];
        if (k->root[v] != v || k->apart[v] || x->kind == PLIM__VALUE_CONST) continue;
        if (x->kind == PLIM__VALUE_FILE && g->source[x->source].stay == PLIM__STAY_MEMORY) continue; /* made of parameters, once, or a setting */
        const plim__node *by = x->kind == PLIM__VALUE_NODE ? &g->node[x->node] : NULL;
        if (by && (by->backward || k->update[x->node])) continue;
        plim_layer *l = &out[by ? by->tag : 0];
        PLIM_TRY(add(&l->made_bytes, x->bytes, err));
        if (k->saved[v]) PLIM_TRY(add(&l->saved_bytes, x->bytes, err));
    }
    return PLIM_OK;
}

static void find_workspaces(plim_layer *out, const plim_plan *plan)
{
    for (uint32_t q = 0; q < plan->n_passes; q++) {
        const plim__pass *p = &plan->pass[q];
        for (uint32_t s = 0; s < p->n_stages; s++) {
            const plim__stage *stage = &p->stage[s];
            if (stage->slot == PLIM__NONE) continue;
            const uint64_t bytes = plan->slot[stage->slot].bytes * plan->slot[stage->slot].copies;
            for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
                plim_layer *l = &out[plan->graph->node[p->node[i].node].tag];
                if (bytes > l->workspace_bytes) l->workspace_bytes = bytes;
            }
        }
    }
}

static plim_status count_layers(plim_layer *out, const plim_model *m, const marks *k, plim_error *err)
{
    for (uint32_t i = 0; i < m->model->n_layers; i++) {
        out[i] = (plim_layer){0};
        memcpy(out[i].name, m->model->layer[i].name, sizeof out[i].name);
        memcpy(out[i].kind, m->model->layer[i].kind, sizeof out[i].kind);
    }
    PLIM_TRY(count_parameters(out, m, err));
    return count_values(out, m, k, err);
}

plim_status plim_model_layers(plim_layer *out, uint32_t n, const plim_model *model, const plim_plan *plan, plim_error *err)
{
    marks k;
    PLIM_FAIL_IF(n != model->model->n_layers, err, PLIM_E_INVALID, "room for %u layers where there are %u", n, model->model->n_layers);
    PLIM_TRY(plim__check_plan_of(model, plan, err));
    PLIM_TRY(marks_new(&k, model, err));
    const plim_status status = count_layers(out, model, &k, err);
    if (status == PLIM_OK && plan) find_workspaces(out, plan);
    marks_free(&k, &model->alloc);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- the whole */

static plim_status sum_layers(plim_layer *total, const plim_layer *layer, uint32_t n, plim_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        PLIM_TRY(add(&total->parameters, layer[i].parameters, err));
        PLIM_TRY(add(&total->parameter_bytes, layer[i].parameter_bytes, err));
        PLIM_TRY(add(&total->gradient_bytes, layer[i].gradient_bytes, err));
        PLIM_TRY(add(&total->state_bytes, layer[i].state_bytes, err));
        PLIM_TRY(add(&total->made_bytes, layer[i].made_bytes, err));
        PLIM_TRY(add(&total->saved_bytes, layer[i].saved_bytes, err));
    }
    return PLIM_OK;
}

static plim_status describe_plain(plim_model_info *out, const plim_model *m, const marks *k, plim_error *err)
{
    const plim_graph *g = m->model->graph;
    plim__plain plain;
    PLIM_TRY(plim__plain_peak(&plain, g, k->apart, err));
    out->plain_bytes = plain.bytes;
    PLIM_TRY(add(&out->plain_bytes, out->total.parameter_bytes, err));
    PLIM_TRY(add(&out->plain_bytes, out->total.gradient_bytes, err));
    PLIM_TRY(add(&out->plain_bytes, out->total.state_bytes, err));
    if (plain.node == PLIM__NONE) return PLIM_OK;
    const plim__layer *l = &m->model->layer[g->node[plain.node].tag];
    snprintf(out->plain_at, sizeof out->plain_at, "%s %s", l->name[0] ? l->name : "a node of no layer", plim__node_direction(g, plain.node));
    return PLIM_OK;
}

static plim_status describe(plim_model_info *out, const plim_model *m, const marks *k, plim_layer *layer, plim_error *err)
{
    PLIM_TRY(count_layers(layer, m, k, err));
    PLIM_TRY(sum_layers(&out->total, layer, m->model->n_layers, err));
    return describe_plain(out, m, k, err);
}

plim_status plim_model_describe(plim_model_info *out, const plim_model *model, plim_error *err)
{
    *out = (plim_model_info){
        .training = model->training, .batch = model->batch, .n_layers = model->model->n_layers, .n_nodes = model->model->graph->n_nodes,
        .narrowed = model->narrowed.values, .narrowed_bytes = model->narrowed.saved_bytes,
    };
    memcpy(out->name, model->model->name, sizeof out->name);
    memcpy(out->optimizer, model->optimizer, sizeof out->optimizer);
    memcpy(out->loss, model->loss, sizeof out->loss);
    marks k;
    PLIM_TRY(marks_new(&k, model, err));
    plim_layer *layer = plim__new(&model->alloc, model->model->n_layers, sizeof *layer, err);
    const plim_status status = layer ? describe(out, model, &k, layer, err) : PLIM_E_NOMEM;
    plim__free(&model->alloc, layer);
    marks_free(&k, &model->alloc);
    return status;
}
