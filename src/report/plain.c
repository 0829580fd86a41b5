#include "report/plain.h"
#include "core/size.h"
#include "graph/op.h"

#include <string.h>

void plim__storage_of(const plim_graph *g, uint32_t *root)
{
    for (uint32_t v = 0; v < g->n_values; v++) root[v] = v; /* values that no node makes */
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        if (plim__op_row_of(n->op)->flags & PLIM__OP_VIEW) root[n->out[0]] = root[n->in[0]];
    }
}

/* The lives of values: root[v] is where v's elements are, last[v] the last node that reads them, for a v that is its own root. */
typedef struct lives {
    const plim_graph *g;
    const bool *apart;
    uint32_t *root, *last;
    uint64_t live;
} lives;

static void find_last(lives *l)
{
    const plim_graph *g = l->g;
    memset(l->last, 0xff, g->n_values * sizeof *l->last); /* PLIM__NONE: nobody reads it, or its life has no end */
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        for (uint32_t j = 0; j < n->n_out; j++)
            if (l->root[n->out[j]] == n->out[j]) l->last[n->out[j]] = i;
        for (uint32_t k = 0; k < n->n_in; k++) l->last[l->root[n->in[k]]] = i;
    }
}

static plim_status begin(lives *l, uint32_t v, plim_error *err)
{
    if (l->apart[v] || l->root[v] != v) return PLIM_OK;
    PLIM_FAIL_IF(!plim__add(&l->live, l->live, l->g->value[v].bytes), err, PLIM_E_OVERFLOW, "values alive together have more than 2**64 bytes");
    return PLIM_OK;
}

/* Ends the life of what v shows, if node i is the last to read it; a second call for the same node changes nothing. */
static void end(lives *l, uint32_t v, uint32_t i)
{
    const uint32_t r = l->root[v];
    if (l->last[r] != i || l->apart[r]) return;
    l->live -= l->g->value[r].bytes;
    l->last[r] = PLIM__NONE;
}

static plim_status walk(lives *l, plim__plain *out, plim_error *err)
{
    const plim_graph *g = l->g;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].kind == PLIM__VALUE_NODE || l->last[v] == PLIM__NONE) continue;
        PLIM_TRY(begin(l, v, err));
        if (g->value[v].kind == PLIM__VALUE_CONST) l->last[v] = PLIM__NONE;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) l->last[l->root[g->output[i].value]] = PLIM__NONE;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        for (uint32_t j = 0; j < n->n_out; j++) PLIM_TRY(begin(l, n->out[j], err));
        if (l->live > out->bytes || out->node == PLIM__NONE) *out = (plim__plain){.bytes = l->live, .node = i};
        for (uint32_t k = 0; k < n->n_in; k++) end(l, n->in[k], i);
        for (uint32_t j = 0; j < n->n_out; j++) end(l, n->out[j], i);
    }
    return PLIM_OK;
}

plim_status plim__plain_peak(plim__plain *out, const plim_graph *g, const bool *apart, plim_error *err)
{
    *out = (plim__plain){.node = PLIM__NONE};
    lives l = {.g = g, .apart = apart};
    l.root = plim__new(&g->alloc, g->n_values, sizeof *l.root, err);
    l.last = plim__new(&g->alloc, g->n_values, sizeof *l.last, err);
    plim_status status = l.root && l.last ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        plim__storage_of(g, l.root);
        find_last(&l);
        status = walk(&l, out, err);
    }
    plim__free(&g->alloc, l.root);
    plim__free(&g->alloc, l.last);
    return status;
}
