/* plim_file_identify and plim_file_write on any system: tests give them one that fails. */
#ifndef PLIM_FORMATS_WHOLE_FILE_H
#define PLIM_FORMATS_WHOLE_FILE_H

#include "os/os.h"

plim_status plim__file_identify(plim_file_identity *out, const plim__os *os, const char *path, plim_error *err);
plim_status plim__file_write(const plim__os *os, const char *path, const void *data, uint64_t n, plim_error *err);

#endif
