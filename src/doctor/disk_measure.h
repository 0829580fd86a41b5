/* How long reads and writes of each size take on the file system of a folder. */
#ifndef PLIM_DOCTOR_DISK_MEASURE_H
#define PLIM_DOCTOR_DISK_MEASURE_H

#include "core/alloc.h"
#include "os/os.h"

/** Told how much of the work is done, from 0 to 1. @return false to stop */
typedef bool plim__measured_fn(void *ctx, double done);

/** Fills the four tables of requests, with a file of 480 MiB that has no name and is at most an eighth of what is free there; where there is no direct I/O, the
 *  direct tables are the buffered ones. Takes some three seconds, on a slow disk a few more. PLIM_E_IO: no file can be made, read or written there. */
plim_status plim__disk_measure(plim_machine *m, const plim__os *os, const plim__alloc *a, const char *folder, plim__measured_fn *progress, void *ctx,
                               plim_error *err);

#endif
