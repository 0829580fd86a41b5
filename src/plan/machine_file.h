/* Machine descriptions as JSON, and the description of the machine that this process runs on. */
#ifndef PLIM_PLAN_MACHINE_FILE_H
#define PLIM_PLAN_MACHINE_FILE_H

#include "formats/json_text.h"
#include "os/os.h"

#define PLIM__MACHINE_FORMAT 1 /* another is refused */

/** Reads and checks a description: every number has to be there and in range. Messages name the place in the file. */
plim_status plim__machine_read(plim_machine *out, const plim__json *object, plim_error *err);
/** As the public functions, on any system. */
plim_status plim__machine_load(plim_machine *out, const plim__os *os, const char *path, plim_error *err);
plim_status plim__machine_save(const plim_machine *m, const plim__os *os, const char *path, plim_error *err);
plim_status plim__machine_identify(plim_machine *out, const plim__os *os, const char *folder, plim_error *err);

#endif
