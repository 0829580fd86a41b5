/* JSON text from files that are not trusted (libjansson behind this one file): checked getters whose messages name the file and the place
 * in it, as in
 *
 *     'model.json': layers[3].config.strides: expected 2 numbers
 *
 * A plim__json is a place in a document: a plain value, copied freely, good until the document's root is freed. */
#ifndef PLIM_FORMATS_JSON_TEXT_H
#define PLIM_FORMATS_JSON_TEXT_H

#include "core/error.h"

typedef struct plim__json {
    const void *node; /* libjansson's */
    const char *file; /* the caller's text, for messages */
    char path[112];   /* how the node is reached from the root; a long one is cut */
} plim__json;

typedef enum plim__json_kind {
    PLIM__JSON_NULL, PLIM__JSON_BOOL, PLIM__JSON_INTEGER, PLIM__JSON_REAL, PLIM__JSON_STRING, PLIM__JSON_ARRAY, PLIM__JSON_OBJECT
} plim__json_kind;

/** Parses a whole text: an object or an array; a key that is there twice is refused.
 *  @param root  on success the caller's, to be given to plim__json_free */
plim_status plim__json_parse(plim__json *root, const char *text, uint64_t n, const char *file, plim_error *err);
void plim__json_free(plim__json *root);

plim__json_kind plim__json_kind_of(const plim__json *j);
/** Elements of an array, members of an object, 0 of anything else. */
uint32_t plim__json_count(const plim__json *j);
/** null, false, 0, "", [] and {}: what an option that is not used looks like. */
bool plim__json_is_empty(const plim__json *j);

/** A member that is there and not null. `object` may be anything: what is not an object has no members. */
bool plim__json_find(plim__json *out, const plim__json *object, const char *key);
/** A member that must be there. */
plim_status plim__json_get(plim__json *out, const plim__json *object, const char *key, plim_error *err);
plim_status plim__json_at(plim__json *out, const plim__json *array, uint32_t i, plim_error *err);
/** Goes through the members of an object in any order. @param iter  *iter is NULL before the first */
bool plim__json_each(const plim__json *object, void **iter, const char **key, plim__json *value);

plim_status plim__json_string(const char **out, const plim__json *j, plim_error *err); /* good as long as the document */
plim_status plim__json_integer(int64_t *out, const plim__json *j, plim_error *err);
plim_status plim__json_number(double *out, const plim__json *j, plim_error *err); /* integers too */
plim_status plim__json_boolean(bool *out, const plim__json *j, plim_error *err);
/** Exactly n integers. */
plim_status plim__json_integers(int64_t *out, uint32_t n, const plim__json *j, plim_error *err);

/* Members with a value for where they are missing or null. */
plim_status plim__json_get_string(const char **out, const plim__json *object, const char *key, const char *fallback, plim_error *err);
plim_status plim__json_get_integer(int64_t *out, const plim__json *object, const char *key, int64_t fallback, plim_error *err);
plim_status plim__json_get_number(double *out, const plim__json *object, const char *key, double fallback, plim_error *err);
plim_status plim__json_get_boolean(bool *out, const plim__json *object, const char *key, bool fallback, plim_error *err);

/** Fails with "'<file>': <path>: <message>". */
plim_status plim__json_fail(plim_error *err, plim_status code, const plim__json *j, const char *fmt, ...) __attribute__((format(printf, 4, 5), cold));

#endif
