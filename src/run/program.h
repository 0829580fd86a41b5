/* What front ends need to declare results. */
#ifndef PLIM_RUN_PROGRAM_H
#define PLIM_RUN_PROGRAM_H

#include "graph/graph.h"

/** Makes *v a value that can be declared a result: one that is an input, a constant or a result already gets a node of its own, because what is
 *  written is always made. */
plim_status plim__own_output(plim_graph *g, uint32_t *v, plim_error *err);

#endif
