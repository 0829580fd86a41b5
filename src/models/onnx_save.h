/* A trained copy of an ONNX model: its file and, where its data lies outside, the files beside it. */
#ifndef PLIM_MODELS_ONNX_SAVE_H
#define PLIM_MODELS_ONNX_SAVE_H

#include "formats/tensor_reader.h"
#include "models/model.h"
#include "os/os.h"

/** Files of external data are copied beside `out_path`, to the same place relative to it; folders on the way have to be there. Refused is a copy that
 *  would replace the original's own data, or that of another model.
 *  @param m       read from `model_path`
 *  @param reader  by the parameters' numbers; without a function nothing is written, but all is checked: the place and the space, too */
plim_status plim__onnx_save(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *model_path,
                            const char *out_path, plim_error *err);

#endif
