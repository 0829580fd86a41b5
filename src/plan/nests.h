/* The loop nests of a graph's nodes, asked of their rows once: the search looks at them thousands of times. */
#ifndef PLIM_PLAN_NESTS_H
#define PLIM_PLAN_NESTS_H

#include "graph/op.h"

typedef struct plim__nests {
    plim__axes *axes;   /* [n_nodes] */
    uint32_t *read0;    /* [n_nodes] where the index expressions of a node's inputs begin, one per dimension */
    plim__index *index;
} plim__nests;

plim_status plim__nests_new(plim__nests *n, const plim_graph *g, const plim__alloc *a, plim_error *err);
void plim__nests_free(plim__nests *n, const plim__alloc *a);

/** How node i indexes the dimensions of its input k. */
static inline const plim__index *plim__nest_reads(const plim__nests *n, const plim_graph *g, uint32_t i, uint32_t k)
{
    uint32_t at = n->read0[i];
    for (uint32_t j = 0; j < k; j++) at += g->value[g->node[i].in[j]].shape.rank;
    return &n->index[at];
}

#endif
