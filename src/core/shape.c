#include "core/shape.h"
#include "core/dtype.h"
#include "core/size.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

plim_status plim_shape_count(uint64_t *out, const plim_shape *s, plim_error *err)
{
    uint64_t n = 1;
    bool zero = false;
    for (uint32_t d = 0; d < s->rank; d++) {
        PLIM_FAIL_IF(s->dim[d] < 0, err, PLIM_E_SHAPE, "dimension %u is negative: %lld", d, (long long)s->dim[d]);
        zero |= s->dim[d] == 0;
    }
    for (uint32_t d = 0; d < s->rank && !zero; d++) {
        if (!plim__mul(&n, n, (uint64_t)s->dim[d]) || n > INT64_MAX) {
            char text[160];
            return plim__fail(err, PLIM_E_OVERFLOW, "shape %s has more than 2^63 elements", plim_shape_format(text, sizeof text, s));
        }
    }
    *out = zero ? 0 : n;
    return PLIM_OK;
}

plim_status plim_shape_bytes(uint64_t *out, const plim_shape *s, plim_dtype t, plim_error *err)
{
    uint64_t n;
    PLIM_TRY(plim_shape_count(&n, s, err));
    if (!plim__mul(out, n, plim_dtype_bytes(t)) || *out > INT64_MAX) {
        char text[160];
        return plim__fail(err, PLIM_E_OVERFLOW, "shape %s of %s has more than 2^63 bytes", plim_shape_format(text, sizeof text, s),
                          plim_dtype_name(t));
    }
    return PLIM_OK;
}

plim_status plim_shape_parse(plim_shape *out, const char *text, plim_error *err)
{
    plim_shape s = {0};
    const char *p = text;
    const bool bracket = *p == '(' || *p == '[';
    if (bracket) p++;
    while (*p && !(bracket && (*p == ')' || *p == ']'))) {
        while (isspace((unsigned char)*p)) p++;
        PLIM_FAIL_IF(!isdigit((unsigned char)*p), err, PLIM_E_SHAPE, "shape '%.80s': a number is missing at character %d", text,
                     (int)(p - text) + 1);
        PLIM_FAIL_IF(s.rank == PLIM_MAX_RANK, err, PLIM_E_SHAPE, "shape '%.80s' has more than %d dimensions", text, PLIM_MAX_RANK);
        uint64_t n = 0;
        for (; isdigit((unsigned char)*p); p++)
            PLIM_FAIL_IF(!plim__mul(&n, n, 10) || !plim__add(&n, n, (uint64_t)(*p - '0')) || n > INT64_MAX, err, PLIM_E_OVERFLOW,
                         "shape '%.80s': dimension %u is larger than 2^63", text, s.rank);
        s.dim[s.rank++] = (int64_t)n;
        while (isspace((unsigned char)*p)) p++;
        if (*p == 'x' || *p == 'X' || *p == ',') {
            p++;
            while (isspace((unsigned char)*p)) p++;
            PLIM_FAIL_IF(*p == 0, err, PLIM_E_SHAPE, "shape '%.80s' ends in the middle", text);
        } else {
            PLIM_FAIL_IF(*p && !(bracket && (*p == ')' || *p == ']')), err, PLIM_E_SHAPE, "shape '%.80s': unexpected '%c' at character %d",
                         text, *p, (int)(p - text) + 1);
        }
    }
    PLIM_FAIL_IF(bracket && (!*p || p[1]), err, PLIM_E_SHAPE, "shape '%.80s': the bracket does not close at the end", text);
    *out = s;
    return PLIM_OK;
}

char *plim_shape_format(char *buf, size_t size, const plim_shape *s)
{
    size_t at = 0;
    if (size == 0) return buf;
    buf[0] = 0;
    for (uint32_t d = 0; d <= s->rank && at < size; d++) {
        const int n = d == s->rank ? snprintf(buf + at, size - at, d ? "]" : "[]")
                                   : snprintf(buf + at, size - at, "%c%lld", d ? ',' : '[', (long long)s->dim[d]);
        at += n > 0 ? (size_t)n : 0;
    }
    return buf;
}

plim__region plim__region_whole(const plim_shape *s)
{
    plim__region r = {.rank = s->rank};
    for (uint32_t d = 0; d < s->rank; d++) r.dim[d] = (plim__range){0, s->dim[d]};
    return r;
}

uint64_t plim__region_count(const plim__region *r)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < r->rank; d++) n *= (uint64_t)plim__range_len(r->dim[d]);
    return n;
}

bool plim__region_equal(const plim__region *a, const plim__region *b)
{
    if (a->rank != b->rank) return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dim[d].lo != b->dim[d].lo || a->dim[d].hi != b->dim[d].hi) return false;
    return true;
}

bool plim__region_inside(const plim__region *inner, const plim__region *outer)
{
    if (inner->rank != outer->rank) return false;
    if (plim__region_count(inner) == 0) return true;
    for (uint32_t d = 0; d < inner->rank; d++)
        if (inner->dim[d].lo < outer->dim[d].lo || inner->dim[d].hi > outer->dim[d].hi) return false;
    return true;
}

plim__region plim__region_hull(const plim__region *a, const plim__region *b)
{
    if (plim__region_count(a) == 0) return *b;
    if (plim__region_count(b) == 0) return *a;
    plim__region r = *a;
    for (uint32_t d = 0; d < r.rank; d++) {
        r.dim[d].lo = plim__min(a->dim[d].lo, b->dim[d].lo);
        r.dim[d].hi = plim__max(a->dim[d].hi, b->dim[d].hi);
    }
    return r;
}

bool plim__shape_equal(const plim_shape *a, const plim_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}
