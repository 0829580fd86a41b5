/* Words about models that several verbs take. */
#ifndef PLIM_CLI_MODEL_WORDS_H
#define PLIM_CLI_MODEL_WORDS_H

#include "plimsoll/plimsoll.h"

enum { PLIM__CLI_DIMS = 64, PLIM__CLI_DIM_NAME = 96 };

/** Dimensions that a model only names. */
typedef struct plim__cli_dims {
    plim_dim item[PLIM__CLI_DIMS];
    char name[PLIM__CLI_DIMS][PLIM__CLI_DIM_NAME];
    uint32_t n;
} plim__cli_dims;

/** "sequence=128", for the table of options. */
plim_status plim__cli_take_dim(void *to, const char *word, plim_error *err);

#endif
