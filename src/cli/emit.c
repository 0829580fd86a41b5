#include "cli/emit.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_WIDTH = 18 };

void plim__emit_start(plim__emit *e, FILE *out, bool json, const char *verb)
{
    e->out = out;
    e->is_json = json;
    e->column = NULL;
    e->json = plim__json_start(out);
    if (!json) return;
    plim__json_object(&e->json, NULL);
    plim__json_string(&e->json, "verb", verb);
}

void plim__emit_end(plim__emit *e)
{
    assert(!e->column);
    if (e->is_json) plim__json_end(&e->json);
}

plim__json *plim__emit_json(plim__emit *e)
{
    return e->is_json ? &e->json : NULL;
}

/* ---- tables as text ---- */

/* Columns of terminal that a text takes: bytes that continue a UTF-8 character take none. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

static void table_row(const plim__emit *e, const char *(*text)(const plim__emit *, uint32_t row, uint32_t col), uint32_t row)
{
    uint32_t last = 0;
    for (uint32_t c = 0; c < e->n_columns; c++)
        if (e->column[c].title) last = c;
    for (uint32_t c = 0; c <= last; c++) {
        if (!e->column[c].title) continue;
        const char *cell = text(e, row, c);
        const int pad = e->width[c] - width_of(cell);
        const bool right = e->column[c].right;
        fprintf(e->out, "%*s%s%*s", right ? pad : 0, "", cell, right || c == last ? 0 : pad, "");
        fputs(c == last ? "\n" : "  ", e->out);
    }
}

static const char *title_text(const plim__emit *e, uint32_t row, uint32_t col)
{
    (void)row;
    return e->column[col].title;
}

static const char *cell_text(const plim__emit *e, uint32_t row, uint32_t col)
{
    return e->cell[row][col];
}

/* Writes the rows that wait, below the header unless that is there already, and forgets them. */
static void write_rows(plim__emit *e)
{
    for (uint32_t c = 0; c < e->n_columns; c++) {
        if (!e->column[c].title) continue;
        int *width = &e->width[c];
        if (!e->headed) *width = width_of(e->column[c].title);
        for (uint32_t r = 0; r < e->n_rows; r++) {
            const int w = width_of(e->cell[r][c]);
            if (w > *width) *width = w;
        }
    }
    if (!e->headed && e->n_rows) table_row(e, title_text, 0);
    for (uint32_t r = 0; r < e->n_rows; r++) table_row(e, cell_text, r);
    e->headed = true;
    e->n_rows = 0;
}

/* Room for one more row: more memory, or else that of the rows so far. */
static void row_room(plim__emit *e)
{
    if (e->n_rows < e->cap_rows) return;
    const uint32_t cap = e->cap_rows < 32 ? 32 : 2 * e->cap_rows;
    void *more = realloc(e->cell == e->one ? NULL : e->cell, cap * sizeof *e->cell);
    if (!more) {
        write_rows(e);
        return;
    }
    if (e->cell == e->one) memcpy(more, e->one, sizeof e->one);
    e->cell = more;
    e->cap_rows = cap;
}

/* ---- one fact: where it goes ---- */

/* The key to write the next JSON value under. @return false when it is not written as JSON */
static bool json_key(plim__emit *e, const char **key)
{
    if (!e->is_json) return false;
    if (e->column) *key = e->column[e->at].key;
    return *key != NULL;
}

/* Steps to the next cell; opens and closes the row's object around the columns. */
static void cell_done(plim__emit *e)
{
    if (!e->column || ++e->at < e->n_columns) return;
    e->at = 0;
    e->n_rows++;
    if (e->is_json) plim__json_end(&e->json);
}

static void cell_begin(plim__emit *e)
{
    if (!e->column || e->at) return;
    if (e->is_json) plim__json_short_object(&e->json, NULL);
    else row_room(e);
}

static void text_value(plim__emit *e, const char *label, const char *value)
{
    if (e->is_json) return;
    if (e->column)
        snprintf(e->cell[e->n_rows][e->at], PLIM__EMIT_CELL, "%s", value);
    else if (label)
        fprintf(e->out, "%-*s %s\n", LABEL_WIDTH, label, value);
}

/* ---- kinds of facts ---- */

void plim__emit_string(plim__emit *e, const char *key, const char *label, const char *value)
{
    cell_begin(e);
    if (json_key(e, &key)) plim__json_string(&e->json, key, value);
    text_value(e, label, value ? value : "-");
    cell_done(e);
}

void plim__emit_bytes(plim__emit *e, const char *key, const char *label, uint64_t bytes)
{
    cell_begin(e);
    if (json_key(e, &key)) {
        if (bytes == PLIM_UNLIMITED)
            plim__json_null(&e->json, key);
        else
            plim__json_uint(&e->json, key, bytes);
    }
    char text[96], unit[32], count[32];
    plim_bytes_format(unit, sizeof unit, bytes);
    if (bytes == PLIM_UNLIMITED)
        snprintf(text, sizeof text, "no limit");
    else if (e->column || bytes < 1024)
        snprintf(text, sizeof text, "%s", unit);
    else
        snprintf(text, sizeof text, "%s (%s bytes)", unit, plim_count_format(count, sizeof count, bytes));
    text_value(e, label, text);
    cell_done(e);
}

void plim__emit_count(plim__emit *e, const char *key, const char *label, uint64_t count)
{
    cell_begin(e);
    if (json_key(e, &key)) plim__json_uint(&e->json, key, count);
    char text[32];
    text_value(e, label, plim_count_format(text, sizeof text, count));
    cell_done(e);
}

void plim__emit_number(plim__emit *e, const char *key, const char *label, const char *format, double value)
{
    cell_begin(e);
    if (json_key(e, &key)) plim__json_number(&e->json, key, value);
    char text[64] = "-";
    if (!isnan(value)) snprintf(text, sizeof text, format, value);
    text_value(e, label, text);
    cell_done(e);
}

void plim__emit_bool(plim__emit *e, const char *key, const char *label, bool value)
{
    cell_begin(e);
    if (json_key(e, &key)) plim__json_bool(&e->json, key, value);
    text_value(e, label, value ? "yes" : "no");
    cell_done(e);
}

void plim__emit_shape(plim__emit *e, const char *key, const char *label, const plim_shape *shape)
{
    cell_begin(e);
    if (json_key(e, &key)) {
        plim__json_short_list(&e->json, key);
        for (uint32_t d = 0; d < shape->rank; d++) plim__json_int(&e->json, NULL, shape->dim[d]);
        plim__json_end(&e->json);
    }
    char text[PLIM__EMIT_CELL];
    text_value(e, label, plim_shape_format(text, sizeof text, shape));
    cell_done(e);
}

void plim__emit_line(plim__emit *e, const char *format, ...)
{
    if (e->is_json) return;
    va_list args;
    va_start(args, format);
    vfprintf(e->out, format, args);
    va_end(args);
}

/* ---- tables ---- */

void plim__emit_table(plim__emit *e, const char *key, const plim__emit_column *column, uint32_t n)
{
    assert(!e->column && n > 0 && n <= PLIM__EMIT_COLUMNS);
    if (e->is_json) plim__json_list(&e->json, key);
    e->column = column;
    e->n_columns = n;
    e->at = e->n_rows = 0;
    e->cell = e->one;
    e->cap_rows = 1;
    e->headed = false;
}

void plim__emit_table_end(plim__emit *e)
{
    assert(e->column && e->at == 0);
    if (e->is_json) plim__json_end(&e->json);
    else write_rows(e);
    if (e->cell != e->one) free(e->cell);
    e->cell = NULL;
    e->column = NULL;
}
