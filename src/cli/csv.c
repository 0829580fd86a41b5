#include "cli/csv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plim_status fail(plim_error *err, plim_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static plim_status fail(plim_error *err, plim_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

/* The field without the spaces around it. */
static char *trim(char *field)
{
    while (*field == ' ' || *field == '\t') field++;
    size_t n = strlen(field);
    while (n > 0 && (field[n - 1] == ' ' || field[n - 1] == '\t')) field[--n] = 0;
    return field;
}

/* Cuts one line into at most `most` fields. @return how many there are */
static uint32_t cut(char *line, char **field, uint32_t most)
{
    uint32_t n = 0;
    for (char *at = line; at;) {
        char *comma = strchr(at, ',');
        if (comma) *comma = 0;
        if (n < most) field[n] = trim(at);
        n++;
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

/* The next line that is not blank, cut off from the rest; NULL at the end. */
static char *next_line(char **rest, uint32_t *number)
{
    while (*rest && **rest) {
        char *line = *rest, *end = strchr(line, '\n');
        *rest = end ? end + 1 : NULL;
        if (end) *end = 0;
        (*number)++;
        size_t n = strlen(line);
        if (n > 0 && line[n - 1] == '\r') line[--n] = 0;
        if (line[strspn(line, " \t")] != 0) return line;
    }
    return NULL;
}

static plim_status parse_header(plim__csv *c, char **rest, uint32_t *number, const char *name, plim_error *err)
{
    char *line = next_line(rest, number);
    char *field[PLIM__CSV_COLUMNS];
    if (!line) return fail(err, PLIM_E_FORMAT, "'%.200s' is empty: its first line must name the columns", name);
    c->header_line = *number;
    c->n_columns = cut(line, field, PLIM__CSV_COLUMNS);
    if (c->n_columns > PLIM__CSV_COLUMNS) return fail(err, PLIM_E_FORMAT, "'%.200s', line %u: more than %d columns", name, *number, PLIM__CSV_COLUMNS);
    for (uint32_t i = 0; i < c->n_columns; i++) {
        c->column[i] = field[i];
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(field[i], field[j])) return fail(err, PLIM_E_FORMAT, "'%.200s', line %u: column '%.40s' is there twice", name, *number, field[i]);
    }
    return PLIM_OK;
}

static plim_status parse_rows(plim__csv *c, char *rest, uint32_t number, const char *name, plim_error *err)
{
    uint32_t room = 0;
    for (char *line; (line = next_line(&rest, &number));) {
        if (c->n_rows == room) {
            room = room ? room * 2 : 256;
            char **field = realloc(c->field, (size_t)room * c->n_columns * sizeof *field);
            if (field) c->field = field;
            uint32_t *lines = realloc(c->line, room * sizeof *lines);
            if (lines) c->line = lines;
            if (!field || !lines || room > UINT32_MAX / 2) return fail(err, PLIM_E_NOMEM, "'%.200s': out of memory at line %u", name, number);
        }
        if (strchr(line, '"')) return fail(err, PLIM_E_FORMAT, "'%.200s', line %u: quoted fields are not understood", name, number);
        const uint32_t n = cut(line, &c->field[(size_t)c->n_rows * c->n_columns], c->n_columns);
        if (n != c->n_columns)
            return fail(err, PLIM_E_FORMAT, "'%.200s', line %u: %u fields where the header names %u", name, number, n, c->n_columns);
        c->line[c->n_rows++] = number;
    }
    return PLIM_OK;
}

plim_status plim__csv_parse(plim__csv *out, char *text, size_t n, const char *name, plim_error *err)
{
    *out = (plim__csv){.text = text};
    uint32_t number = 0;
    char *rest = text;
    plim_status status = strlen(text) == n ? PLIM_OK : fail(err, PLIM_E_FORMAT, "'%.200s': byte %zu is NUL: this is no text", name, strlen(text));
    if (status == PLIM_OK) status = parse_header(out, &rest, &number, name, err);
    if (status == PLIM_OK) status = parse_rows(out, rest, number, name, err);
    if (status != PLIM_OK) plim__csv_free(out);
    return status;
}

void plim__csv_free(plim__csv *c)
{
    free(c->text);
    free(c->field);
    free(c->line);
    *c = (plim__csv){0};
}

uint32_t plim__csv_column(const plim__csv *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_columns; i++)
        if (!strcmp(c->column[i], name)) return i;
    return PLIM__CSV_COLUMNS;
}

plim_status plim__csv_int(int64_t *out, const plim__csv *c, uint32_t row, uint32_t column, const char *name, plim_error *err)
{
    const char *field = c->field[(size_t)row * c->n_columns + column];
    char *end;
    errno = 0;
    *out = strtoll(field, &end, 10);
    if (end == field || *end)
        return fail(err, PLIM_E_FORMAT, "'%.200s', line %u, column %s: '%.40s' is not a whole number", name, c->line[row], c->column[column], field);
    if (errno == ERANGE) return fail(err, PLIM_E_OVERFLOW, "'%.200s', line %u, column %s: %.40s is beyond 64 bits", name, c->line[row], c->column[column], field);
    return PLIM_OK;
}
