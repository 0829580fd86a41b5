/* HDF5 files as Keras writes them: attributes that hold text, and where the data of a dataset lies. No data of a dataset is read here.
 *
 * The library is large, so it is loaded when the first such file is opened and not before: a program that never opens one does not pay for it. It
 * keeps state of its own and is not safe for threads: one file is open at a time in a process, others wait in plim__hdf5_open. Its parser is not made
 * for files that want to do harm: here the signature is checked first, every read goes through plim__os and stays inside the given bytes, links to
 * elsewhere are not followed, and each of its failures is a PLIM_E_FORMAT that names the file and the object. */
#ifndef PLIM_MODELS_HDF5_H
#define PLIM_MODELS_HDF5_H

#include "core/alloc.h"
#include "os/os.h"

#define PLIM__HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"

typedef struct plim__hdf5 plim__hdf5;

/** What a dataset is and where its first byte lies in the file that was given to plim__hdf5_open. */
typedef struct plim__hdf5_array {
    plim_dtype dtype;
    plim_shape shape;
    uint64_t offset;
    bool swap; /* the other byte order */
} plim__hdf5_array;

/** Opens `bytes` bytes at `base` of the open file `fd`, which stays open until after plim__hdf5_close. Takes the process's HDF5 lock. */
plim_status plim__hdf5_open(plim__hdf5 **out, const plim__os *os, int fd, uint64_t base, uint64_t bytes, const char *path, plim__alloc alloc,
                            plim_error *err);
void plim__hdf5_close(plim__hdf5 **h);

/** Is there a group or dataset of that path, reached by plain links only. */
bool plim__hdf5_has(const plim__hdf5 *h, const char *object);
/** Has the object such an attribute. */
bool plim__hdf5_has_attribute(const plim__hdf5 *h, const char *object, const char *name);
/** The strings in an attribute, one after the other, each with its NUL. @param out  from the allocator; @param n  how many */
plim_status plim__hdf5_strings(const plim__hdf5 *h, const char *object, const char *name, char **out, uint32_t *n, plim_error *err);
/** PLIM_E_UNSUPPORTED where the data does not lie in one piece. */
plim_status plim__hdf5_array_find(const plim__hdf5 *h, const char *object, plim__hdf5_array *out, plim_error *err);

#endif
