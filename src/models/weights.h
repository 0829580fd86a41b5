/* A model's parameters from a file of weights, and back into one.
 *
 *   *.safetensors      any model: its parameters by their names (plim__param.name, which have to differ)
 *   *.onnx             a model read from ONNX: a copy of it
 *   *.keras, *.h5      a model read from such a file: a copy of it */
#ifndef PLIM_MODELS_WEIGHTS_H
#define PLIM_MODELS_WEIGHTS_H

#include "formats/tensor_reader.h"
#include "models/model.h"
#include "os/os.h"

/** Binds every parameter to the tensor of its name in the safetensors file `path`: of its dtype and shape. No data is read. The model is unchanged on
 *  failure; PLIM_E_INVALID names the first that are missing or different, and says how many are.
 *  @param extra  tensors of the file that the model does not have; may be NULL */
plim_status plim__weights_bind(plim__model *m, const plim__os *os, const char *path, uint32_t *extra, plim_error *err);

/** Whether plim__model_save could write `out_path` now: the ending, the names, the files to be copied, the folder and the space in it. For before
 *  training. Nothing remains of it. */
plim_status plim__model_save_check(const plim__model *m, const plim__os *os, const char *model_path, const char *out_path, plim_error *err);
/** Saves the parameters, in the format that the ending of `out_path` says; it is there whole or not at all.
 *  @param reader      gives any parameter by its number in the model; PLIM_E_CHANGED and the like are passed on
 *  @param model_path  what the model was read from, as it was given to the reader */
plim_status plim__model_save(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *model_path, const char *out_path,
                             plim_error *err);

#endif
