#include "cli/model_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plim_status complain(plim_error *err, const char *what, const char *is)
{
    err->code = PLIM_E_INVALID;
    snprintf(err->message, sizeof err->message, "'%.80s' %s", what, is);
    return err->code;
}

plim_status plim__cli_take_dim(void *to, const char *word, plim_error *err)
{
    plim__cli_dims *d = to;
    const char *equals = strchr(word, '=');
    const size_t n = equals ? (size_t)(equals - word) : 0;
    if (n == 0 || n >= sizeof d->name[0]) return complain(err, word, "is not of the form NAME=VALUE");
    if (d->n == PLIM__CLI_DIMS) return complain(err, word, "is one dimension too many");
    char *end;
    errno = 0;
    const long long size = strtoll(equals + 1, &end, 10);
    if (end == equals + 1 || *end || errno || size < 1) return complain(err, equals + 1, "is not a whole number above 0");
    for (uint32_t i = 0; i < d->n; i++)
        if (strlen(d->name[i]) == n && !strncmp(d->name[i], word, n)) return complain(err, d->name[i], "is given twice");
    memcpy(d->name[d->n], word, n);
    d->name[d->n][n] = 0;
    d->item[d->n] = (plim_dim){.name = d->name[d->n], .value = size};
    d->n++;
    return PLIM_OK;
}
