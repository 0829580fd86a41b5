/* NumPy's .npy header, read and written.
 *
 *     0   93 4E 55 4D 50 59   magic: \x93NUMPY
 *     6   major minor         1.0, 2.0 or 3.0
 *     8   header length       u16 in 1.0, u32 after; little-endian
 *    10   (12)  a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   padded, '\n' at its end
 *     .   the data
 *
 * The literal is read by a recursive-descent parser for just this dict: the three keys in any order, either kind of quotes, trailing
 * commas, white space anywhere, the L after integers that Python 2 wrote. Anything else is refused where it stands. One pass, no
 * recursion, nothing allocated. A Fortran-order array is the C-order array of the reversed axes: only its strides differ. */
#include "core/dtype.h"
#include "core/size.h"
#include "formats/array_file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_ORDER '<'
#else
#define NATIVE_ORDER '>'
#endif

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* What is left of the dict literal, and what messages need. */
typedef struct cursor {
    const uint8_t *begin, *at, *end;
    uint64_t offset; /* of `begin` in the file */
    const char *path;
    plim_error *err;
} cursor;

typedef struct text {
    const uint8_t *p;
    uint64_t n;
} text;

typedef struct header {
    bool seen_descr, seen_order, seen_shape;
    plim_dtype dtype;
    bool swap;
    bool fortran_order;
    plim_shape shape;
} header;

/* ------------------------------------------------------------------------------------------------- the literal */

static uint64_t where(const cursor *c) { return c->offset + (uint64_t)(c->at - c->begin); }

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || (*c->at >= '\t' && *c->at <= '\r'))) c->at++;
}

/* The next byte that is not white space, or -1 at the end of the header. */
static int peek(cursor *c)
{
    skip_space(c);
    return c->at < c->end ? *c->at : -1;
}

static bool take(cursor *c, char want)
{
    if (peek(c) != (uint8_t)want) return false;
    c->at++;
    return true;
}

static plim_status fail_expected(cursor *c, const char *what)
{
    const int got = peek(c);
    if (got < 0)
        return plim__array_fail(c->err, PLIM_E_FORMAT, c->path, where(c), "header: %s expected at byte %llu, where the header ends", what,
                                (unsigned long long)where(c));
    char shown[8];
    return plim__array_fail(c->err, PLIM_E_FORMAT, c->path, where(c), "header: %s expected at byte %llu, found '%s'", what,
                            (unsigned long long)where(c), plim__array_quote(shown, sizeof shown, c->at, 1));
}

static plim_status parse_string(cursor *c, text *out, const char *what)
{
    const int quote = peek(c);
    if (quote != '\'' && quote != '"') return fail_expected(c, what);
    out->p = ++c->at;
    while (c->at < c->end && *c->at != quote) c->at++;
    if (c->at == c->end) return fail_expected(c, "a closing quote");
    out->n = (uint64_t)(c->at - out->p);
    c->at++;
    return PLIM_OK;
}

static bool text_is(text t, const char *word) { return t.n == strlen(word) && memcmp(t.p, word, t.n) == 0; }

/* ----------------------------------------------------------------------------------------------------- the keys */

static const char *why_refused(const uint8_t *kind, uint64_t n)
{
    switch (n ? *kind : 0) {
    case 'O': return "Python objects";
    case 'S': case 'a': case 'U': case 'T': return "text";
    case 'c': return "complex numbers";
    case 'M': case 'm': return "dates and times";
    case 'V': return "raw records";
    case 'f': return "floats of this size";
    default: return "this type";
    }
}

/* '<f4': byte order (may be missing: this machine's), kind, bytes of an element. */
static plim_status parse_descr(cursor *c, header *h)
{
    const uint8_t *start = (skip_space(c), c->at);
    const uint64_t start_offset = where(c);
    char shown[80];
    if (peek(c) == '[' || peek(c) == '(' || peek(c) == '{')
        return plim__array_fail(c->err, PLIM_E_UNSUPPORTED, c->path, start_offset, "dtype %s: structured arrays are not supported",
                                plim__array_quote(shown, sizeof shown, start, (uint64_t)(c->end - start)));
    text t;
    PLIM_TRY(parse_string(c, &t, "the descr, a quoted dtype,"));
    text kind = t;
    char order = '=';
    if (t.n && strchr("<>|=", t.p[0]) && t.p[0]) {
        order = (char)t.p[0];
        kind = (text){t.p + 1, t.n - 1};
    }
    char name[8] = "=";
    plim_dtype dtype = PLIM_DTYPE_COUNT;
    if (text_is(kind, "?")) {
        dtype = PLIM_BOOL;
    } else if (kind.n < sizeof name - 1 && !memchr(kind.p, 0, kind.n)) {
        memcpy(name + 1, kind.p, kind.n);
        if (plim_dtype_parse(&dtype, name, NULL) != PLIM_OK) dtype = PLIM_DTYPE_COUNT;
    }
    if (dtype == PLIM_DTYPE_COUNT)
        return plim__array_fail(c->err, PLIM_E_UNSUPPORTED, c->path, start_offset, "dtype '%s': %s are not supported",
                                plim__array_quote(shown, sizeof shown, t.p, t.n), why_refused(kind.p, kind.n));
    h->dtype = dtype;
    h->swap = (order == '<' || order == '>') && order != NATIVE_ORDER && plim_dtype_bytes(dtype) > 1;
    return PLIM_OK;
}

static plim_status parse_order(cursor *c, header *h)
{
    skip_space(c);
    const uint64_t left = (uint64_t)(c->end - c->at);
    if (left >= 4 && memcmp(c->at, "True", 4) == 0) {
        h->fortran_order = true;
        c->at += 4;
        return PLIM_OK;
    }
    if (left >= 5 && memcmp(c->at, "False", 5) == 0) {
        c->at += 5;
        return PLIM_OK;
    }
    return fail_expected(c, "True or False for fortran_order");
}

static plim_status parse_dim(cursor *c, int64_t *out, const char *shape)
{
    if (peek(c) < '0' || peek(c) > '9') return fail_expected(c, "a dimension of the shape");
    uint64_t n = 0;
    for (; c->at < c->end && isdigit(*c->at); c->at++)
        if (!plim__mul(&n, n, 10) || !plim__add(&n, n, (uint64_t)(*c->at - '0')) || n > INT64_MAX)
            return plim__array_fail(c->err, PLIM_E_OVERFLOW, c->path, where(c), "shape %s: a dimension is larger than 2^63", shape);
    if (c->at < c->end && *c->at == 'L') c->at++;
    *out = (int64_t)n;
    return PLIM_OK;
}

/* () and (3,) and (3, 4); one dimension needs its comma, as in Python. */
static plim_status parse_shape(cursor *c, header *h)
{
    if (peek(c) != '(') return fail_expected(c, "the shape, a tuple,");
    const uint64_t start_offset = where(c);
    const uint8_t *close = memchr(c->at, ')', (size_t)(c->end - c->at));
    char shown[120];
    plim__array_quote(shown, sizeof shown, c->at, (uint64_t)((close ? close + 1 : c->end) - c->at));
    c->at++;
    bool comma = true;
    for (h->shape.rank = 0; peek(c) != ')'; comma = take(c, ',')) {
        if (!comma) return fail_expected(c, "',' or ')' in the shape");
        int64_t dim = 0;
        PLIM_TRY(parse_dim(c, &dim, shown));
        if (h->shape.rank == PLIM_MAX_RANK)
            return plim__array_fail(c->err, PLIM_E_UNSUPPORTED, c->path, start_offset, "shape %s has more than %d dimensions", shown,
                                    PLIM_MAX_RANK);
        h->shape.dim[h->shape.rank++] = dim;
    }
    if (h->shape.rank == 1 && !comma) return fail_expected(c, "',' after the only dimension of the shape");
    c->at++;
    return PLIM_OK;
}

static plim_status parse_item(cursor *c, header *h)
{
    text key;
    const uint64_t start = (skip_space(c), where(c));
    PLIM_TRY(parse_string(c, &key, "a key in quotes"));
    bool *seen = text_is(key, "descr")           ? &h->seen_descr
                 : text_is(key, "fortran_order") ? &h->seen_order
                 : text_is(key, "shape")         ? &h->seen_shape
                                                 : NULL;
    char shown[48];
    plim__array_quote(shown, sizeof shown, key.p, key.n);
    if (!seen || *seen)
        return plim__array_fail(c->err, PLIM_E_FORMAT, c->path, start, "header: %s key '%s' at byte %llu",
                                seen ? "a second" : "unknown", shown, (unsigned long long)start);
    *seen = true;
    if (!take(c, ':')) return fail_expected(c, "':'");
    if (seen == &h->seen_descr) return parse_descr(c, h);
    return seen == &h->seen_order ? parse_order(c, h) : parse_shape(c, h);
}

static plim_status parse_dict(cursor *c, header *h)
{
    if (!take(c, '{')) return fail_expected(c, "'{'");
    for (bool comma = true; !take(c, '}'); comma = take(c, ',')) {
        if (!comma) return fail_expected(c, "',' or '}'");
        PLIM_TRY(parse_item(c, h));
    }
    if (peek(c) >= 0) return fail_expected(c, "nothing more after '}'");
    const char *missing = !h->seen_descr ? "descr" : !h->seen_order ? "fortran_order" : !h->seen_shape ? "shape" : NULL;
    if (missing)
        return plim__array_fail(c->err, PLIM_E_FORMAT, c->path, c->offset, "header: the key '%s' is missing", missing);
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------- the file */

/* Finds the dict literal: its place in `head`, and where the data begins, relative to the header's start. */
static plim_status find_literal(cursor *c, const uint8_t *head, uint64_t n, uint64_t base, uint64_t file_bytes, uint64_t *data)
{
    if (n < sizeof magic || memcmp(head, magic, sizeof magic) != 0)
        return plim__array_fail(c->err, PLIM_E_FORMAT, c->path, base,
                                "not an .npy file: \\x93NUMPY is not at byte %llu (a file without a header needs its dtype and shape)",
                                (unsigned long long)base);
    if (n < 10) goto cut;
    const unsigned major = head[6], minor = head[7];
    if (major < 1 || major > 3 || minor != 0)
        return plim__array_fail(c->err, PLIM_E_UNSUPPORTED, c->path, base + 6, ".npy version %u.%u is not known (1.0, 2.0 and 3.0 are)", major,
                                minor);
    const uint64_t prefix = major == 1 ? 10 : 12;
    if (n < prefix) goto cut;
    uint64_t length = (uint64_t)head[8] | (uint64_t)head[9] << 8;
    if (major > 1) length |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    if (prefix + length > PLIM__NPY_HEAD_MAX)
        return plim__array_fail(c->err, PLIM_E_UNSUPPORTED, c->path, base + 8,
                                "a header of %llu bytes: only structured arrays need one of this length, and they are not supported",
                                (unsigned long long)length);
    if (prefix + length > n) goto cut;
    c->begin = c->at = head + prefix;
    c->end = c->begin + length;
    c->offset = base + prefix;
    *data = prefix + length;
    return PLIM_OK;
cut:
    return plim__array_fail(c->err, PLIM_E_FORMAT, c->path, file_bytes, "cut short: it ends at byte %llu, inside the .npy header",
                            (unsigned long long)file_bytes);
}

static plim_status fail_short(const plim__array_file *f, uint64_t bytes, uint64_t file_bytes, const char *path, plim_error *err)
{
    char shape[200];
    const bool fresh = err && err->code == PLIM_OK;
    const plim_status status = plim__array_fail(
        err, PLIM_E_FORMAT, path, file_bytes, "cut short: it ends at byte %llu, but %s%s from byte %llu on is %llu bytes",
        (unsigned long long)file_bytes, plim_dtype_name(f->dtype), plim_shape_format(shape, sizeof shape, &f->shape),
        (unsigned long long)f->source.offset, (unsigned long long)bytes);
    if (fresh) {
        err->need = bytes;
        err->have = file_bytes > f->source.offset ? file_bytes - f->source.offset : 0;
    }
    return status;
}

plim_status plim__array_settle(plim__array_file *f, uint64_t file_bytes, const char *path, plim_error *err)
{
    plim_error why = {0};
    uint64_t bytes, end;
    if (plim_shape_bytes(&bytes, &f->shape, f->dtype, &why) != PLIM_OK)
        return plim__array_fail(err, why.code, path, f->source.offset, "%s", why.message);
    if (!plim__add(&end, f->source.offset, bytes) || end > file_bytes) return fail_short(f, bytes, file_bytes, path, err);

    int64_t step = bytes == 0 ? 0 : 1;
    for (uint32_t i = 0; i < f->shape.rank; i++) {
        const uint32_t d = f->fortran_order ? i : f->shape.rank - 1 - i;
        f->source.stride[d] = step;
        if (step) step *= f->shape.dim[d]; /* never above the number of elements, which was checked */
    }
    return PLIM_OK;
}

plim_status plim__npy_parse(plim__array_file *out, const uint8_t *head, uint64_t n, uint64_t base, uint64_t file_bytes, const char *path,
                            plim_error *err)
{
    cursor c = {.path = path, .err = err};
    header h = {0};
    uint64_t data = 0;
    PLIM_TRY(find_literal(&c, head, n, base, file_bytes, &data));
    PLIM_TRY(parse_dict(&c, &h));

    plim__array_file f = {.dtype = h.dtype, .shape = h.shape, .fortran_order = h.fortran_order};
    f.source = out->source;
    f.source.swap = h.swap;
    f.source.offset = base + data;
    PLIM_TRY(plim__array_settle(&f, file_bytes, path, err));
    *out = f;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------ writing */

static const char *descr_of(plim_dtype t)
{
    switch (t) {
    case PLIM_BOOL: return "b1";
    case PLIM_U8: return "u1";
    case PLIM_U16: return "u2";
    case PLIM_U32: return "u4";
    case PLIM_U64: return "u8";
    case PLIM_I8: return "i1";
    case PLIM_I16: return "i2";
    case PLIM_I32: return "i4";
    case PLIM_I64: return "i8";
    case PLIM_F16: return "f2";
    case PLIM_BF16: return "V2";
    case PLIM_F32: return "f4";
    case PLIM_F64: return "f8";
    case PLIM_DTYPE_COUNT: break;
    }
    return NULL;
}

plim_status plim__npy_header(char buf[PLIM__NPY_HEADER], plim_dtype dtype, const plim_shape *shape, plim_error *err)
{
    uint64_t bytes;
    const char *descr = descr_of(dtype);
    PLIM_FAIL_IF(!descr, err, PLIM_E_INVALID, "no dtype has the number %d", (int)dtype);
    PLIM_FAIL_IF(shape->rank > PLIM_MAX_RANK, err, PLIM_E_INVALID, "a shape of %u dimensions", shape->rank);
    PLIM_TRY(plim_shape_bytes(&bytes, shape, dtype, err));

    const size_t prefix = sizeof magic + 4;
    const size_t length = PLIM__NPY_HEADER - prefix;
    memcpy(buf, magic, sizeof magic);
    buf[6] = 1;
    buf[7] = 0;
    buf[8] = (char)(length & 0xff);
    buf[9] = (char)(length >> 8);
    const char order = plim_dtype_bytes(dtype) == 1 ? '|' : NATIVE_ORDER;
    size_t at = prefix;
    at += (size_t)snprintf(buf + at, PLIM__NPY_HEADER - at, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, descr);
    for (uint32_t d = 0; d < shape->rank; d++)
        at += (size_t)snprintf(buf + at, PLIM__NPY_HEADER - at, "%s%lld", d ? ", " : "", (long long)shape->dim[d]);
    at += (size_t)snprintf(buf + at, PLIM__NPY_HEADER - at, "%s), }", shape->rank == 1 ? "," : "");
    memset(buf + at, ' ', PLIM__NPY_HEADER - at);
    buf[PLIM__NPY_HEADER - 1] = '\n';
    return PLIM_OK;
}
