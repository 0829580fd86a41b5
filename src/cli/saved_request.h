/* What a saved plan says beside its facts: plim_saved_plan_read reads it. */
#ifndef PLIM_CLI_SAVED_REQUEST_H
#define PLIM_CLI_SAVED_REQUEST_H

#include "cli/json.h"
#include "plimsoll/plimsoll.h"

/** The member "saved". */
void plim__emit_saved(plim__json *json, const plim_saved_request *r);

#endif
