/* Labels: which dimensions move together. One value, the driver, has its dimensions numbered; the numbers spread through the nodes that
 * index by the same axis, forwards and backwards, until nothing changes. A label is a candidate loop. */
#ifndef PLIM_PLAN_LABELS_H
#define PLIM_PLAN_LABELS_H

#include "plan/nests.h"
#include "plan/plan.h"

typedef struct plim__labels {
    uint32_t n;
    int64_t extent[PLIM__MAX_LOOPS]; /* of the axis with which most of the others divide evenly */
    int64_t grain[PLIM__MAX_LOOPS];  /* how many of its steps are one of the shortest axis that divides evenly; at least 1 */
    double weight[PLIM__MAX_LOOPS]; /* bytes between neighbours in the largest file that has the label: outer loops first */
    int8_t (*axis)[PLIM__MAX_AXES]; /* [n_nodes] label of each axis of each node, -1: none */
    int8_t (*dim)[PLIM_MAX_RANK];   /* [n_values] */
    const plim__nests *nest;
    uint32_t clock;    /* of the spreading: */
    uint32_t *changed; /* [n_values] when a label of it was set last */
    uint32_t *looked;  /* [n_nodes] when its labels were spread last */
} plim__labels;

/** @param nest  of the graph; must outlive the labels */
plim_status plim__labels_new(plim__labels *l, const plim_graph *g, const plim__nests *nest, const plim__alloc *a, plim_error *err);
void plim__labels_free(plim__labels *l, const plim__alloc *a);
/** Labels the nodes with active[node] set, from the largest value that they touch. Extents of 1 get no label.
 *  @param on_file  per value: it is read from, or goes to, a file (preferred as the driver)
 *  @param is_state per value: it is carried from run to run, and so no stream that the program is about; may be NULL: none is */
void plim__labels_spread(plim__labels *l, const plim_graph *g, const bool *active, const bool *on_file, const bool *is_state);

#endif
