/* Words of the form name=file, as several verbs take them. */
#ifndef PLIM_CLI_BINDINGS_H
#define PLIM_CLI_BINDINGS_H

#include "plimsoll/plimsoll.h"

enum { PLIM__CLI_BINDINGS = 256, PLIM__CLI_BINDING_NAME = 96 };

/** A list of them, and their names' memory. */
typedef struct plim__cli_bindings {
    plim_binding item[PLIM__CLI_BINDINGS];
    char name[PLIM__CLI_BINDINGS][PLIM__CLI_BINDING_NAME];
    uint32_t n;
} plim__cli_bindings;

/** Adds "x=big.npy", or "big.npy" with the name "". */
plim_status plim__cli_bind(plim__cli_bindings *b, const char *word, plim_error *err);
/** The same for the table of options. */
plim_status plim__cli_take_binding(void *to, const char *word, plim_error *err);

#endif
