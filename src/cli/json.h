/* A JSON writer: values in order, commas, indentation and escapes by itself. Nothing is allocated. What is written is always valid
 * JSON: text that is not UTF-8 gets U+FFFD where it is not, numbers that are not finite become null.
 *
 *     plim__json j = plim__json_start(stdout);
 *     plim__json_object(&j, NULL);
 *     plim__json_uint(&j, "bytes", 42);
 *     plim__json_end(&j);                      // closes what was opened last; the outermost adds a newline
 */
#ifndef PLIM_CLI_JSON_H
#define PLIM_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PLIM__JSON_DEPTH = 32 };

typedef struct plim__json {
    FILE *out;
    uint32_t depth;
    struct {
        char close;  /* '}' or ']' */
        bool any;    /* something was written in it */
        bool one_line;
    } level[PLIM__JSON_DEPTH];
} plim__json;

plim__json plim__json_start(FILE *out);

/** Length of the UTF-8 sequence at p, 0 when it is none: too long a form, a surrogate, beyond U+10FFFF, or cut off. */
int plim__utf8_length(const unsigned char *p);

/* `key` is NULL inside a list and for the outermost value, and only there. */
void plim__json_object(plim__json *j, const char *key);
void plim__json_list(plim__json *j, const char *key);
/** A list or an object on one line, for short things such as a shape. */
void plim__json_short_list(plim__json *j, const char *key);
void plim__json_short_object(plim__json *j, const char *key);
void plim__json_end(plim__json *j);

void plim__json_string(plim__json *j, const char *key, const char *value); /* NULL gives null */
void plim__json_uint(plim__json *j, const char *key, uint64_t value);
void plim__json_int(plim__json *j, const char *key, int64_t value);
void plim__json_number(plim__json *j, const char *key, double value); /* reads back to the same double */
void plim__json_bool(plim__json *j, const char *key, bool value);
void plim__json_null(plim__json *j, const char *key);

#endif
