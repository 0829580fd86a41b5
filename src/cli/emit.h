/* One emitter for what a verb has to say: a verb states its facts once, and they come out as text for people or as one JSON object.
 * No verb asks which. Each fact has a JSON key and a label for people; a NULL key leaves it out of the JSON, a NULL label out of the
 * text.
 *
 *     plim__emit e = plim__emit_start(stdout, shared.json, "size");
 *     plim__emit_bytes(&e, "budget_bytes", "budget", 4 << 30);       budget    4.0 GiB (4,294,967,296 bytes)
 *     plim__emit_table(&e, "limits", columns, 3);                    a header line, then aligned rows
 *     plim__emit_string(&e, NULL, NULL, "RAM"); ...                  inside a table the calls fill the cells, column by column
 *     plim__emit_table_end(&e);
 *     plim__emit_end(&e);
 */
#ifndef PLIM_CLI_EMIT_H
#define PLIM_CLI_EMIT_H

#include "cli/json.h"
#include "plimsoll/plimsoll.h"

enum { PLIM__EMIT_COLUMNS = 12, PLIM__EMIT_CELL = 176 };

typedef struct plim__emit_column {
    const char *key;   /* in the row's JSON object; NULL: text only */
    const char *title; /* in the header line; NULL: JSON only */
    bool right;        /* aligned to the right */
} plim__emit_column;

typedef struct plim__emit {
    FILE *out;
    bool is_json;
    plim__json json;
    /* the table that is open, if any */
    const plim__emit_column *column;
    uint32_t n_columns, at;
    /* its rows as text, which wait until all widths are known; freed at its end */
    char (*cell)[PLIM__EMIT_COLUMNS][PLIM__EMIT_CELL];
    uint32_t n_rows, cap_rows;
    char one[1][PLIM__EMIT_COLUMNS][PLIM__EMIT_CELL]; /* the first row, and the only one where memory is refused */
    bool headed;                                      /* the header line is written */
    int width[PLIM__EMIT_COLUMNS];
} plim__emit;

/** Opens the object; `verb` becomes its first key. */
void plim__emit_start(plim__emit *e, FILE *out, bool json, const char *verb);
void plim__emit_end(plim__emit *e);

void plim__emit_string(plim__emit *e, const char *key, const char *label, const char *value);
/** Text: "5.87 GiB (6,298,009,600 bytes)", in a table "5.87 GiB"; UINT64_MAX is "no limit" and null. */
void plim__emit_bytes(plim__emit *e, const char *key, const char *label, uint64_t bytes);
void plim__emit_count(plim__emit *e, const char *key, const char *label, uint64_t count); /* text: "6,298,009,600" */
/** `format` prints one double for people: "%.2f s". NaN means not measured: "-" and null. */
void plim__emit_number(plim__emit *e, const char *key, const char *label, const char *format, double value);
void plim__emit_bool(plim__emit *e, const char *key, const char *label, bool value);
/** Text: "[384,192]"; JSON: a list of numbers. */
void plim__emit_shape(plim__emit *e, const char *key, const char *label, const plim_shape *shape);

/** A list of objects. Until plim__emit_table_end each call above fills the next cell; key and label come from the column. Where there is no
 *  memory for more rows, those so far are written at once. */
void plim__emit_table(plim__emit *e, const char *key, const plim__emit_column *column, uint32_t n);
void plim__emit_table_end(plim__emit *e);

/** A line for people only, printf-like, with its newline. */
void plim__emit_line(plim__emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** For what the calls above do not cover (nested lists): NULL when text is being written. */
plim__json *plim__emit_json(plim__emit *e);

#endif
