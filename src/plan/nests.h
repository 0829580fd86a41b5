/* The loop nests of a graph's nodes, asked of their rows once: the search looks at them thousands of times. */
#ifndef PLIM_PLAN_NESTS_H
#define PLIM_PLAN_NESTS_H

#include "graph/op.h"

typedef struct plim__nests {
    plim__axes *axes;   /* [n_nodes] */
    plim__work *work;   /* [n_nodes] of one iteration */
    uint32_t *in0;      /* [n_nodes] where its inputs begin in read0 */
    uint32_t *read0;    /* per input of a node: where its index expressions begin, one per dimension */
    plim__index *index;
} plim__nests;

plim_status plim__nests_new(plim__nests *n, const plim_graph *g, const plim__alloc *a, plim_error *err);
void plim__nests_free(plim__nests *n, const plim__alloc *a);

/** How node i indexes the dimensions of its input k. */
static inline const plim__index *plim__nest_reads(const plim__nests *n, uint32_t i, uint32_t k) { return &n->index[n->read0[n->in0[i] + k]]; }

#endif
