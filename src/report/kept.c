/* Why what a layer makes is still there: its last reader, and where the plan has it meanwhile. */
#include "core/size.h"
#include "report/model_report.h"
#include "report/plain.h"

#include <stdio.h>
#include <string.h>

typedef struct readers {
    uint32_t *root;
    uint32_t *count, *last; /* per value that is its own root: nodes that read it or a view of it, and the last of them */
    bool *outside;          /* read by another layer, by the backward pass, or a result */
    bool *result;
} readers;

static void readers_free(readers *r, const plim__alloc *a)
{
    plim__free(a, r->root);
    plim__free(a, r->count);
    plim__free(a, r->last);
    plim__free(a, r->outside);
    plim__free(a, r->result);
}

static void find_readers(readers *r, const plim_graph *g)
{
    plim__storage_of(g, r->root);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        const bool view = plim__op_row_of(n->op)->flags & PLIM__OP_VIEW;
        for (uint32_t k = 0; k < n->n_in && !view; k++) {
            const uint32_t v = r->root[n->in[k]];
            if (r->count[v] == 0 || r->last[v] != i) r->count[v]++;
            r->last[v] = i;
            const plim__node *by = g->value[v].kind == PLIM__VALUE_NODE ? &g->node[g->value[v].node] : NULL;
            r->outside[v] |= by && (n->backward || n->tag != by->tag);
        }
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) r->outside[r->root[g->output[i].value]] = r->result[r->root[g->output[i].value]] = true;
}

static plim_status readers_new(readers *r, const plim_graph *g, plim_error *err)
{
    *r = (readers){
        .root = plim__new(&g->alloc, g->n_values, sizeof *r->root, err),
        .count = plim__new(&g->alloc, g->n_values, sizeof *r->count, err),
        .last = plim__new(&g->alloc, g->n_values, sizeof *r->last, err),
        .outside = plim__new(&g->alloc, g->n_values, sizeof *r->outside, err),
        .result = plim__new(&g->alloc, g->n_values, sizeof *r->result, err),
    };
    if (r->root && r->count && r->last && r->outside && r->result) {
        find_readers(r, g);
        return PLIM_OK;
    }
    readers_free(r, &g->alloc);
    return PLIM_E_NOMEM;
}

/* How the plan has a value: the most that it holds of it at once, in how many passes it is made, whether it goes through a file. */
static void say_held(char *text, size_t size, const plim_plan *plan, uint32_t value)
{
    uint64_t most = 0;
    uint32_t made = 0;
    bool in_file = false, inside = false;
    for (uint32_t q = 0; q < plan->n_passes; q++) {
        for (uint32_t i = 0; i < plan->pass[q].n_values; i++) {
            const plim__pvalue *v = &plan->pass[q].value[i];
            if (v->value != value) continue;
            made += v->producer != PLIM__NONE;
            in_file |= v->spill;
            inside |= v->role == PLIM__ROLE_PRIVATE;
            if (v->slot == PLIM__NONE) continue;
            const uint64_t bytes = plan->slot[v->slot].bytes * plan->slot[v->slot].copies;
            if (bytes > most) most = bytes;
        }
    }
    char bytes[32], times[48] = "";
    plim_bytes_format(bytes, sizeof bytes, most);
    if (made > 1) snprintf(times, sizeof times, ", made in %u passes", made);
    if (in_file) snprintf(text, size, "in a file, %s at a time in memory%s", bytes, times);
    else if (most >= plan->graph->value[value].bytes && most > 0) snprintf(text, size, "whole in memory%s", times);
    else if (most > 0) snprintf(text, size, "%s at a time in memory%s", bytes, times);
    else if (inside) snprintf(text, size, "block by block inside a stage%s", times);
    else snprintf(text, size, "not made by this plan");
}

static plim_kept keep(const plim_model *m, const plim_plan *plan, const readers *r, uint32_t v)
{
    const plim_graph *g = m->model->graph;
    const plim__value *x = &g->value[v];
    plim_kept k = {.dtype = x->dtype, .shape = x->shape, .bytes = x->bytes, .made_at = x->node + 1, .readers = r->count[v]};
    snprintf(k.name, sizeof k.name, "%s", x->name);
    if (plan) say_held(k.held, sizeof k.held, plan, v);
    const uint32_t by = r->count[v] ? r->last[v] : x->node;
    k.kept_until = r->result[v] ? g->n_nodes : by + 1;
    memcpy(k.by_layer, m->model->layer[g->node[by].tag].name, sizeof k.by_layer);
    snprintf(k.by_op, sizeof k.by_op, "%s", plim__node_name(&g->node[by]));
    snprintf(k.direction, sizeof k.direction, "%s", r->result[v] ? "result" : plim__node_direction(g, by));
    return k;
}

plim_status plim_model_kept(plim_kept *out, uint32_t cap, uint32_t *n, const plim_model *model, const plim_plan *plan, uint32_t layer,
                            plim_error *err)
{
    const plim_graph *g = model->model->graph;
    readers r;
    *n = 0;
    PLIM_FAIL_IF(layer >= model->model->n_layers, err, PLIM_E_INVALID, "there is no layer %u: there are %u", layer, model->model->n_layers);
    PLIM_TRY(plim__check_plan_of(model, plan, err));
    PLIM_TRY(readers_new(&r, g, err));
    for (uint32_t v = 0; v < g->n_values; v++) {
        const plim__value *x = &g->value[v];
        if (x->kind != PLIM__VALUE_NODE || r.root[v] != v || !r.outside[v]) continue;
        if (g->node[x->node].backward || g->node[x->node].tag != layer) continue;
        if (*n < cap) out[*n] = keep(model, plan, &r, v);
        ++*n;
    }
    readers_free(&r, &g->alloc);
    return PLIM_OK;
}
