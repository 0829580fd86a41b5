/* A trained copy of a .keras archive or an .h5 file. */
#ifndef PLIM_MODELS_KERAS_SAVE_H
#define PLIM_MODELS_KERAS_SAVE_H

#include "formats/tensor_reader.h"
#include "models/model.h"
#include "os/os.h"

/** @param m       read from `model_path`, an archive or an HDF5 file
 *  @param reader  by the parameters' numbers; without a function nothing is written, but all is checked: the place and the space, too */
plim_status plim__keras_save(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *model_path,
                             const char *out_path, plim_error *err);

#endif
