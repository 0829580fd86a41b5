/* The data that parameters begin with, by pieces: from the file that a parameter is bound to, or made as its `init` says.
 *
 * What is made depends on the seed, the parameter's number and the element's position, and on nothing else: any piece can be made on its own, in any
 * order, and again. Numbers come from the generator of kernels/random.h, in streams of their own (those of the graph's ops have small numbers). */
#ifndef PLIM_MODELS_PARAM_INIT_H
#define PLIM_MODELS_PARAM_INIT_H

#include "formats/tensor_reader.h"
#include "models/model.h"
#include "os/os.h"

/** Parameters being filled. Keeps the file that was read last open, so that pieces do not open it anew. One thread at a time. */
typedef struct plim__param_filler {
    const plim__model *model;
    const plim__os *os;
    uint64_t seed;
    int fd;                     /* -1: none is open */
    const plim__source *source; /* of the open file: the graph's */
} plim__param_filler;

/** @param m  not modified; its graph stays the same one until the filler is closed */
void plim__param_filler_open(plim__param_filler *f, const plim__model *m, const plim__os *os, uint64_t seed);
/** Elements [first, first + n) of parameter `param`, C order, in the byte order of this machine.
 *  @return PLIM_E_CHANGED where its file is not what it was when the model was read; PLIM_E_TYPE where numbers of its dtype cannot be drawn
 *  @param out  n elements */
plim_status plim__param_fill(plim__param_filler *f, uint32_t param, uint64_t first, void *out, uint64_t n, plim_error *err);
/** To be called after a failure, too. @return PLIM_E_CHANGED where the open file changed while it was read */
plim_status plim__param_filler_close(plim__param_filler *f, plim_error *err);
/** The same as a reader of bytes; its index is the parameter's. */
plim__tensor_reader plim__param_filler_reader(plim__param_filler *f);

#endif
