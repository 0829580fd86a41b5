#include "cli/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

plim__json plim__json_start(FILE *out)
{
    return (plim__json){.out = out};
}

int plim__utf8_length(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    const int n = p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const int n = plim__utf8_length(p);
        if (n == 0) {
            fputs("\\ufffd", out);
            p++;
        } else if (*p == '"' || *p == '\\') {
            fprintf(out, "\\%c", *p++);
        } else if (*p == '\n') {
            fputs("\\n", out), p++;
        } else if (*p == '\t') {
            fputs("\\t", out), p++;
        } else if (*p < 0x20 || *p == 0x7f) {
            fprintf(out, "\\u%04x", *p++);
        } else {
            fwrite(p, 1, (size_t)n, out);
            p += n;
        }
    }
    fputc('"', out);
}

static void new_line(plim__json *j, uint32_t depth)
{
    fputc('\n', j->out);
    for (uint32_t i = 0; i < depth; i++) fputs("  ", j->out);
}

/* Everything that stands before a value: comma, line break, key. */
static void before(plim__json *j, const char *key)
{
    if (j->depth) {
        const uint32_t d = j->depth - 1;
        assert((j->level[d].close == '}') == (key != NULL));
        if (j->level[d].any) fputs(j->level[d].one_line ? ", " : ",", j->out);
        if (!j->level[d].one_line) new_line(j, j->depth);
        j->level[d].any = true;
    }
    if (key) {
        quoted(j->out, key);
        fputs(": ", j->out);
    }
}

static void open_level(plim__json *j, const char *key, char open, char close, bool one_line)
{
    before(j, key);
    assert(j->depth < PLIM__JSON_DEPTH);
    /* What is inside a line stays on it. */
    const bool inside = j->depth && j->level[j->depth - 1].one_line;
    fputc(open, j->out);
    j->level[j->depth].close = close;
    j->level[j->depth].any = false;
    j->level[j->depth].one_line = one_line || inside;
    j->depth++;
}

void plim__json_object(plim__json *j, const char *key)
{
    open_level(j, key, '{', '}', false);
}

void plim__json_list(plim__json *j, const char *key)
{
    open_level(j, key, '[', ']', false);
}

void plim__json_short_list(plim__json *j, const char *key)
{
    open_level(j, key, '[', ']', true);
}

void plim__json_short_object(plim__json *j, const char *key)
{
    open_level(j, key, '{', '}', true);
}

void plim__json_end(plim__json *j)
{
    assert(j->depth > 0);
    j->depth--;
    if (j->level[j->depth].any && !j->level[j->depth].one_line) new_line(j, j->depth);
    fputc(j->level[j->depth].close, j->out);
    if (j->depth == 0) fputc('\n', j->out);
}

void plim__json_string(plim__json *j, const char *key, const char *value)
{
    before(j, key);
    if (value)
        quoted(j->out, value);
    else
        fputs("null", j->out);
}

void plim__json_uint(plim__json *j, const char *key, uint64_t value)
{
    before(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void plim__json_int(plim__json *j, const char *key, int64_t value)
{
    before(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void plim__json_number(plim__json *j, const char *key, double value)
{
    before(j, key);
    if (!isfinite(value)) {
        fputs("null", j->out);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back; 17 always do */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, j->out);
}

void plim__json_bool(plim__json *j, const char *key, bool value)
{
    before(j, key);
    fputs(value ? "true" : "false", j->out);
}

void plim__json_null(plim__json *j, const char *key)
{
    before(j, key);
    fputs("null", j->out);
}
