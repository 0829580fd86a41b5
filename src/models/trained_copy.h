/* A trained copy of a model's file: every byte as it was, except that the data of parameters is new. Sizes do not change, so the copy is the file
 * with ranges replaced. What the savers of the formats share. */
#ifndef PLIM_MODELS_TRAINED_COPY_H
#define PLIM_MODELS_TRAINED_COPY_H

#include "formats/file_writer.h"
#include "models/model.h"

/** A file that is to be copied: the model's own, or one beside it. All zeros with from.fd = -1: none. */
typedef struct plim__trained_file {
    plim__file_from from; /* open */
    plim__stat stat;
    plim__patch *patch;   /* sorted, sharing no byte; indexes are the parameters' */
    uint32_t n_patches;
} plim__trained_file;

/** Opens `path` and finds the parameters with new values whose home is there: those that are trained, updated, or bound to other data.
 *  PLIM_E_CHANGED where the file is not the one that was read; PLIM_E_UNSUPPORTED where two such parameters share bytes.
 *  @param path  as it was given to the reader; good until the file is closed */
plim_status plim__trained_file_open(plim__trained_file *f, const plim__model *m, const plim__os *os, const char *path, plim_error *err);
void plim__trained_file_close(plim__trained_file *f, const plim__model *m, const plim__os *os);
/** Is the file still what it was when it was opened. */
plim_status plim__trained_file_same(const plim__trained_file *f, const plim__os *os, plim_error *err);
/** Every parameter with new values has its place in the files: PLIM_E_UNSUPPORTED names the first that has none. @param patches  of all files */
plim_status plim__trained_all(const plim__model *m, uint64_t patches, const char *path, plim_error *err);
/** What is at `path` now. @param there  false: nothing is */
plim_status plim__trained_at(plim__stat *out, bool *there, const plim__os *os, const char *path, plim_error *err);
/** Fails where `out_path` is the file itself. */
plim_status plim__trained_apart(const plim__trained_file *f, const plim__os *os, const char *out_path, plim_error *err);

#endif
