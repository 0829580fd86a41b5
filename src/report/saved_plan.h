/* Plans in files, as `plimsoll plan -o` writes them: the object that --json prints, and in its member "saved" what it takes to plan again. */
#ifndef PLIM_REPORT_SAVED_PLAN_H
#define PLIM_REPORT_SAVED_PLAN_H

#include "core/alloc.h"
#include "os/os.h"

plim_status plim__saved_plan_read(plim_saved_plan **out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err);
/** As plim_saved_plan_compare, for facts wherever they are from. */
plim_status plim__saved_plan_compare(const plim_saved_plan *saved, const plim_facts *now, plim_error *err);

#endif
