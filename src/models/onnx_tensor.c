/* A tensor's data. Fixed-width data (raw_data, float_data, double_data, external files) stays where it is: a source says where. What an op has
 * to know while the graph is built is read; so is what protobuf packs as varints, which is no array in the file. */
#include "core/dtype.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "models/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_FLOAT = 4, FIELD_INT32 = 5, FIELD_INT64 = 7, FIELD_RAW = 9, FIELD_DOUBLE = 10, FIELD_UINT64 = 11 };

plim_status plim__onnx_dtype(int64_t type, plim_dtype *out, plim_error *err)
{
    static const struct { const char *name; int dtype; } types[] = {
        [1] = {"float", PLIM_F32},    [2] = {"uint8", PLIM_U8},    [3] = {"int8", PLIM_I8},        [4] = {"uint16", PLIM_U16},
        [5] = {"int16", PLIM_I16},    [6] = {"int32", PLIM_I32},   [7] = {"int64", PLIM_I64},      [8] = {"string", -1},
        [9] = {"bool", PLIM_BOOL},    [10] = {"float16", PLIM_F16}, [11] = {"double", PLIM_F64},   [12] = {"uint32", PLIM_U32},
        [13] = {"uint64", PLIM_U64},  [14] = {"complex64", -1},    [15] = {"complex128", -1},      [16] = {"bfloat16", PLIM_BF16},
        [17] = {"float8e4m3fn", -1},  [18] = {"float8e4m3fnuz", -1}, [19] = {"float8e5m2", -1},    [20] = {"float8e5m2fnuz", -1},
        [21] = {"uint4", -1},         [22] = {"int4", -1},
    };
    const int64_t n = (int64_t)(sizeof types / sizeof *types);
    PLIM_FAIL_IF(type <= 0 || type >= n, err, PLIM_E_UNSUPPORTED, "data type %lld is not supported", (long long)type);
    PLIM_FAIL_IF(types[type].dtype < 0, err, PLIM_E_UNSUPPORTED, "data type %lld (%s) is not supported", (long long)type, types[type].name);
    *out = (plim_dtype)types[type].dtype;
    return PLIM_OK;
}

/* Fails with "<path>: initializer '<name>': ...". */
#define TENSOR_FAIL(x, t, code, ...) fail(err, x, t, code, __VA_ARGS__)

static plim_status fail(plim_error *err, const plim__onnx *x, const plim__onnx_tensor *t, plim_status code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6), cold));
static plim_status fail(plim_error *err, const plim__onnx *x, const plim__onnx_tensor *t, plim_status code, const char *fmt, ...)
{
    char name[64], what[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    plim__array_quote(name, sizeof name, (const uint8_t *)t->name, strlen(t->name));
    return plim__array_fail(err, code, x->wire->path, t->offset, "tensor '%s': %s", name, what);
}

/* What it says of itself, and how many bytes its elements have. */
static plim_status settle(plim__onnx *x, const plim__onnx_tensor *t, plim_dtype *dtype, uint64_t *bytes, plim_error *err)
{
    plim_error inner = {0};
    if (t->dims > PLIM_MAX_RANK) return TENSOR_FAIL(x, t, PLIM_E_UNSUPPORTED, "%u dimensions; %d are supported", t->dims, PLIM_MAX_RANK);
    plim_status status = plim__onnx_dtype(t->type, dtype, &inner);
    if (status == PLIM_OK) status = plim_shape_bytes(bytes, &t->shape, *dtype, &inner);
    if (status != PLIM_OK) return TENSOR_FAIL(x, t, status, "%s", inner.message);
    if (t->pieces) return TENSOR_FAIL(x, t, PLIM_E_UNSUPPORTED, "its data is in several pieces");
    return PLIM_OK;
}

static bool is_array(uint32_t field, plim_dtype dtype)
{
    return field == FIELD_RAW || (field == FIELD_FLOAT && dtype == PLIM_F32) || (field == FIELD_DOUBLE && dtype == PLIM_F64);
}

/* -------------------------------------------------------------------------------------------------- external data */

bool plim__onnx_stays_inside(const char *location)
{
    if (location[0] == 0 || location[0] == '/') return false;
    for (const char *p = location; p;) {
        const char *next = strchr(p, '/');
        const size_t n = next ? (size_t)(next - p) : strlen(p);
        if (n == 0 || (n == 2 && p[0] == '.' && p[1] == '.')) return false;
        p = next ? next + 1 : NULL;
    }
    return true;
}

static plim_status decimal(plim__onnx *x, const plim__onnx_tensor *t, const char *key, const char *text, uint64_t *out, plim_error *err)
{
    uint64_t n = 0;
    bool good = text[0] != 0;
    for (const char *p = text; *p && good; p++) good = *p >= '0' && *p <= '9' && plim__mul(&n, n, 10) && plim__add(&n, n, (uint64_t)(*p - '0'));
    char shown[40];
    if (!good)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "external %s '%s' is not a number of bytes", key,
                           plim__array_quote(shown, sizeof shown, (const uint8_t *)text, strlen(text)));
    *out = n;
    return PLIM_OK;
}

char *plim__onnx_beside(plim__onnx_arena *arena, const char *path, const char *location, plim_error *err)
{
    const char *slash = strrchr(path, '/');
    const size_t folder = slash ? (size_t)(slash - path) + 1 : 0, n = strlen(location);
    char *full = plim__onnx_new(arena, folder + n + 1, 1, err);
    if (!full) return NULL;
    memcpy(full, path, folder);
    memcpy(full + folder, location, n);
    return full;
}

/* A file that is named and not there is the model's fault, and the message says whose; anything else is the system's. */
static plim_status cannot_open(plim__onnx *x, const plim__onnx_tensor *t, const char *full, int code, plim_error *err)
{
    char shown[80];
    if (code != -ENOENT && code != -ENOTDIR && code != -ENAMETOOLONG) return plim__os_fail(code, "open", full, 0, err);
    return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "external file '%s' is not there",
                       plim__array_quote(shown, sizeof shown, (const uint8_t *)t->location, strlen(t->location)));
}

static plim_status look_at(plim__onnx *x, const plim__onnx_tensor *t, const char *full, plim_error *err)
{
    char shown[80];
    if (x->seen_location && !strcmp(x->seen_location, t->location)) return PLIM_OK;
    const plim__os *os = x->wire->os;
    const int fd = os->open(os->self, full, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return cannot_open(x, t, full, fd, err);
    const int code = os->stat(os->self, fd, &x->seen);
    os->close(os->self, fd);
    if (code < 0) return plim__os_fail(code, "stat", full, 0, err);
    if (!x->seen.regular)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "external file '%s' is not a regular file",
                           plim__array_quote(shown, sizeof shown, (const uint8_t *)t->location, strlen(t->location)));
    x->seen_location = t->location;
    return PLIM_OK;
}

static plim_status external_source(plim__onnx *x, const plim__onnx_tensor *t, uint64_t bytes, plim__source *s, plim_error *err)
{
    char shown[80];
    uint64_t length = bytes;
    if (!t->location) return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "external data without a location");
    plim__array_quote(shown, sizeof shown, (const uint8_t *)t->location, strlen(t->location));
    if (!plim__onnx_stays_inside(t->location)) return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "external file '%s' is not inside the model's folder", shown);
    if (t->ext_offset) PLIM_TRY(decimal(x, t, "offset", t->ext_offset, &s->offset, err));
    if (t->ext_length) PLIM_TRY(decimal(x, t, "length", t->ext_length, &length, err));
    if (length != bytes)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "external data of %llu bytes; its shape needs %llu", (unsigned long long)length,
                           (unsigned long long)bytes);
    char *full = plim__onnx_beside(&x->arena, x->wire->path, t->location, err);
    if (!full) return PLIM_E_NOMEM;
    PLIM_TRY(look_at(x, t, full, err));
    if (s->offset > x->seen.size || bytes > x->seen.size - s->offset)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "%llu bytes from byte %llu of '%s', which has %llu", (unsigned long long)bytes,
                           (unsigned long long)s->offset, shown, (unsigned long long)x->seen.size);
    s->path = full;
    plim__source_identify(s, &x->seen);
    return PLIM_OK;
}

plim_status plim__onnx_source(plim__onnx *x, const plim__onnx_tensor *t, plim__source *s, plim_error *err)
{
    plim_dtype dtype;
    uint64_t bytes;
    PLIM_TRY(settle(x, t, &dtype, &bytes, err));
    *s = (plim__source){0};
    int64_t stride = 1;
    for (uint32_t d = t->shape.rank; d-- > 0 && bytes > 0;) {
        s->stride[d] = stride;
        stride *= t->shape.dim[d];
    }
    if (t->external) return external_source(x, t, bytes, s, err);
    if (!is_array(t->field, dtype) && bytes > 0)
        return TENSOR_FAIL(x, t, t->field ? PLIM_E_UNSUPPORTED : PLIM_E_FORMAT,
                           t->field ? "%s in field %u is no array in the file; save it as raw_data" : "%s without data (field %u)",
                           plim_dtype_name(dtype), t->field);
    if (t->bytes != bytes)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "%llu bytes of data at byte %llu; its shape needs %llu", (unsigned long long)t->bytes,
                           (unsigned long long)t->offset, (unsigned long long)bytes);
    s->path = (char *)x->wire->path;
    s->offset = t->offset;
    plim__source_identify(s, &x->stat);
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------------- values */

plim_status plim__onnx_host_new(plim__onnx *x, plim_dtype dtype, const plim_shape *shape, plim__onnx_host **out, plim_error *err)
{
    uint64_t bytes;
    PLIM_TRY(plim_shape_bytes(&bytes, shape, dtype, err));
    plim__onnx_host *h = plim__onnx_new(&x->arena, 1, sizeof *h, err);
    if (!h) return PLIM_E_NOMEM;
    *h = (plim__onnx_host){.dtype = dtype, .shape = *shape, .count = bytes / plim_dtype_bytes(dtype)};
    h->data = plim__onnx_new(&x->arena, bytes, 1, err);
    if (!h->data) return PLIM_E_NOMEM;
    *out = h;
    return PLIM_OK;
}

static plim_status read_array(plim__onnx *x, const plim__source *s, void *to, uint64_t bytes, plim_error *err)
{
    const plim__os *os = x->wire->os;
    if (s->path == x->wire->path) return plim__array_read(os, x->wire->fd, to, bytes, s->offset, s->path, err);
    const int fd = os->open(os->self, s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return plim__os_fail(fd, "open", s->path, 0, err);
    const plim_status status = plim__array_read(os, fd, to, bytes, s->offset, s->path, err);
    os->close(os->self, fd);
    return status;
}

/* Which field may hold a dtype's elements as varints; half floats are there as their bits. */
static bool may_pack(uint32_t field, plim_dtype t)
{
    if (field == FIELD_INT64) return t == PLIM_I64;
    if (field == FIELD_UINT64) return t == PLIM_U64 || t == PLIM_U32;
    return field == FIELD_INT32 && plim_dtype_bytes(t) <= 4 && t != PLIM_F32 && t != PLIM_U32;
}

static plim_status read_packed(plim__onnx *x, const plim__onnx_tensor *t, plim__onnx_host *h, plim_error *err)
{
    uint64_t at = t->offset, n = 0;
    const uint64_t size = plim_dtype_bytes(h->dtype);
    while (at < t->offset + t->bytes) {
        uint64_t value;
        PLIM_TRY(plim__wire_varint(x->wire, &at, t->offset + t->bytes, &value, err));
        if (n == h->count) break;
        if (h->dtype == PLIM_BOOL) value = value != 0;
        memcpy((uint8_t *)h->data + n++ * size, &value, size); /* little-endian: the low bytes come first */
    }
    if (n != h->count || at != t->offset + t->bytes)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "%s than the %llu elements of its shape", n < h->count ? "fewer" : "more",
                           (unsigned long long)h->count);
    return PLIM_OK;
}

plim_status plim__onnx_load(plim__onnx *x, const plim__onnx_tensor *t, const plim__onnx_host **out, plim_error *err)
{
    plim_dtype dtype;
    uint64_t bytes;
    plim__onnx_host *h = NULL;
    plim__source source;
    PLIM_TRY(settle(x, t, &dtype, &bytes, err));
    const bool packed = !t->external && may_pack(t->field, dtype);
    if (packed && bytes / plim_dtype_bytes(dtype) > t->bytes)
        return TENSOR_FAIL(x, t, PLIM_E_FORMAT, "%llu bytes cannot hold the elements of its shape", (unsigned long long)t->bytes);
    if (!packed) PLIM_TRY(plim__onnx_source(x, t, &source, err)); /* before memory is asked for: the data is there */
    PLIM_TRY(plim__onnx_host_new(x, dtype, &t->shape, &h, err));
    PLIM_TRY(packed ? read_packed(x, t, h, err) : read_array(x, &source, h->data, bytes, err));
    for (uint64_t i = 0; i < bytes && dtype == PLIM_BOOL; i++) ((uint8_t *)h->data)[i] = ((uint8_t *)h->data)[i] != 0;
    *out = h;
    return PLIM_OK;
}
