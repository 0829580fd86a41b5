/* Values and nodes in flat arrays. plim__graph_apply is the only way to make a node: it asks the op's row to infer and check,
 * then appends. Nodes refer only to values that exist already, so the arrays are in topological order and there are no cycles. */
#include "graph/graph.h"
#include "core/dtype.h"
#include "core/size.h"
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

plim_status plim__graph_new(plim_graph **out, plim__alloc alloc, plim_error *err)
{
    *out = plim__new(&alloc, 1, sizeof **out, err);
    if (!*out) return PLIM_E_NOMEM;
    (*out)->alloc = alloc;
    return PLIM_OK;
}

void plim__graph_free(plim_graph **gp)
{
    plim_graph *g = *gp;
    if (!g) return;
    const plim__alloc a = g->alloc;
    for (uint32_t i = 0; i < g->n_values; i++)
        if (g->value[i].kind == PLIM__VALUE_CONST) plim__free(&a, (void *)g->value[i].data);
    for (uint32_t i = 0; i < g->n_nodes; i++) plim__free(&a, g->node[i].in);
    for (uint32_t i = 0; i < g->n_sources; i++) plim__free(&a, g->source[i].path);
    for (uint32_t i = 0; i < g->n_outputs; i++) plim__free(&a, g->output[i].path);
    plim__free(&a, g->value);
    plim__free(&a, g->node);
    plim__free(&a, g->source);
    plim__free(&a, g->output);
    plim__free(&a, g->state);
    plim__free(&a, g->seen);
    plim__free(&a, g);
    *gp = NULL;
}

/* Appends a value of a checked size. */
static plim_status add_value(plim_graph *g, const plim__value *proto, uint32_t *out, plim_error *err)
{
    plim__value v = *proto;
    PLIM_ASSERT((v.kind == PLIM__VALUE_NODE) == (v.node != PLIM__NONE) && (v.kind == PLIM__VALUE_FILE) == (v.source != PLIM__NONE));
    PLIM_ASSERT((v.kind == PLIM__VALUE_CONST) == (v.data != NULL)); /* a constant without elements has memory, too */
    PLIM_TRY(plim_shape_bytes(&v.bytes, &v.shape, v.dtype, err));
    PLIM_TRY(plim__grow(&g->alloc, (void **)&g->value, &g->cap_values, g->n_values + 1, sizeof *g->value, err));
    *out = g->n_values;
    g->value[g->n_values++] = v;
    return PLIM_OK;
}

plim_status plim__graph_file(plim_graph *g, const char *name, plim_dtype dtype, const plim_shape *shape, const plim__source *source,
                             uint32_t *out, plim_error *err)
{
    PLIM_TRY(plim__grow(&g->alloc, (void **)&g->source, &g->cap_sources, g->n_sources + 1, sizeof *g->source, err));
    plim__source s = *source;
    s.path = plim__strdup(&g->alloc, source->path, err);
    if (!s.path) return PLIM_E_NOMEM;
    plim__value v = {.kind = PLIM__VALUE_FILE, .dtype = dtype, .shape = *shape, .node = PLIM__NONE, .source = g->n_sources};
    snprintf(v.name, sizeof v.name, "%s", name);
    const plim_status status = add_value(g, &v, out, err);
    if (status != PLIM_OK) {
        plim__free(&g->alloc, s.path);
        return status;
    }
    g->source[g->n_sources++] = s;
    return PLIM_OK;
}

/* An equal constant that is there already: literals are often repeated, and equal ids make equal nodes. */
static uint32_t find_const(const plim_graph *g, const plim__value *v, const void *data)
{
    for (uint32_t i = 0; i < g->n_values; i++) {
        const plim__value *c = &g->value[i];
        if (c->kind == PLIM__VALUE_CONST && c->dtype == v->dtype && plim__shape_equal(&c->shape, &v->shape) && c->bytes <= 64 &&
            memcmp(c->data, data, c->bytes) == 0)
            return i;
    }
    return PLIM__NONE;
}

plim_status plim__graph_const(plim_graph *g, plim_dtype dtype, const plim_shape *shape, const void *data, uint32_t *out, plim_error *err)
{
    plim__value v = {.kind = PLIM__VALUE_CONST, .dtype = dtype, .shape = *shape, .node = PLIM__NONE, .source = PLIM__NONE};
    uint64_t bytes;
    PLIM_TRY(plim_shape_bytes(&bytes, shape, dtype, err));
    *out = find_const(g, &v, data);
    if (*out != PLIM__NONE) return PLIM_OK;
    void *copy = plim__new(&g->alloc, bytes ? bytes : 1, 1, err);
    if (!copy) return err ? err->code : PLIM_E_NOMEM;
    memcpy(copy, data, bytes);
    v.data = copy;
    snprintf(v.name, sizeof v.name, "constant");
    const plim_status status = add_value(g, &v, out, err);
    if (status != PLIM_OK) plim__free(&g->alloc, copy);
    return status;
}

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p; /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_node(const plim__node *n)
{
    uint64_t h = hash_bytes(0xcbf29ce484222325u, &n->op, sizeof n->op);
    h = hash_bytes(h, n->in, n->n_in * sizeof *n->in);
    return hash_bytes(h, &n->attr, sizeof n->attr);
}

static bool same_node(const plim__node *a, const plim__node *b)
{
    return a->op == b->op && a->n_in == b->n_in && memcmp(a->in, b->in, a->n_in * sizeof *a->in) == 0 && memcmp(&a->attr, &b->attr, sizeof a->attr) == 0;
}

/* Where the node is in the table, or where it would go. */
static uint32_t *place_of(const plim_graph *g, const plim__node *n)
{
    PLIM_ASSERT((g->cap_seen & (g->cap_seen - 1)) == 0 && 2 * (uint64_t)g->n_nodes <= g->cap_seen); /* so there is a free place, and the search ends */
    uint32_t i = (uint32_t)hash_node(n) & (g->cap_seen - 1);
    while (g->seen[i] != PLIM__NONE && !same_node(&g->node[g->seen[i]], n)) i = (i + 1) & (g->cap_seen - 1);
    return &g->seen[i];
}

static uint32_t find_node(const plim_graph *g, const plim__node *n)
{
    return g->cap_seen ? *place_of(g, n) : PLIM__NONE;
}

/* Room for one more node in the table, which is never more than half full. */
static plim_status grow_seen(plim_graph *g, plim_error *err)
{
    if (2 * (g->n_nodes + 1) <= g->cap_seen) return PLIM_OK;
    const uint32_t cap = g->cap_seen ? 2 * g->cap_seen : 64;
    uint32_t *seen = plim__new(&g->alloc, cap, sizeof *seen, err);
    if (!seen) return PLIM_E_NOMEM;
    memset(seen, 0xff, cap * sizeof *seen);
    plim__free(&g->alloc, g->seen);
    g->seen = seen;
    g->cap_seen = cap;
    for (uint32_t i = 0; i < g->n_nodes; i++) *place_of(g, &g->node[i]) = i;
    return PLIM_OK;
}

static plim_status append_node(plim_graph *g, plim__node *n, const plim__type *type, plim_error *err)
{
    PLIM_TRY(plim__grow(&g->alloc, (void **)&g->node, &g->cap_nodes, g->n_nodes + 1, sizeof *g->node, err));
    PLIM_TRY(grow_seen(g, err));
    const uint32_t values_before = g->n_values;
    for (uint32_t j = 0; j < n->n_out; j++) {
        plim__value v = {.kind = PLIM__VALUE_NODE, .dtype = type[j].dtype, .shape = type[j].shape, .node = g->n_nodes, .out = j,
                         .source = PLIM__NONE};
        snprintf(v.name, sizeof v.name, "%s", plim__op_row_of(n->op)->name);
        const plim_status status = add_value(g, &v, &n->out[j], err);
        if (status != PLIM_OK) {
            g->n_values = values_before;
            return status;
        }
    }
    *place_of(g, n) = g->n_nodes;
    g->node[g->n_nodes++] = *n;
    return PLIM_OK;
}

plim_status plim__graph_copy_value(plim_graph *g, const plim_graph *from, uint32_t v, uint32_t *out, plim_error *err)
{
    const plim__value *x = &from->value[v];
    if (x->kind == PLIM__VALUE_CONST) return plim__graph_const(g, x->dtype, &x->shape, x->data, out, err);
    if (x->kind == PLIM__VALUE_FILE) return plim__graph_file(g, x->name, x->dtype, &x->shape, &from->source[x->source], out, err);
    return PLIM_OK;
}

plim_status plim__graph_apply(plim_graph *g, uint32_t op, const uint32_t *in, uint32_t n_in, const plim__attr *attr,
                              uint32_t out[PLIM__MAX_OUT], plim_error *err)
{
    const plim__op_row *row = plim__op_row_of(op);
    PLIM_FAIL_IF(!row, err, PLIM_E_INVALID, "unknown op %u", op);
    for (uint32_t k = 0; k < n_in; k++)
        PLIM_FAIL_IF(in[k] >= g->n_values, err, PLIM_E_INVALID, "%s: input %u is not a value of this graph", row->name, k);

    plim__node n = {.op = op, .n_in = n_in, .attr = *attr, .tag = g->tag, .backward = g->backward};
    n.in = plim__new(&g->alloc, n_in ? n_in : 1, sizeof *n.in, err);
    if (!n.in) return PLIM_E_NOMEM;
    memcpy(n.in, in, n_in * sizeof *in);

    plim__type type[PLIM__MAX_OUT] = {0};
    plim_status status = row->infer(g, &n, type, err);
    uint32_t id = PLIM__NONE;
    if (status == PLIM_OK) {
        PLIM_ASSERT(n.n_out >= 1 && n.n_out <= PLIM__MAX_OUT);
        id = find_node(g, &n);
        PLIM_ASSERT(id == PLIM__NONE || g->node[id].n_out == n.n_out); /* equal applications infer the same */
        if (id == PLIM__NONE) {
            status = append_node(g, &n, type, err);
            if (status == PLIM_OK) id = g->n_nodes - 1;
        }
    }
    if (id == PLIM__NONE || g->node[id].in != n.in) plim__free(&g->alloc, n.in);
    if (status == PLIM_OK && out) memcpy(out, g->node[id].out, sizeof g->node[id].out);
    return status;
}

plim_status plim__graph_output(plim_graph *g, uint32_t value, const char *name, const char *path, plim_error *err)
{
    PLIM_FAIL_IF(value >= g->n_values, err, PLIM_E_INVALID, "output '%s' is not a value of this graph", name);
    PLIM_TRY(plim__grow(&g->alloc, (void **)&g->output, &g->cap_outputs, g->n_outputs + 1, sizeof *g->output, err));
    plim__output o = {.value = value, .count = PLIM__NONE};
    snprintf(o.name, sizeof o.name, "%s", name);
    if (path) {
        o.path = plim__strdup(&g->alloc, path, err);
        if (!o.path) return PLIM_E_NOMEM;
    }
    g->output[g->n_outputs++] = o;
    return PLIM_OK;
}

plim_status plim__graph_output_counted(plim_graph *g, uint32_t value, uint32_t count, const char *name, const char *path, plim_error *err)
{
    PLIM_FAIL_IF(count >= g->n_values || g->value[count].dtype != PLIM_I64 || g->value[count].shape.rank != 0, err, PLIM_E_INVALID,
                 "the count of output '%s' is not an i64 scalar of this graph", name);
    PLIM_TRY(plim__graph_output(g, count, name, NULL, err));
    g->output[g->n_outputs - 1].hidden = true;
    PLIM_TRY(plim__graph_output(g, value, name, path, err));
    PLIM_ASSERT(g->output[g->n_outputs - 2].value == count && !g->output[g->n_outputs - 2].path); /* a count stays in memory, right before what it counts */
    g->output[g->n_outputs - 1].count = g->n_outputs - 2;
    return PLIM_OK;
}

plim_status plim__graph_state(plim_graph *g, uint32_t in, uint32_t out, plim_error *err)
{
    PLIM_FAIL_IF(in >= g->n_values || out >= g->n_values || g->value[in].kind != PLIM__VALUE_FILE, err, PLIM_E_INVALID,
                 "state: an input and a value of this graph are needed");
    const plim__value *a = &g->value[in], *b = &g->value[out];
    PLIM_FAIL_IF(a->dtype != b->dtype || !plim__shape_equal(&a->shape, &b->shape), err, PLIM_E_TYPE,
                 "state: '%s' and what takes its place are of different types", a->name);
    PLIM_TRY(plim__grow(&g->alloc, (void **)&g->state, &g->cap_states, g->n_states + 1, sizeof *g->state, err));
    g->state[g->n_states++] = (plim__state){in, out};
    return PLIM_OK;
}
