/* What front ends need to declare inputs and results. */
#ifndef PLIM_SESSION_PROGRAM_H
#define PLIM_SESSION_PROGRAM_H

#include "graph/graph.h"
#include "os/os.h"

/** Makes *v a value that can be declared a result: one that is an input, a constant or a result already gets a node of its own, because what is
 *  written is always made. */
plim_status plim__own_output(plim_graph *g, uint32_t *v, plim_error *err);

/** Adds an array file as an input; only its header is read, unless it is compressed.
 *  @param unpacked  NULL before; then where a compressed one was unpacked to, also on failure: to be dropped when nobody reads it any more */
plim_status plim__graph_input(plim_graph *g, const plim__os *os, const plim_binding *in, const plim_settings *set, plim__tempfile **unpacked,
                              uint32_t *value, plim_error *err);

#endif
