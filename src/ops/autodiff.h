/* Gradients: nodes that are added to a graph behind the nodes that they belong to. */
#ifndef PLIM_OPS_AUTODIFF_H
#define PLIM_OPS_AUTODIFF_H

#include "graph/op.h"

/** Adds the gradient of `loss` (a float scalar) with respect to each of `with` (floats), walking the nodes backwards once. The new nodes have the
 *  tags of the nodes that they are the gradient of.
 *  @param out  one value per `with`: same shape and dtype; PLIM__NONE where the loss does not depend on it
 *  Fails with PLIM_E_UNSUPPORTED, naming the op, where a gradient would have to pass a row that has none. */
plim_status plim__graph_gradients(plim_graph *g, uint32_t loss, const uint32_t *with, uint32_t n, uint32_t *out, plim_error *err);

#endif
