/* A file with one line per step of training: CSV, or JSON lines where its name ends in .jsonl or .json. Lines are there as soon as they are written. */
#ifndef PLIM_CLI_HISTORY_H
#define PLIM_CLI_HISTORY_H

#include "plimsoll/plimsoll.h"

#include <stdio.h>

typedef struct plim__history {
    FILE *out; /* NULL: none is kept */
    bool json;
} plim__history;

/** Starts the file. With `after` > 0 an earlier one is continued: lines of later steps are dropped. */
plim_status plim__history_open(plim__history *h, const char *path, uint64_t after, plim_error *err);
/** @param v  of after this step; NULL: there was no validation */
plim_status plim__history_add(plim__history *h, const plim_train_facts *f, const plim_validation_facts *v, plim_error *err);
/** @return an error where something could not be written */
plim_status plim__history_close(plim__history *h, plim_error *err);

#endif
