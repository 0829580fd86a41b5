/* The graph is played back into a new one, node by node in its order, so that the new one is as sound as the old. */
#include "models/narrow.h"
#include "ops/ops.h"

#include <string.h>

#define LEAST_BYTES (16u << 10) /* smaller values are kept as they are: statistics, scalars */

typedef struct replay {
    const plim_graph *from;
    plim_graph *to;
    plim_dtype dtype;
    uint32_t *map;    /* per old value: the new one */
    uint32_t *narrow; /* per old value: the new one in fewer bits, or PLIM__NONE */
    plim__narrowed *done;
    plim_error *err;
} replay;

plim_status plim__narrow_named(plim_dtype *out, const char *name, plim_error *err)
{
    *out = strcmp(name, "f16") == 0 ? PLIM_F16 : PLIM_BF16;
    PLIM_FAIL_IF(*out == PLIM_BF16 && strcmp(name, "bf16") != 0, err, PLIM_E_INVALID, "nothing is stored as '%.20s': there are f16 and bf16", name);
    return PLIM_OK;
}

/* Values that forward nodes make and backward nodes read. */
static void mark_saved(const plim_graph *g, bool *saved)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in && g->node[i].backward; k++) {
            const plim__value *v = &g->value[g->node[i].in[k]];
            saved[g->node[i].in[k]] |= v->kind == PLIM__VALUE_NODE && !g->node[v->node].backward && v->dtype == PLIM_F32 && v->bytes >= LEAST_BYTES;
        }
}

static plim_status copy_node(replay *r, uint32_t i, const bool *saved, uint32_t *in)
{
    const plim__node *n = &r->from->node[i];
    r->to->tag = n->tag;
    r->to->backward = n->backward;
    for (uint32_t k = 0; k < n->n_in; k++) {
        in[k] = r->map[n->in[k]];
        if (n->backward && r->narrow[n->in[k]] != PLIM__NONE) PLIM_TRY(plim__op_cast(r->to, r->narrow[n->in[k]], PLIM_F32, &in[k], r->err));
    }
    uint32_t out[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(r->to, n->op, in, n->n_in, &n->attr, out, r->err));
    for (uint32_t j = 0; j < n->n_out; j++) {
        const plim__value *v = &r->from->value[n->out[j]];
        r->map[n->out[j]] = out[j];
        memcpy(r->to->value[out[j]].name, v->name, sizeof v->name);
        if (!saved[n->out[j]]) continue;
        PLIM_TRY(plim__op_cast(r->to, out[j], r->dtype, &r->narrow[n->out[j]], r->err));
        r->done->values++;
        r->done->saved_bytes += v->bytes - r->to->value[r->narrow[n->out[j]]].bytes;
    }
    return PLIM_OK;
}

static plim_status copy_ends(replay *r)
{
    for (uint32_t i = 0; i < r->from->n_outputs; i++) {
        const plim__output *o = &r->from->output[i];
        PLIM_TRY(plim__graph_output(r->to, r->map[o->value], o->name, o->path, r->err));
    }
    for (uint32_t i = 0; i < r->from->n_states; i++)
        PLIM_TRY(plim__graph_state(r->to, r->map[r->from->state[i].in], r->map[r->from->state[i].out], r->err));
    return PLIM_OK;
}

static plim_status play(replay *r, const bool *saved, uint32_t *in)
{
    for (uint32_t v = 0; v < r->from->n_values; v++) PLIM_TRY(plim__graph_copy_value(r->to, r->from, v, &r->map[v], r->err));
    for (uint32_t i = 0; i < r->from->n_nodes; i++) PLIM_TRY(copy_node(r, i, saved, in));
    r->to->backward = false;
    return copy_ends(r);
}

static uint32_t most_inputs(const plim_graph *g)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < g->n_nodes; i++) most = g->node[i].n_in > most ? g->node[i].n_in : most;
    return most;
}

static void rename_value(const uint32_t *map, uint32_t *v)
{
    if (*v != PLIM__NONE) *v = map[*v];
}

static void rename_all(const uint32_t *map, plim__model *m, plim__train_graph *t)
{
    for (uint32_t i = 0; i < m->n_inputs; i++) rename_value(map, &m->input[i].value);
    for (uint32_t i = 0; i < m->n_outputs; i++) rename_value(map, &m->output[i].value);
    for (uint32_t i = 0; i < m->n_params; i++) {
        rename_value(map, &m->param[i].value);
        rename_value(map, &m->param[i].update);
    }
    rename_value(map, &m->seed);
    uint32_t *const of_training[] = {&t->target, &t->rate, &t->step, &t->loss, &t->accuracy};
    for (uint32_t i = 0; i < sizeof of_training / sizeof *of_training; i++) rename_value(map, of_training[i]);
    for (uint32_t i = 0; i < t->n_trained; i++) {
        rename_value(map, &t->trained[i].gradient);
        for (uint32_t k = 0; k < 2; k++) rename_value(map, &t->trained[i].state[k]);
    }
}

plim_status plim__model_narrow(plim__narrowed *out, plim__model *m, plim__train_graph *t, plim_dtype to, plim_error *err)
{
    const plim__alloc a = m->graph->alloc;
    const uint32_t n = m->graph->n_values;
    *out = (plim__narrowed){0};
    replay r = {.from = m->graph, .dtype = to, .done = out, .err = err};
    PLIM_TRY(plim__graph_new(&r.to, a, err));
    r.map = plim__new(&a, n, sizeof *r.map, err);
    r.narrow = plim__new(&a, n, sizeof *r.narrow, err);
    bool *saved = plim__new(&a, n, sizeof *saved, err);
    uint32_t *in = plim__new(&a, most_inputs(m->graph), sizeof *in, err);
    plim_status status = r.map && r.narrow && saved && in ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        memset(r.narrow, 0xff, n * sizeof *r.narrow);
        mark_saved(m->graph, saved);
        status = play(&r, saved, in);
    }
    if (status == PLIM_OK) {
        rename_all(r.map, m, t);
        plim_graph *old = m->graph;
        m->graph = r.to;
        r.to = old;
    }
    plim__graph_free(&r.to);
    plim__free(&a, r.map);
    plim__free(&a, r.narrow);
    plim__free(&a, saved);
    plim__free(&a, in);
    return status;
}
