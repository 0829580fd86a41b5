/* Storing in fewer bits what forward nodes leave for backward nodes: it changes the numbers, so only a user may ask for it. */
#ifndef PLIM_MODELS_NARROW_H
#define PLIM_MODELS_NARROW_H

#include "models/training.h"

typedef struct plim__narrowed {
    uint32_t values;      /* that are kept in fewer bits */
    uint64_t saved_bytes; /* that they would take more as they are */
} plim__narrowed;

/** "f16" or "bf16". */
plim_status plim__narrow_named(plim_dtype *out, const char *name, plim_error *err);
/** Makes the model's graph, a step of training, again, so that backward nodes read large f32 values through `to`: each is converted where it is made, and
 *  back where it is read. Every value of the model and of `t` has a new id afterwards. */
plim_status plim__model_narrow(plim__narrowed *out, plim__model *m, plim__train_graph *t, plim_dtype to, plim_error *err);

#endif
