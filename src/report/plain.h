/* The plain way to run a graph: node after node, every value whole, in memory of its own from the node that makes it to the last that reads it. It is
 * what eager frameworks do, and what a plan is compared with. */
#ifndef PLIM_REPORT_PLAIN_H
#define PLIM_REPORT_PLAIN_H

#include "graph/graph.h"

/** Where memory is highest. */
typedef struct plim__plain {
    uint64_t bytes; /* of the values alive there */
    uint32_t node;  /* PLIM__NONE: there are no nodes */
} plim__plain;

/** Whose elements each value shows: its own id, or the value that it is a view of (PLIM__OP_VIEW), through views of views.
 *  @param root  one per value */
void plim__storage_of(const plim_graph *g, uint32_t *root);

/** The most bytes of values alive at one node, in the graph's order. Inputs are alive from the start to their last reader, constants and results from
 *  where they are made to the end; views have no bytes, but keep what they show. Linear in the nodes and what they read.
 *  @param apart  one per value: counted by the caller, and not here */
plim_status plim__plain_peak(plim__plain *out, const plim_graph *g, const bool *apart, plim_error *err);

#endif
