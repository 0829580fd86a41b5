/* safetensors files: named tensors, dense, C order, little-endian, in one file behind a header of JSON text.
 *
 *     8 bytes    n, the header's length
 *     n bytes    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"any": "text"}}
 *     the rest   the tensors' bytes, each in [begin, end) counted from here, one behind the other without gaps
 *
 * Opening reads the header and nothing else; it checks all of it, so that what is there afterwards lies inside the file.
 *
 * Thread-safety: what is open is only read; any thread may look for names in it. */
#ifndef PLIM_FORMATS_SAFETENSORS_H
#define PLIM_FORMATS_SAFETENSORS_H

#include "core/alloc.h"
#include "formats/array_file.h"

#define PLIM__SAFETENSORS_METADATA "__metadata__"
/** Bytes of a header: the largest known are a few MiB, and its parsed form is some times larger. */
#define PLIM__SAFETENSORS_HEAD_MAX (UINT64_C(32) << 20)

/** A key and its text in the metadata. */
typedef struct plim__safetensors_text {
    const char *key, *value;
} plim__safetensors_text;

typedef struct plim__safetensor {
    char *name;       /* owned */
    plim_dtype dtype;
    plim_shape shape;
    uint64_t begin, end; /* of its bytes, in the file */
} plim__safetensor;

typedef struct plim__safetensors {
    plim__alloc alloc;
    char *path; /* owned */
    plim__stat stat;
    plim__safetensor *tensor; /* sorted by name */
    uint32_t n_tensors;
    plim__safetensors_text *text; /* the metadata, sorted by key; both texts owned */
    uint32_t n_texts;
} plim__safetensors;

/** @param out  to be given to plim__safetensors_free on success; empty otherwise */
plim_status plim__safetensors_open(plim__safetensors *out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err);
void plim__safetensors_free(plim__safetensors *f);
/** The tensor of that name; PLIM_E_INVALID where there is none: the message lists some that there are.
 *  @param out  source.path belongs to `f` */
plim_status plim__safetensors_find(plim__array_file *out, const plim__safetensors *f, const char *name, plim_error *err);
/** What the metadata says under `key`; NULL: nothing. Belongs to `f`. */
const char *plim__safetensors_metadata(const plim__safetensors *f, const char *key);
/** "F32" */
const char *plim__safetensors_dtype_name(plim_dtype dtype);

#endif
