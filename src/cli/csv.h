/* Tables of comma-separated values, read from memory: a header line that names the columns, then rows of as many fields. Untrusted: every message
 * names line and column. No quoting: the files that this reads have none, and a quote is an error that says so. */
#ifndef PLIM_CLI_CSV_H
#define PLIM_CLI_CSV_H

#include "plimsoll/plimsoll.h"

enum { PLIM__CSV_COLUMNS = 64 };

typedef struct plim__csv {
    char *text;     /* the file, with separators and line ends turned into NUL; owned */
    char **field;   /* n_rows * n_columns, into text; owned */
    const char *column[PLIM__CSV_COLUMNS];
    uint32_t n_columns, n_rows;
    uint32_t header_line; /* from 1 */
    uint32_t *line; /* of each row, from 1; owned */
} plim__csv;

/** Takes `text` (n bytes and a NUL, from malloc) and frees it in the end, also on failure. `name` is for messages. */
plim_status plim__csv_parse(plim__csv *out, char *text, size_t n, const char *name, plim_error *err);
void plim__csv_free(plim__csv *c);
/** Index of a column, or PLIM__CSV_COLUMNS. Spaces around names do not count. */
uint32_t plim__csv_column(const plim__csv *c, const char *name);
/** A field as a whole number. */
plim_status plim__csv_int(int64_t *out, const plim__csv *c, uint32_t row, uint32_t column, const char *name, plim_error *err);

#endif
