/* Reads one line of source as text: enough to recognise a call and its numbers, no more. What it says is believed only when the bytes of the
 * request agree. */
#include "watch/upcast.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct maker {
    const char *name;    /* the function, after its last dot */
    const char *instead; /* with %s for the shape and the type */
    uint32_t plain_max;  /* so many arguments without a name say nothing about the type */
} maker;

enum { ANY_NUMBER = 64 };

static const maker makers[] = {
    {"rand", "np.random.default_rng().random((%s), dtype=np.%s)", ANY_NUMBER},
    {"random_sample", "np.random.default_rng().random((%s), dtype=np.%s)", 1},
    {"random", "np.random.default_rng().random((%s), dtype=np.%s)", 1},
    {"randn", "np.random.default_rng().standard_normal((%s), dtype=np.%s)", ANY_NUMBER},
    {"standard_normal", "np.random.default_rng().standard_normal((%s), dtype=np.%s)", 1},
    {"zeros", "np.zeros((%s), dtype=np.%s)", 1},
    {"ones", "np.ones((%s), dtype=np.%s)", 1},
    {"empty", "np.empty((%s), dtype=np.%s)", 1},
    {"linspace", NULL, 3},
    {"eye", NULL, 3},
    {"identity", NULL, 1},
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of the bracket that opens at `open`; NULL where the line ends first. */
static const char *bracket_end(const char *open)
{
    int depth = 0;
    for (const char *p = open; *p; p++) {
        if (*p == '(' || *p == '[') depth++;
        if (*p == ')' || *p == ']')
            if (--depth == 0) return p;
    }
    return NULL;
}

/* How many arguments the bracket that opens at `open` has. */
static uint32_t arguments_count(const char *open, const char *end)
{
    int depth = 0;
    uint32_t n = 1;
    for (const char *p = open; p < end; p++) {
        if (*p == '(' || *p == '[') depth++;
        if (*p == ')' || *p == ']') depth--;
        n += *p == ',' && depth == 1;
    }
    return n;
}

/* Whole numbers with commas, in brackets of their own or not: "3075200, 512", "(1_000, 1_000)". A product that fits no 64 bits is 0: no request
 * agrees with it. */
static bool shape_read(plim__upcast *out, const char *p, const char *end, uint64_t *product)
{
    uint32_t n = 0;
    size_t length = 0;
    *product = 1;
    out->shape[0] = 0;
    while (p < end) {
        if (isdigit((unsigned char)*p)) {
            uint64_t value = 0;
            for (; p < end && (isdigit((unsigned char)*p) || *p == '_'); p++)
                if (*p != '_' && (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)))
                    value = 0;
            if (__builtin_mul_overflow(*product, value, product)) *product = 0;
            if (!n++) out->rows = value;
            const int more = snprintf(out->shape + length, sizeof out->shape - length, "%s%llu", length ? ", " : "", (unsigned long long)value);
            length += (size_t)more;
            if (length >= sizeof out->shape) return false;
        } else if (*p == '(' || *p == ')' || *p == ',' || *p == ' ') {
            p++;
        } else {
            return false;
        }
    }
    return n > 0;
}

/* .astype(np.float32), .astype('float16'), .astype("f4") after `p`. */
static void conversion_read(plim__upcast *out, const char *p)
{
    const char *at = strstr(p, ".astype(");
    const char *end = at ? bracket_end(at + 7) : NULL;
    if (!end) return;
    static const struct { const char *text, *name; uint32_t bytes;
    } known[] = {
        {"float32", "float32", 4}, {"single", "float32", 4}, {"f4", "float32", 4},
        {"float16", "float16", 2}, {"half", "float16", 2},   {"f2", "float16", 2},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known && !out->to_bytes; i++) {
        const char *found = strstr(at, known[i].text);
        if (!found || found > end) continue;
        out->to_bytes = known[i].bytes;
        snprintf(out->to, sizeof out->to, "%s", known[i].name);
    }
}

/* The dotted name that ends at `open`. */
static void name_copy(char *to, size_t size, const char *line, const char *open)
{
    const char *p = open;
    while (p > line && (is_word(p[-1]) || p[-1] == '.')) p--;
    snprintf(to, size, "%.*s", (int)(open - p), p);
}

static bool call_read(plim__upcast *out, const maker *m, const char *line, const char *open, uint64_t bytes)
{
    name_copy(out->maker, sizeof out->maker, line, open);
    const char *end = bracket_end(open);
    if (!end || strstr(out->maker, "torch") || !strchr(out->maker, '.')) return false;
    const char *dtype = strstr(open, "dtype");
    if ((dtype && dtype < end) || bytes % 8 || arguments_count(open, end) > m->plain_max) return false;
    uint64_t product = 0;
    if (!shape_read(out, open + 1, end, &product)) {
        out->shape[0] = 0;
        out->rows = 0;
    } else if (product > UINT64_MAX / 8 || product * 8 != bytes) {
        return false; /* another array than the one that was asked for */
    }
    out->values = bytes / 8;
    conversion_read(out, end);
    const bool drawn = m->instead && strstr(m->instead, "default_rng"); /* generators make float64 and float32 only */
    const bool twice = drawn && out->to_bytes == 2;
    const char *type = out->to_bytes && !drawn ? out->to : "float32";
    int n;
    if (m->instead && out->shape[0])
        n = snprintf(out->instead, sizeof out->instead, m->instead, out->shape, type);
    else
        n = snprintf(out->instead, sizeof out->instead, "give %s dtype=np.%s", out->maker, type);
    if (twice && (size_t)n < sizeof out->instead) snprintf(out->instead + n, sizeof out->instead - (size_t)n, ".astype(np.float16)");
    out->instead_bytes = twice ? 6 : !drawn && out->to_bytes ? out->to_bytes : 4;
    return true;
}

bool plim__upcast_read(plim__upcast *out, const char *line, uint64_t bytes)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        const size_t n = strlen(makers[i].name);
        for (const char *p = strstr(line, makers[i].name); p; p = strstr(p + 1, makers[i].name)) {
            if (p[n] != '(' || (p > line && is_word(p[-1]))) continue;
            memset(out, 0, sizeof *out);
            if (call_read(out, &makers[i], line, p + n, bytes)) return true;
        }
    }
    return false;
}
