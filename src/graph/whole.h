/* One node at a time, over its whole loop nest and on one thread: for values that are small and wanted before anything is planned or run. */
#ifndef PLIM_GRAPH_WHOLE_H
#define PLIM_GRAPH_WHOLE_H

#include "graph/graph.h"

/** @param data  per value of the graph: its memory, dense in C order; those of the node's operands and outputs are used */
plim_status plim__node_run_whole(const plim_graph *g, const plim__node *n, void *const *data, const plim__alloc *a, plim_error *err);

#endif
