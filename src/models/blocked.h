/* A model's convolutions on arrays in blocks of 16 channels, [N, C/16, H, W, 16], on which they are several times as fast. To everything else such
 * an array is one more array: what lies between two convolutions stays in blocks, and only what needs the channels in a row is turned back. */
#ifndef PLIM_MODELS_BLOCKED_H
#define PLIM_MODELS_BLOCKED_H

#include "models/model.h"

/** Plays the model's graph into a new one, before gradients are added to it. Weights get another form (plim__param.form).
 *  @param trained  gradients will be */
plim_status plim__model_block(plim__model *m, bool trained, plim_error *err);

#endif
