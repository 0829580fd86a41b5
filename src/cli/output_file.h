/* A file that appears whole or not at all: written beside its place, synced, renamed. A place that is there and is no ordinary file (a pipe,
 * /dev/null) is written directly. */
#ifndef PLIM_CLI_OUTPUT_FILE_H
#define PLIM_CLI_OUTPUT_FILE_H

#include "plimsoll/plimsoll.h"

#include <stdio.h>

typedef struct plim__output_file {
    FILE *out;        /* NULL: not open */
    const char *path; /* the caller's */
    char temp[4096];  /* "": written directly */
} plim__output_file;

/** Programs that are started meanwhile do not inherit it. */
plim_status plim__output_file_open(plim__output_file *f, const char *path, plim_error *err);
/** Puts it in its place. Whatever could not be written since it was opened is a failure here; then nothing appears. */
plim_status plim__output_file_finish(plim__output_file *f, plim_error *err);
void plim__output_file_drop(plim__output_file *f);

#endif
