/* The one file that knows libjansson. Its own limits hold: 2,048 levels of nesting, 64-bit integers, valid UTF-8. */
#include "formats/json_text.h"
#include "formats/array_file.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const json_t *node_of(const plim__json *j) { return j->node; }

static const char *kind_name(const plim__json *j)
{
    static const char *const name[] = {"null", "true or false", "an integer", "a number", "a string", "a list", "an object"};
    return name[plim__json_kind_of(j)];
}

plim_status plim__json_fail(plim_error *err, plim_status code, const plim__json *j, const char *fmt, ...)
{
    if (!err || err->code != PLIM_OK) return code;
    char text[300], path[sizeof j->path]; /* names come from the file: they are printed as far as they can be */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plim__array_quote(path, sizeof path, (const uint8_t *)j->path, strlen(j->path));
    return plim__fail_at(err, code, j->file, "'%.80s': %s%s%s", j->file, path, path[0] ? ": " : "", text);
}

static plim_status fail_kind(plim_error *err, const plim__json *j, const char *wanted)
{
    return plim__json_fail(err, PLIM_E_FORMAT, j, "expected %s, found %s", wanted, kind_name(j));
}

/* Objects are hash tables. A random seed, which the library would choose, changes where blocks of the heap lie and with that how large the process is: the same
 * command must make the same plan. One that follows from the text is as hard to attack. The first call in a process decides. */
static size_t seed_of(const char *text, uint64_t n)
{
    uint64_t hash = 14695981039346656037u;
    for (uint64_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return (size_t)hash | 1; /* 0 would ask for a random one */
}

plim_status plim__json_parse(plim__json *root, const char *text, uint64_t n, const char *file, plim_error *err)
{
    json_error_t why;
    *root = (plim__json){.file = file};
    json_object_seed(seed_of(text, n));
    root->node = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (root->node) return PLIM_OK;
    if (json_error_code(&why) == json_error_out_of_memory)
        return plim__fail_at(err, PLIM_E_NOMEM, file, "'%.80s': out of memory for its JSON text", file);
    char shown[104]; /* it may quote the file */
    plim__array_quote(shown, sizeof shown, (const uint8_t *)why.text, strlen(why.text));
    return plim__fail_at(err, PLIM_E_FORMAT, file, "'%.80s': not JSON: line %d, column %d: %s", file, why.line, why.column, shown);
}

void plim__json_free(plim__json *root)
{
    json_decref((json_t *)root->node);
    root->node = NULL;
}

plim__json_kind plim__json_kind_of(const plim__json *j)
{
    switch (json_typeof(node_of(j))) {
    case JSON_OBJECT: return PLIM__JSON_OBJECT;
    case JSON_ARRAY: return PLIM__JSON_ARRAY;
    case JSON_STRING: return PLIM__JSON_STRING;
    case JSON_INTEGER: return PLIM__JSON_INTEGER;
    case JSON_REAL: return PLIM__JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return PLIM__JSON_BOOL;
    case JSON_NULL: break;
    }
    return PLIM__JSON_NULL;
}

uint32_t plim__json_count(const plim__json *j)
{
    const size_t n = json_is_array(node_of(j)) ? json_array_size(node_of(j)) : json_object_size(node_of(j));
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX; /* a text that fits in memory has fewer */
}

bool plim__json_is_empty(const plim__json *j)
{
    const json_t *n = node_of(j);
    switch (plim__json_kind_of(j)) {
    case PLIM__JSON_NULL: return true;
    case PLIM__JSON_BOOL: return json_is_false(n);
    case PLIM__JSON_INTEGER:
    case PLIM__JSON_REAL: return json_number_value(n) == 0;
    case PLIM__JSON_STRING: return json_string_length(n) == 0;
    default: return plim__json_count(j) == 0;
    }
}

/* ---------------------------------------------------------------------------------------------- going to a place */

static void step(plim__json *out, const plim__json *from, const json_t *node, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void step(plim__json *out, const plim__json *from, const json_t *node, const char *fmt, ...)
{
    plim__json to = {.node = node, .file = from->file};
    char tail[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(tail, sizeof tail, fmt, args);
    va_end(args);
    const bool dot = from->path[0] && tail[0] != '[';
    const size_t n = strlen(from->path), add = strlen(tail) + dot;
    memcpy(to.path, from->path, n + 1);
    if (n + add < sizeof to.path) snprintf(to.path + n, sizeof to.path - n, "%s%s", dot ? "." : "", tail);
    *out = to;
}

bool plim__json_find(plim__json *out, const plim__json *object, const char *key)
{
    const json_t *child = json_object_get(node_of(object), key);
    if (!child || json_is_null(child)) return false;
    step(out, object, child, "%.40s", key);
    return true;
}

plim_status plim__json_get(plim__json *out, const plim__json *object, const char *key, plim_error *err)
{
    if (!json_is_object(node_of(object))) return fail_kind(err, object, "an object");
    const json_t *child = json_object_get(node_of(object), key);
    if (!child) return plim__json_fail(err, PLIM_E_FORMAT, object, "'%.40s' is missing", key);
    step(out, object, child, "%.40s", key);
    return PLIM_OK;
}

plim_status plim__json_at(plim__json *out, const plim__json *array, uint32_t i, plim_error *err)
{
    if (!json_is_array(node_of(array))) return fail_kind(err, array, "a list");
    const json_t *child = json_array_get(node_of(array), i);
    if (!child) return plim__json_fail(err, PLIM_E_FORMAT, array, "expected more than %u elements", i);
    step(out, array, child, "[%u]", i);
    return PLIM_OK;
}

bool plim__json_each(const plim__json *object, void **iter, const char **key, plim__json *value)
{
    json_t *n = (json_t *)node_of(object);
    *iter = *iter ? json_object_iter_next(n, *iter) : json_object_iter(n);
    if (!*iter) return false;
    *key = json_object_iter_key(*iter);
    step(value, object, json_object_iter_value(*iter), "%.40s", *key);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- values */

plim_status plim__json_string(const char **out, const plim__json *j, plim_error *err)
{
    *out = json_string_value(node_of(j));
    return *out ? PLIM_OK : fail_kind(err, j, "a string");
}

plim_status plim__json_integer(int64_t *out, const plim__json *j, plim_error *err)
{
    if (!json_is_integer(node_of(j))) return fail_kind(err, j, "an integer");
    *out = json_integer_value(node_of(j));
    return PLIM_OK;
}

plim_status plim__json_number(double *out, const plim__json *j, plim_error *err)
{
    if (!json_is_number(node_of(j))) return fail_kind(err, j, "a number");
    *out = json_number_value(node_of(j));
    return PLIM_OK;
}

plim_status plim__json_boolean(bool *out, const plim__json *j, plim_error *err)
{
    if (!json_is_boolean(node_of(j))) return fail_kind(err, j, "true or false");
    *out = json_is_true(node_of(j));
    return PLIM_OK;
}

plim_status plim__json_integers(int64_t *out, uint32_t n, const plim__json *j, plim_error *err)
{
    bool fits = json_is_array(node_of(j)) && plim__json_count(j) == n;
    for (uint32_t i = 0; fits && i < n; i++) {
        const json_t *e = json_array_get(node_of(j), i);
        fits = json_is_integer(e);
        out[i] = json_integer_value(e);
    }
    if (!fits) return plim__json_fail(err, PLIM_E_FORMAT, j, "expected %u number%s", n, n == 1 ? "" : "s");
    return PLIM_OK;
}

plim_status plim__json_get_string(const char **out, const plim__json *object, const char *key, const char *fallback, plim_error *err)
{
    plim__json j;
    *out = fallback;
    return plim__json_find(&j, object, key) ? plim__json_string(out, &j, err) : PLIM_OK;
}

plim_status plim__json_get_integer(int64_t *out, const plim__json *object, const char *key, int64_t fallback, plim_error *err)
{
    plim__json j;
    *out = fallback;
    return plim__json_find(&j, object, key) ? plim__json_integer(out, &j, err) : PLIM_OK;
}

plim_status plim__json_get_number(double *out, const plim__json *object, const char *key, double fallback, plim_error *err)
{
    plim__json j;
    *out = fallback;
    return plim__json_find(&j, object, key) ? plim__json_number(out, &j, err) : PLIM_OK;
}

plim_status plim__json_get_boolean(bool *out, const plim__json *object, const char *key, bool fallback, plim_error *err)
{
    plim__json j;
    *out = fallback;
    return plim__json_find(&j, object, key) ? plim__json_boolean(out, &j, err) : PLIM_OK;
}
