#include "cli/bindings.h"

#include <stdio.h>
#include <string.h>

plim_status plim__cli_bind(plim__cli_bindings *b, const char *word, plim_error *err)
{
    const char *equals = strchr(word, '=');
    const size_t n = equals ? (size_t)(equals - word) : 0;
    const bool full = b->n == PLIM__CLI_BINDINGS;
    if (full || n >= PLIM__CLI_BINDING_NAME) {
        err->code = PLIM_E_INVALID;
        if (full) snprintf(err->message, sizeof err->message, "more than %d files", PLIM__CLI_BINDINGS);
        else snprintf(err->message, sizeof err->message, "the name in '%.80s' is too long", word);
        return err->code;
    }
    memcpy(b->name[b->n], word, n);
    b->name[b->n][n] = 0;
    b->item[b->n] = (plim_binding){.name = b->name[b->n], .path = equals ? equals + 1 : word};
    b->n++;
    return PLIM_OK;
}

plim_status plim__cli_take_binding(void *to, const char *word, plim_error *err) { return plim__cli_bind(to, word, err); }
