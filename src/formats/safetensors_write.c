/* The header is made twice by one function: first only counted, because its length stands before it and the file's size is needed to create it, then
 * written. So no memory depends on what is in it, but for a table of the names while they are compared. */
#include "formats/safetensors_write.h"
#include "core/size.h"
#include "formats/file_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 4096u
#define TEXT_BUFFER 4096u

/* ------------------------------------------------------------------------------------------------------------ names */

/* Bytes of the UTF-8 character at `p`; 0: it is none (Unicode 15, table 3-7). */
static size_t character(const uint8_t *p)
{
    if (p[0] < 0x80) return 1;
    const size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    uint8_t lo = 0x80, hi = 0xbf; /* of the second byte: no long forms, no surrogates, nothing above 10FFFF */
    if (p[0] == 0xe0) lo = 0xa0;
    if (p[0] == 0xed) hi = 0x9f;
    if (p[0] == 0xf0) lo = 0x90;
    if (p[0] == 0xf4) hi = 0x8f;
    if (p[1] < lo || p[1] > hi) return 0;
    for (size_t i = 2; i < n; i++)
        if (p[i] < 0x80 || p[i] > 0xbf) return 0;
    return n;
}

static bool is_utf8(const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t n = 1;
    for (; *p && n; p += n) n = character(p);
    return n != 0;
}

static int compare_texts(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* @param what  "tensors" */
static plim_status check_names(const char *path, const char **name, uint32_t n, const char *what, plim_error *err)
{
    char shown[100];
    qsort(name, n, sizeof *name, compare_texts);
    for (uint32_t i = 0; i < n; i++) {
        plim__array_quote(shown, sizeof shown, (const uint8_t *)name[i], strlen(name[i]));
        if (!is_utf8(name[i])) return plim__array_fail(err, PLIM_E_UNSUPPORTED, path, 0, "'%s' is not UTF-8 text, which a name must be", shown);
        if (i > 0 && strcmp(name[i - 1], name[i]) == 0)
            return plim__array_fail(err, PLIM_E_INVALID, path, 0, "two %s are called '%s'; in this file each needs a name of its own", what, shown);
    }
    return PLIM_OK;
}

plim_status plim__safetensors_check(const char *path, const plim__tensor_spec *tensor, uint32_t n, plim__alloc alloc, plim_error *err)
{
    uint64_t bytes, total = 0;
    const char **name = plim__new(&alloc, n, sizeof *name, err);
    if (!name) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) name[i] = tensor[i].name;
    plim_status status = check_names(path, name, n, "tensors", err);
    plim__free(&alloc, name);
    for (uint32_t i = 0; i < n && status == PLIM_OK; i++) {
        if (strcmp(tensor[i].name, PLIM__SAFETENSORS_METADATA) == 0)
            return plim__array_fail(err, PLIM_E_UNSUPPORTED, path, 0, "a tensor called '%s': that is the format's own name", tensor[i].name);
        PLIM_TRY(plim_shape_bytes(&bytes, &tensor[i].shape, tensor[i].dtype, err));
        if (!plim__add(&total, total, bytes) || total > INT64_MAX / 2)
            return plim__array_fail(err, PLIM_E_OVERFLOW, path, 0, "the tensors have more bytes than a file can");
    }
    return status;
}

static plim_status check_texts(const char *path, const plim__safetensors_text *text, uint32_t n, plim__alloc alloc, plim_error *err)
{
    const char **key = plim__new(&alloc, n, sizeof *key, err);
    if (!key) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) key[i] = text[i].key;
    const plim_status status = check_names(path, key, n, "texts of the metadata", err);
    plim__free(&alloc, key);
    for (uint32_t i = 0; i < n && status == PLIM_OK; i++)
        if (!is_utf8(text[i].value))
            return plim__array_fail(err, PLIM_E_UNSUPPORTED, path, 0, "the metadata's '%.60s' is not UTF-8 text", text[i].key);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- the header */

/* Takes the header's text: counts it and, where there is a file, writes it. */
typedef struct sink {
    plim__file_writer *to; /* NULL: only counted */
    uint64_t count;
    uint32_t n;
    char text[TEXT_BUFFER];
} sink;

static plim_status sink_flush(sink *s, plim_error *err)
{
    const uint32_t n = s->n;
    s->n = 0;
    return s->to ? plim__file_writer_put(s->to, s->text, n, err) : PLIM_OK;
}

static plim_status put(sink *s, const char *text, size_t n, plim_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (s->n == sizeof s->text) PLIM_TRY(sink_flush(s, err));
        s->text[s->n++] = text[i];
        s->count++;
    }
    return PLIM_OK;
}

static plim_status put_text(sink *s, const char *text, plim_error *err) { return put(s, text, strlen(text), err); }

/* A JSON string: quotes, backslashes and control characters escaped, all else as it is. */
static plim_status put_string(sink *s, const char *text, plim_error *err)
{
    char escape[8];
    PLIM_TRY(put(s, "\"", 1, err));
    for (; *text; text++) {
        const uint8_t c = (uint8_t)*text;
        if (c == '"' || c == '\\') PLIM_TRY(put(s, "\\", 1, err));
        if (c >= ' ') {
            PLIM_TRY(put(s, text, 1, err));
        } else {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            PLIM_TRY(put_text(s, escape, err));
        }
    }
    return put(s, "\"", 1, err);
}

static plim_status put_metadata(sink *s, const plim__safetensors_text *text, uint32_t n, plim_error *err)
{
    PLIM_TRY(put_string(s, PLIM__SAFETENSORS_METADATA, err));
    PLIM_TRY(put_text(s, ":{", err));
    for (uint32_t i = 0; i < n; i++) {
        if (i) PLIM_TRY(put_text(s, ",", err));
        PLIM_TRY(put_string(s, text[i].key, err));
        PLIM_TRY(put_text(s, ":", err));
        PLIM_TRY(put_string(s, text[i].value, err));
    }
    return put_text(s, "}", err);
}

static plim_status put_tensor(sink *s, const plim__tensor_spec *t, uint64_t begin, uint64_t end, plim_error *err)
{
    char text[80];
    PLIM_TRY(put_string(s, t->name, err));
    PLIM_TRY(put_text(s, ":{\"dtype\":\"", err));
    PLIM_TRY(put_text(s, plim__safetensors_dtype_name(t->dtype), err));
    PLIM_TRY(put_text(s, "\",\"shape\":[", err));
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        snprintf(text, sizeof text, "%s%" PRId64, d ? "," : "", t->shape.dim[d]);
        PLIM_TRY(put_text(s, text, err));
    }
    snprintf(text, sizeof text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
    return put_text(s, text, err);
}

/* What is to be written. */
typedef struct content {
    const plim__tensor_spec *tensor;
    const plim__safetensors_text *text;
    uint32_t n, n_texts;
} content;

/* Calls `each` for the tensors in the order of the file. @param end  bytes of all of them */
typedef plim_status each_tensor(void *ctx, uint32_t i, uint64_t begin, uint64_t bytes, plim_error *err);

static plim_status in_order(const content *c, each_tensor *each, void *ctx, uint64_t *end, plim_error *err)
{
    *end = 0;
    for (uint64_t size = 8; size > 0; size /= 2)
        for (uint32_t i = 0; i < c->n; i++) {
            uint64_t bytes = 0;
            if (plim_dtype_bytes(c->tensor[i].dtype) != size) continue;
            PLIM_TRY(plim_shape_bytes(&bytes, &c->tensor[i].shape, c->tensor[i].dtype, err));
            PLIM_TRY(each(ctx, i, *end, bytes, err));
            *end += bytes; /* plim__safetensors_check has bounded the sum */
        }
    return PLIM_OK;
}

typedef struct header {
    const content *c;
    sink *s;
    bool more; /* something stands before */
} header;

static plim_status header_tensor(void *ctx, uint32_t i, uint64_t begin, uint64_t bytes, plim_error *err)
{
    header *h = ctx;
    if (h->more) PLIM_TRY(put_text(h->s, ",", err));
    h->more = true;
    return put_tensor(h->s, &h->c->tensor[i], begin, begin + bytes, err);
}

/* The header with its blanks. @param data  bytes behind it */
static plim_status put_header(sink *s, const content *c, uint64_t *data, plim_error *err)
{
    header h = {.c = c, .s = s, .more = c->n_texts > 0};
    PLIM_TRY(put_text(s, "{", err));
    if (c->n_texts) PLIM_TRY(put_metadata(s, c->text, c->n_texts, err));
    PLIM_TRY(in_order(c, header_tensor, &h, data, err));
    PLIM_TRY(put_text(s, "}", err));
    while ((8 + s->count) % ALIGN) PLIM_TRY(put_text(s, " ", err));
    return sink_flush(s, err);
}

/* -------------------------------------------------------------------------------------------------------- the whole */

typedef struct data {
    const content *c;
    plim__file_writer *w;
    plim__tensor_reader reader;
} data;

static plim_status data_tensor(void *ctx, uint32_t i, uint64_t begin, uint64_t bytes, plim_error *err)
{
    const data *d = ctx;
    (void)begin;
    const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return plim__file_writer_tensor(d->w, d->reader, i, bytes, big ? (uint32_t)plim_dtype_bytes(d->c->tensor[i].dtype) : 0, err);
}

static plim_status write_all(plim__file_writer *w, const content *c, uint64_t head, plim__tensor_reader reader, plim_error *err)
{
    uint8_t length[8];
    uint64_t end;
    sink s = {.to = w};
    data d = {.c = c, .w = w, .reader = reader};
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(head >> 8 * i);
    PLIM_TRY(plim__file_writer_put(w, length, sizeof length, err));
    PLIM_TRY(put_header(&s, c, &end, err));
    PLIM_ASSERT(s.count == head && w->written == 8 + head);
    return in_order(c, data_tensor, &d, &end, err);
}

plim_status plim__safetensors_write(const plim__os *os, const char *path, const plim__tensor_spec *tensor, uint32_t n,
                                    const plim__safetensors_text *text, uint32_t n_texts, plim__tensor_reader reader, plim__alloc alloc,
                                    plim_error *err)
{
    const content c = {.tensor = tensor, .text = text, .n = n, .n_texts = n_texts};
    plim__file_writer w;
    uint64_t bytes = 0;
    sink counted = {.to = NULL};
    PLIM_TRY(plim__safetensors_check(path, tensor, n, alloc, err));
    PLIM_TRY(check_texts(path, text, n_texts, alloc, err));
    PLIM_TRY(put_header(&counted, &c, &bytes, err));
    if (counted.count > PLIM__SAFETENSORS_HEAD_MAX)
        return plim__array_fail(err, PLIM_E_UNSUPPORTED, path, 0, "%u tensors need a header of %llu bytes, which is too large", n,
                                (unsigned long long)counted.count);
    PLIM_TRY(plim__file_writer_open(&w, os, path, 8 + counted.count + bytes, err));
    plim_status status = reader.read ? write_all(&w, &c, counted.count, reader, err) : PLIM_OK;
    if (status == PLIM_OK && reader.read) status = plim__file_writer_commit(&w, err);
    plim__file_writer_drop(&w);
    return status;
}
