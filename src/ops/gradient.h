/* What gradients are written in. */
#ifndef PLIM_OPS_GRADIENT_H
#define PLIM_OPS_GRADIENT_H

#include "ops/layers.h"

/** The gradient of a value that was broadcast: `dy` summed over what was repeated, in the shape and dtype of `like`. */
plim_status plim__grad_like(plim_graph *g, uint32_t dy, uint32_t like, uint32_t *v, plim_error *err);
/** `dy`, which is what plim__op_reduce over `mask` gives, with the shape of the value `x` again. */
plim_status plim__grad_spread(plim_graph *g, uint32_t dy, uint32_t x, uint32_t mask, uint32_t *v, plim_error *err);

/* the gradients of rows whose files are long enough without them */
plim_status plim__grad_elementwise(plim__gradient *d);
plim_status plim__grad_matmul(plim__gradient *d);
plim_status plim__grad_transpose(plim__gradient *d);
plim_status plim__grad_slice(plim__gradient *d);
plim_status plim__grad_broadcast(plim__gradient *d);
plim_status plim__grad_reshape(plim__gradient *d);
plim_status plim__grad_concat(plim__gradient *d);
plim_status plim__grad_pad(plim__gradient *d);
plim_status plim__grad_take(plim__gradient *d);
plim_status plim__grad_reduce(plim__gradient *d);
plim_status plim__grad_moments(plim__gradient *d);
plim_status plim__grad_scan(plim__gradient *d);

#endif
