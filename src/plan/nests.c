/* Asks every node's row for its loop nest and its index expressions, once per graph, into flat tables. The tables
 * belong to plim__nests (plim__nests_free, also after a failure); const afterwards, so any thread may read them. */
#include "plan/nests.h"

#include <string.h>

plim_status plim__nests_new(plim__nests *n, const plim_graph *g, const plim__alloc *a, plim_error *err)
{
    uint64_t total = 0, inputs = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) inputs += g->node[i].n_in;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) total += plim__in(g, &g->node[i], k)->shape.rank;
    n->axes = plim__new(a, g->n_nodes, sizeof *n->axes, err);
    n->work = plim__new(a, g->n_nodes, sizeof *n->work, err);
    n->in0 = plim__new(a, g->n_nodes, sizeof *n->in0, err);
    n->read0 = plim__new(a, inputs, sizeof *n->read0, err);
    n->index = plim__new(a, total, sizeof *n->index, err);
    if (!n->axes || !n->work || !n->in0 || !n->read0 || !n->index) return PLIM_E_NOMEM;
    uint32_t at = 0, in = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *node = &g->node[i];
        const plim__op_row *row = plim__op_row_of(node->op);
        row->axes(g, node, &n->axes[i]);
        n->work[i] = row->work(g, node);
        PLIM_ASSERT(n->work[i].kernel < PLIM_KERNEL_COUNT && n->work[i].amount > 0);
        n->in0[i] = in;
        for (uint32_t k = 0; k < node->n_in; k++) {
            plim__index index[PLIM_MAX_RANK];
            row->reads(g, node, k, index);
            n->read0[in++] = at;
            memcpy(&n->index[at], index, plim__in(g, node, k)->shape.rank * sizeof *index);
            at += plim__in(g, node, k)->shape.rank;
        }
        PLIM_ASSERT(n->axes[i].n <= PLIM__MAX_AXES && node->n_out >= 1);
    }
    PLIM_ASSERT(in == inputs && at == total); /* the tables are full */
    return PLIM_OK;
}

void plim__nests_free(plim__nests *n, const plim__alloc *a)
{
    plim__free(a, n->axes);
    plim__free(a, n->work);
    plim__free(a, n->in0);
    plim__free(a, n->read0);
    plim__free(a, n->index);
    *n = (plim__nests){0};
}
