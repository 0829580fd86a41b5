/* Tiny ONNX models, written byte by byte: what the reader's tests read. Field numbers are those of onnx.proto. */
#ifndef PLIM_TESTS_ONNX_FILE_H
#define PLIM_TESTS_ONNX_FILE_H

#include "files.h"
#include "models/model.h"
#include "parts.h"

typedef struct pb {
    uint8_t *p;
    size_t n, room;
} pb;

static inline void pb_raw(pb *b, const void *data, size_t n)
{
    if (b->n + n >= b->room) b->p = realloc(b->p, b->room = 2 * (b->n + n) + 64);
    if (n) memcpy(b->p + b->n, data, n);
    b->n += n;
}

static inline void pb_varint(pb *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) pb_raw(b, &(uint8_t){(uint8_t)(v | 0x80)}, 1);
    pb_raw(b, &(uint8_t){(uint8_t)v}, 1);
}

static inline void pb_int(pb *b, uint32_t field, int64_t v)
{
    pb_varint(b, field << 3);
    pb_varint(b, (uint64_t)v);
}

static inline void pb_float(pb *b, uint32_t field, float v)
{
    pb_varint(b, field << 3 | 5);
    pb_raw(b, &v, 4);
}

static inline void pb_bytes(pb *b, uint32_t field, const void *data, size_t n)
{
    pb_varint(b, field << 3 | 2);
    pb_varint(b, n);
    pb_raw(b, data, n);
}

static inline void pb_text(pb *b, uint32_t field, const char *words) { pb_bytes(b, field, words, strlen(words)); }

/* Takes `inner`. */
static inline void pb_message(pb *b, uint32_t field, pb *inner)
{
    pb_bytes(b, field, inner->p, inner->n);
    free(inner->p);
    *inner = (pb){0};
}

/* ---- attributes, put into one buffer and given to a node */
static inline void attr_int(pb *to, const char *name, int64_t v)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_int(&a, 3, v);
    pb_int(&a, 20, 2);
    pb_message(to, 5, &a);
}

static inline void attr_float(pb *to, const char *name, float v)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_float(&a, 2, v);
    pb_int(&a, 20, 1);
    pb_message(to, 5, &a);
}

static inline void attr_text(pb *to, const char *name, const char *v)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_text(&a, 4, v);
    pb_int(&a, 20, 3);
    pb_message(to, 5, &a);
}

static inline void attr_ints(pb *to, const char *name, uint32_t n, const int64_t *v)
{
    pb a = {0};
    pb_text(&a, 1, name);
    for (uint32_t i = 0; i < n; i++) pb_int(&a, 8, v[i]);
    pb_int(&a, 20, 7);
    pb_message(to, 5, &a);
}

/* ---- tensors: dims as "2,3", raw data */
static inline pb tensor_head(const char *name, int type, const char *dims)
{
    pb t = {0};
    for (const char *p = dims; *p; p += strcspn(p, ","), p += *p == ',') pb_int(&t, 1, strtoll(p, NULL, 10));
    pb_int(&t, 2, type);
    pb_text(&t, 8, name);
    return t;
}

static inline pb tensor_raw(const char *name, int type, const char *dims, const void *data, size_t n)
{
    pb t = tensor_head(name, type, dims);
    pb_bytes(&t, 9, data, n);
    return t;
}

static inline void attr_tensor(pb *to, const char *name, pb tensor)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_message(&a, 5, &tensor);
    pb_int(&a, 20, 4);
    pb_message(to, 5, &a);
}

/* ---- a model */
enum { ONNX_F32 = 1, ONNX_U8 = 2, ONNX_I32 = 6, ONNX_I64 = 7, ONNX_STRING = 8, ONNX_BOOL = 9, ONNX_F16 = 10, ONNX_F64 = 11 };

/* Words of `list`, separated by blanks, as texts of field `field`; "-" is an empty one. */
static inline void pb_words(pb *b, uint32_t field, const char *list)
{
    while (*list) {
        const size_t n = strcspn(list, " ");
        pb_bytes(b, field, list, n == 1 && *list == '-' ? 0 : n);
        list += n + (list[n] == ' ');
    }
}

/* Takes `attrs` (NULL: none). */
static inline void onnx_node(pb *graph, const char *op, const char *in, const char *out, pb *attrs)
{
    pb n = {0};
    pb_words(&n, 1, in);
    pb_words(&n, 2, out);
    pb_text(&n, 4, op);
    if (attrs) {
        pb_raw(&n, attrs->p, attrs->n);
        free(attrs->p);
        *attrs = (pb){0};
    }
    pb_message(graph, 1, &n);
}

static inline void onnx_init(pb *graph, pb tensor) { pb_message(graph, 5, &tensor); }

static inline void onnx_init_f32(pb *graph, const char *name, const char *dims, uint32_t n, const float *v)
{
    onnx_init(graph, tensor_raw(name, ONNX_F32, dims, v, n * sizeof *v));
}

static inline void onnx_init_i64(pb *graph, const char *name, uint32_t n, const int64_t *v)
{
    char dims[16];
    snprintf(dims, sizeof dims, "%u", n);
    onnx_init(graph, tensor_raw(name, ONNX_I64, dims, v, n * sizeof *v));
}

/* A ValueInfoProto; dims as "N,3,-": a name, a number, or nothing known. */
static inline void onnx_info(pb *graph, uint32_t field, const char *name, int type, const char *dims)
{
    pb info = {0}, typed = {0}, tensor = {0}, shape = {0};
    while (*dims) {
        pb dim = {0};
        const size_t n = strcspn(dims, ",");
        if (*dims >= '0' && *dims <= '9') pb_int(&dim, 1, strtoll(dims, NULL, 10));
        else if (*dims != '-') pb_bytes(&dim, 2, dims, n);
        pb_message(&shape, 1, &dim);
        dims += n + (dims[n] == ',');
    }
    pb_int(&tensor, 1, type);
    pb_message(&tensor, 2, &shape);
    pb_message(&typed, 1, &tensor);
    pb_text(&info, 1, name);
    pb_message(&info, 2, &typed);
    pb_message(graph, field, &info);
}

static inline void onnx_input(pb *graph, const char *name, int type, const char *dims) { onnx_info(graph, 11, name, type, dims); }
static inline void onnx_output(pb *graph, const char *name) { onnx_info(graph, 12, name, ONNX_F32, ""); }

/* The whole file; takes `graph`. */
static inline pb onnx_model(pb *graph, int64_t opset)
{
    pb m = {0}, set = {0};
    pb_int(&m, 1, 8);
    pb_text(&set, 1, "");
    pb_int(&set, 2, opset);
    pb_message(&m, 8, &set);
    pb_message(&m, 7, graph);
    return m;
}

static inline void onnx_save(const char *file, pb *graph, int64_t opset)
{
    pb m = onnx_model(graph, opset);
    files_write(file, m.p, m.n);
    free(m.p);
}

/* ---- running one: parameters come from the files that they are bound to, the rest of the inputs has to be there */
static inline void onnx_load_params(const plim__model *m, void **data)
{
    for (uint32_t i = 0; i < m->n_params; i++) {
        const plim__value *v = &m->graph->value[m->param[i].value];
        const plim__source *s = &m->graph->source[v->source];
        data[m->param[i].value] = malloc(v->bytes + 8);
        const int fd = open(s->path, O_RDONLY);
        if (fd < 0 || pread(fd, data[m->param[i].value], v->bytes, (off_t)s->offset) != (ssize_t)v->bytes) abort();
        close(fd);
    }
}

#endif
