/* What follows from a model's parameters alone: numbers of batch norms, biases in blocks. Where parameters do not change, it is the same in every run: so
 * it is taken out of the program, made once when they are loaded, and is an input of the program that stays in memory. */
#ifndef PLIM_MODELS_PREPARED_H
#define PLIM_MODELS_PREPARED_H

#include "models/param_init.h"

/** Splits the model's graph. Only small values are prepared, and nothing where too many of them would be needed at the same time.
 *  Parameters that nobody else reads are no inputs that stay any more. */
plim_status plim__model_prepare(plim__model *m, plim_error *err);

/** Where a value goes once it is made: `value` is the graph's. @param bytes  all of it, dense in C order */
typedef plim_status plim__prepared_put(void *ctx, uint32_t value, const void *bytes, plim_error *err);

/** Makes what has been prepared, from the parameters that `from` fills. */
plim_status plim__prepared_make(const plim__model *m, plim__param_filler *from, plim__prepared_put *put, void *ctx, plim_error *err);

#endif
