/* New safetensors files (the format: safetensors.h), of any size, from tensors that are read by pieces.
 *
 * The header is padded with blanks so that the data begins at a multiple of 4096. Since the format allows no gaps between tensors, those with larger
 * elements come first, each kind in the order of the list: every element lies at a multiple of its own size. */
#ifndef PLIM_FORMATS_SAFETENSORS_WRITE_H
#define PLIM_FORMATS_SAFETENSORS_WRITE_H

#include "core/alloc.h"
#include "formats/safetensors.h"
#include "formats/tensor_reader.h"

typedef struct plim__tensor_spec {
    const char *name; /* UTF-8 */
    plim_dtype dtype;
    plim_shape shape;
} plim__tensor_spec;

/** Whether a file can hold these: names that differ, are UTF-8 and are not the format's own; sizes that can be written down.
 *  @param path  for messages */
plim_status plim__safetensors_check(const char *path, const plim__tensor_spec *tensor, uint32_t n, plim__alloc alloc, plim_error *err);

/** Writes the file; at `path` it is there whole or not at all.
 *  @param text    the metadata: keys that differ, UTF-8; none (n_texts 0): the header has no such member
 *  @param reader  tensor i of the list is its index i; without a function nothing is written, but all is checked: the place and the space, too */
plim_status plim__safetensors_write(const plim__os *os, const char *path, const plim__tensor_spec *tensor, uint32_t n,
                                    const plim__safetensors_text *text, uint32_t n_texts, plim__tensor_reader reader, plim__alloc alloc,
                                    plim_error *err);

#endif
