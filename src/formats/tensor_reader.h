/* Where the bytes of tensors come from when a file of them is written: parameters that are being trained lie in an arena, in files, or are still to
 * be made, and never in one piece. */
#ifndef PLIM_FORMATS_TENSOR_READER_H
#define PLIM_FORMATS_TENSOR_READER_H

#include "core/error.h"

/** Bytes of a parameter (or other tensor) by pieces, wherever they are. Pieces begin and end between elements; a writer asks for those of a tensor
 *  in order, from its first byte to its last. */
typedef struct plim__tensor_reader {
    void *ctx;
    /** Bytes [offset, offset + n) of tensor `index`, dense, C order, in the byte order of this machine. */
    plim_status (*read)(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err);
} plim__tensor_reader;

#endif
