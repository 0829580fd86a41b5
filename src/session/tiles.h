/* plim_tiles_new on any system table: tests give it one that fails. */
#ifndef PLIM_SESSION_TILES_H
#define PLIM_SESSION_TILES_H

#include "os/os.h"

plim_status plim__tiles_new(plim_tiles **out, const plim__os *os, const char *in_path, const char *out_path, plim_dtype out_dtype,
                            const plim_shape *tile, const plim_shape *overlap, const plim_settings *set, plim_error *err);

#endif
