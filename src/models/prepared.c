/* The nodes that are taken out become a graph of their own. Making it goes through its nodes in order: a parameter is read when it is first needed, and
 * memory is given back after the last use, so that only what is alive is there; how much that is, is known beforehand. */
#include "models/prepared.h"
#include "core/size.h"
#include "graph/whole.h"

#include <string.h>

#define MOST_EACH (64u << 10)  /* bytes of a value */
#define MOST_ALIVE (1u << 20)  /* bytes of all that are alive */

typedef struct splitter {
    plim__model *m;
    const plim_graph *from;
    plim_graph *to;
    uint32_t *param;          /* per old value: the parameter that it is, or PLIM__NONE */
    bool *known;              /* per old value: follows from parameters and constants alone */
    uint32_t *there, *taken;  /* per old value: the new one, and the one in the graph apart; PLIM__NONE */
    uint32_t *in;             /* scratch */
    plim__prepared p;
    plim_error *err;
} splitter;

/* --------------------------------------------------------------------------------------------------------------- splitting */

static void find_known(splitter *s)
{
    const plim_graph *g = s->from;
    for (uint32_t i = 0; i < s->m->n_params; i++) {
        const plim__param *p = &s->m->param[i];
        if (p->form.kind != PLIM__FORM_PLAIN || p->update != PLIM__NONE) continue;
        s->param[p->value] = i;
        s->known[p->value] = g->value[p->value].bytes <= MOST_EACH;
    }
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->value[v].kind == PLIM__VALUE_CONST) s->known[v] = g->value[v].bytes <= MOST_EACH;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        bool known = true;
        for (uint32_t k = 0; k < n->n_in; k++) known = known && s->known[n->in[k]];
        for (uint32_t j = 0; j < n->n_out; j++) known = known && g->value[n->out[j]].bytes <= MOST_EACH;
        for (uint32_t j = 0; j < n->n_out; j++) s->known[n->out[j]] = known;
    }
}

static bool is_taken(const splitter *s, const plim__node *n) { return s->known[n->out[0]]; }

static plim_status copy_node(plim_graph *to, const plim__node *n, uint32_t *map, uint32_t *in, plim_error *err)
{
    uint32_t made[PLIM__MAX_OUT];
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = map[n->in[k]];
    to->tag = n->tag;
    PLIM_TRY(plim__graph_apply(to, n->op, in, n->n_in, &n->attr, made, err));
    for (uint32_t j = 0; j < n->n_out; j++) map[n->out[j]] = made[j];
    return PLIM_OK;
}

/* What is taken out and read by what is left, or a result, comes back as an input. */
static plim_status come_back(splitter *s, uint32_t old)
{
    if (s->there[old] != PLIM__NONE) return PLIM_OK;
    uint32_t *back = &s->p.to[s->taken[old]];
    const plim__value *v = &s->from->value[old];
    plim__source source = {.stay = PLIM__STAY_MEMORY, .path = (char *)""};
    int64_t stride = 1;
    for (uint32_t d = v->shape.rank; d-- > 0; stride *= v->shape.dim[d]) source.stride[d] = stride;
    if (*back == PLIM__NONE) PLIM_TRY(plim__graph_file(s->to, s->m->layer[s->from->node[v->node].tag].name, v->dtype, &v->shape, &source, back, s->err));
    s->there[old] = *back;
    s->p.some = true;
    return PLIM_OK;
}

static plim_status take_node(splitter *s, const plim__node *n)
{
    for (uint32_t k = 0; k < n->n_in; k++)
        if (s->taken[n->in[k]] == PLIM__NONE) PLIM_TRY(plim__graph_copy_value(s->p.graph, s->from, n->in[k], &s->taken[n->in[k]], s->err));
    return copy_node(s->p.graph, n, s->taken, s->in, s->err);
}

static plim_status leave_node(splitter *s, const plim__node *n)
{
    for (uint32_t k = 0; k < n->n_in; k++)
        if (s->from->value[n->in[k]].kind == PLIM__VALUE_NODE) PLIM_TRY(come_back(s, n->in[k]));
    return copy_node(s->to, n, s->there, s->in, s->err);
}

static plim_status split(splitter *s)
{
    const plim_graph *g = s->from;
    for (uint32_t v = 0; v < g->n_values; v++) PLIM_TRY(plim__graph_copy_value(s->to, g, v, &s->there[v], s->err));
    for (uint32_t i = 0; i < g->n_nodes; i++) PLIM_TRY(is_taken(s, &g->node[i]) ? take_node(s, &g->node[i]) : leave_node(s, &g->node[i]));
    for (uint32_t i = 0; i < s->m->n_outputs; i++)
        if (g->value[s->m->output[i].value].kind == PLIM__VALUE_NODE) PLIM_TRY(come_back(s, s->m->output[i].value));
    for (uint32_t v = 0; v < g->n_values; v++)
        if (s->taken[v] != PLIM__NONE && g->value[v].kind == PLIM__VALUE_FILE) s->p.param[s->taken[v]] = s->param[v];
    return PLIM_OK;
}

static void rename_all(splitter *s)
{
    plim__model *m = s->m;
    for (uint32_t i = 0; i < m->n_inputs; i++) m->input[i].value = s->there[m->input[i].value];
    for (uint32_t i = 0; i < m->n_outputs; i++) m->output[i].value = s->there[m->output[i].value];
    for (uint32_t i = 0; i < m->n_params; i++) {
        m->param[i].value = s->there[m->param[i].value];
        if (m->param[i].update != PLIM__NONE) m->param[i].update = s->there[m->param[i].update];
    }
    if (m->seed != PLIM__NONE) m->seed = s->there[m->seed];
}

/* Parameters that only what was taken out has read. */
static plim_status let_go(const plim__model *m, plim_error *err)
{
    const plim_graph *g = m->graph;
    bool *used = plim__new(&g->alloc, g->n_values, sizeof *used, err);
    if (!used) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) used[g->node[i].in[k]] = true;
    for (uint32_t i = 0; i < m->n_outputs; i++) used[m->output[i].value] = true;
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->value[v].kind == PLIM__VALUE_FILE && g->source[g->value[v].source].stay == PLIM__STAY_MAY && !used[v])
            g->source[g->value[v].source].stay = PLIM__STAY_FILE;
    plim__free(&g->alloc, used);
    return PLIM_OK;
}

static plim_status new_tables(splitter *s)
{
    const plim__alloc *a = &s->from->alloc;
    const uint32_t values = s->from->n_values;
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->from->n_nodes; i++) most = s->from->node[i].n_in > most ? s->from->node[i].n_in : most;
    s->param = plim__new(a, values, sizeof *s->param, s->err);
    s->known = plim__new(a, values, sizeof *s->known, s->err);
    s->there = plim__new(a, values, sizeof *s->there, s->err);
    s->taken = plim__new(a, values, sizeof *s->taken, s->err);
    s->in = plim__new(a, most, sizeof *s->in, s->err);
    s->p.param = plim__new(a, values, sizeof *s->p.param, s->err); /* values of the graph apart: no more than there were */
    s->p.to = plim__new(a, values, sizeof *s->p.to, s->err);
    uint32_t *none[] = {s->param, s->there, s->taken, s->p.param, s->p.to};
    if (!s->known || !s->in) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < sizeof none / sizeof *none; i++) {
        if (!none[i]) return PLIM_E_NOMEM;
        memset(none[i], 0xff, values * sizeof **none);
    }
    PLIM_TRY(plim__graph_new(&s->to, *a, s->err));
    return plim__graph_new(&s->p.graph, *a, s->err);
}

/* ------------------------------------------------------------------------------------------------------------------ making */

typedef struct maker {
    const plim__prepared *p;
    plim__param_filler *from; /* NULL: nothing is made, only counted */
    plim__prepared_put *put;
    void *ctx;
    plim__alloc alloc;
    void **data;              /* per value: its memory, NULL while it is not alive */
    bool *alive;
    uint32_t *uses;           /* per value: how often it will be read from now on */
    uint64_t bytes, most;     /* that are alive, and were */
    plim_error *err;
} maker;

static plim_status open_maker(maker *k)
{
    const plim_graph *g = k->p->graph;
    k->alloc = g->alloc;
    k->data = plim__new(&k->alloc, g->n_values, sizeof *k->data, k->err);
    k->alive = plim__new(&k->alloc, g->n_values, sizeof *k->alive, k->err);
    k->uses = plim__new(&k->alloc, g->n_values, sizeof *k->uses, k->err);
    if (!k->data || !k->alive || !k->uses) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->node[i].n_in; j++) k->uses[g->node[i].in[j]]++;
    return PLIM_OK;
}

static void close_maker(maker *k)
{
    for (uint32_t v = 0; k->data && v < k->p->graph->n_values; v++)
        if (k->p->graph->value[v].kind != PLIM__VALUE_CONST) plim__free(&k->alloc, k->data[v]);
    plim__free(&k->alloc, k->data);
    plim__free(&k->alloc, k->alive);
    plim__free(&k->alloc, k->uses);
}

/* Memory for a value, and what is in it, unless a node makes that. */
static plim_status begin(maker *k, uint32_t v)
{
    const plim__value *x = &k->p->graph->value[v];
    if (k->alive[v]) return PLIM_OK;
    k->alive[v] = true;
    k->bytes += x->bytes;
    k->most = k->bytes > k->most ? k->bytes : k->most;
    if (!k->from) return PLIM_OK;
    k->data[v] = x->kind == PLIM__VALUE_CONST ? (void *)(uintptr_t)x->data : plim__new(&k->alloc, x->bytes, 1, k->err);
    if (!k->data[v]) return PLIM_E_NOMEM;
    if (x->kind != PLIM__VALUE_FILE) return PLIM_OK;
    return plim__param_fill(k->from, k->p->param[v], 0, k->data[v], x->bytes / plim_dtype_bytes(x->dtype), k->err);
}

static void end(maker *k, uint32_t v)
{
    const plim__value *x = &k->p->graph->value[v];
    if (!k->alive[v] || k->uses[v] > 0) return;
    k->alive[v] = false;
    k->bytes -= x->bytes;
    if (x->kind != PLIM__VALUE_CONST) plim__free(&k->alloc, k->data[v]);
    k->data[v] = NULL;
}

static plim_status make_node(maker *k, const plim__node *n)
{
    for (uint32_t j = 0; j < n->n_in; j++) PLIM_TRY(begin(k, n->in[j]));
    for (uint32_t j = 0; j < n->n_out; j++) PLIM_TRY(begin(k, n->out[j]));
    if (k->from) PLIM_TRY(plim__node_run_whole(k->p->graph, n, k->data, &k->alloc, k->err));
    for (uint32_t j = 0; j < n->n_out && k->from; j++)
        if (k->p->to[n->out[j]] != PLIM__NONE) PLIM_TRY(k->put(k->ctx, k->p->to[n->out[j]], k->data[n->out[j]], k->err));
    for (uint32_t j = 0; j < n->n_in; j++) k->uses[n->in[j]]--;
    for (uint32_t j = 0; j < n->n_in; j++) end(k, n->in[j]);
    for (uint32_t j = 0; j < n->n_out; j++) end(k, n->out[j]);
    return PLIM_OK;
}

static plim_status make_all(maker *k)
{
    plim_status status = open_maker(k);
    for (uint32_t i = 0; i < k->p->graph->n_nodes && status == PLIM_OK; i++) status = make_node(k, &k->p->graph->node[i]);
    close_maker(k);
    return status;
}

plim_status plim__prepared_make(const plim__model *m, plim__param_filler *from, plim__prepared_put *put, void *ctx, plim_error *err)
{
    return m->prepared.some ? make_all(&(maker){.p = &m->prepared, .from = from, .put = put, .ctx = ctx, .err = err}) : PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------------------- the whole */

plim_status plim__model_prepare(plim__model *m, plim_error *err)
{
    const plim__alloc a = m->graph->alloc;
    splitter s = {.m = m, .from = m->graph, .err = err};
    maker count = {.p = &s.p, .err = err};
    plim_status status = new_tables(&s);
    if (status == PLIM_OK) {
        find_known(&s);
        status = split(&s);
    }
    if (status == PLIM_OK && s.p.some) status = make_all(&count);
    if (status == PLIM_OK && s.p.some && count.most <= MOST_ALIVE) {
        rename_all(&s);
        plim_graph *old = m->graph;
        m->graph = s.to;
        s.to = old;
        m->prepared = s.p;
        s.p = (plim__prepared){0};
        status = let_go(m, err);
    }
    plim__graph_free(&s.to);
    plim__prepared_free(&s.p, &a);
    uint32_t *tables[] = {s.param, s.there, s.taken, s.in};
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) plim__free(&a, tables[i]);
    plim__free(&a, s.known);
    return status;
}
