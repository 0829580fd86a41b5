/* Small text files of /proc and of control groups: one number in a file, or lines of a key and a number. Nothing is allocated. */
#ifndef PLIM_OS_PROC_TEXT_H
#define PLIM_OS_PROC_TEXT_H

#include "os/os.h"

/** Reads a file whole, as far as it fits, and ends it with NUL. False (and "") when it is empty or cannot be read. */
bool plim__text_read(const plim__os *os, const char *path, char *buf, size_t size);
/** The number after `key` at the start of a line, such as "MemTotal:       24 kB" (in bytes) or "inactive_file 4096". */
bool plim__field_read(const char *text, const char *key, uint64_t *out);
/** A file with one number in it, or "max" (PLIM_UNLIMITED). */
bool plim__number_read(const plim__os *os, const char *dir, const char *name, uint64_t *out);
/** A row of /proc/PID/limits: "Max address space         1073741824           unlimited            bytes". False where it is unlimited. */
bool plim__rlimit_read(const char *limits, const char *row, uint64_t *out);

#endif
