/* The header goes through the JSON reader as a whole, then member by member into a list that is checked twice: sorted by place, for overlaps and
 * gaps, and sorted by name, which is how it stays. */
#include "formats/safetensors.h"
#include "core/size.h"
#include "formats/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const dtype_names[PLIM_DTYPE_COUNT] = {
    [PLIM_F64] = "F64", [PLIM_F32] = "F32", [PLIM_F16] = "F16", [PLIM_BF16] = "BF16", [PLIM_I64] = "I64", [PLIM_I32] = "I32", [PLIM_I16] = "I16",
    [PLIM_I8] = "I8",   [PLIM_U64] = "U64", [PLIM_U32] = "U32", [PLIM_U16] = "U16",   [PLIM_U8] = "U8",   [PLIM_BOOL] = "BOOL",
};

const char *plim__safetensors_dtype_name(plim_dtype dtype) { return dtype_names[dtype]; }

/* ------------------------------------------------------------------------------------------------------- the header */

/* The header's text; `*start` is where the tensors' bytes begin. */
static plim_status read_header(const plim__safetensors *f, const plim__os *os, int fd, char **text, uint64_t *start, plim_error *err)
{
    uint8_t length[8];
    uint64_t n = 0;
    const unsigned long long size = f->stat.size;
    if (size < sizeof length) return plim__array_fail(err, PLIM_E_FORMAT, f->path, 0, "%llu bytes; a header's length alone has 8", size);
    PLIM_TRY(plim__array_read(os, fd, length, sizeof length, 0, f->path, err));
    for (int i = 8; i-- > 0;) n = n << 8 | length[i];
    if (n > f->stat.size - sizeof length)
        return plim__array_fail(err, PLIM_E_FORMAT, f->path, 0, "a header of %llu bytes in a file of %llu", (unsigned long long)n, size);
    if (n > PLIM__SAFETENSORS_HEAD_MAX)
        return plim__array_fail(err, PLIM_E_UNSUPPORTED, f->path, 0, "a header of %llu bytes is too large", (unsigned long long)n);
    *text = plim__new(&f->alloc, n, 1, err);
    if (!*text) return PLIM_E_NOMEM;
    *start = sizeof length + n;
    PLIM_TRY(plim__array_read(os, fd, *text, n, sizeof length, f->path, err));
    if (n == 0 || **text != '{') return plim__array_fail(err, PLIM_E_FORMAT, f->path, sizeof length, "the header is not a JSON object");
    return PLIM_OK;
}

static plim_status read_dtype(plim_dtype *out, const plim__json *tensor, plim_error *err)
{
    plim__json j;
    const char *name;
    char shown[40];
    PLIM_TRY(plim__json_get(&j, tensor, "dtype", err));
    PLIM_TRY(plim__json_string(&name, &j, err));
    for (int i = 0; i < PLIM_DTYPE_COUNT; i++)
        if (strcmp(name, dtype_names[i]) == 0) {
            *out = (plim_dtype)i;
            return PLIM_OK;
        }
    plim__array_quote(shown, sizeof shown, (const uint8_t *)name, strlen(name));
    return plim__json_fail(err, PLIM_E_UNSUPPORTED, &j, "'%s' is not supported", shown);
}

static plim_status read_shape(plim_shape *out, const plim__json *tensor, plim_error *err)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, tensor, "shape", err));
    if (plim__json_kind_of(&j) != PLIM__JSON_ARRAY) return plim__json_fail(err, PLIM_E_FORMAT, &j, "not a list");
    const uint32_t rank = plim__json_count(&j);
    if (rank > PLIM_MAX_RANK) return plim__json_fail(err, PLIM_E_UNSUPPORTED, &j, "%u dimensions; %d are supported", rank, PLIM_MAX_RANK);
    *out = (plim_shape){.rank = rank};
    PLIM_TRY(plim__json_integers(out->dim, rank, &j, err));
    for (uint32_t d = 0; d < rank; d++)
        if (out->dim[d] < 0) return plim__json_fail(err, PLIM_E_FORMAT, &j, "an extent of %lld", (long long)out->dim[d]);
    return PLIM_OK;
}

/* Its bytes lie in the file, and are as many as its shape needs. */
static plim_status read_place(plim__safetensor *t, const plim__json *tensor, uint64_t start, uint64_t file_bytes, plim_error *err)
{
    plim__json j;
    plim_error why = {0};
    int64_t at[2];
    uint64_t bytes;
    PLIM_TRY(plim__json_get(&j, tensor, "data_offsets", err));
    PLIM_TRY(plim__json_integers(at, 2, &j, err));
    if (at[0] < 0 || at[1] < at[0] || (uint64_t)at[1] > file_bytes - start)
        return plim__json_fail(err, PLIM_E_FORMAT, &j, "[%lld, %lld) is not inside the %llu bytes behind the header", (long long)at[0],
                               (long long)at[1], (unsigned long long)(file_bytes - start));
    const plim_status status = plim_shape_bytes(&bytes, &t->shape, t->dtype, &why);
    if (status != PLIM_OK) return plim__json_fail(err, status, tensor, "%s", why.message);
    if (bytes != (uint64_t)(at[1] - at[0]))
        return plim__json_fail(err, PLIM_E_FORMAT, &j, "%lld bytes; the shape needs %llu", (long long)(at[1] - at[0]), (unsigned long long)bytes);
    t->begin = start + (uint64_t)at[0];
    t->end = start + (uint64_t)at[1];
    return PLIM_OK;
}

static plim_status read_tensor(plim__safetensors *f, const char *name, const plim__json *j, uint64_t start, plim_error *err)
{
    plim__safetensor t = {0};
    PLIM_TRY(read_dtype(&t.dtype, j, err));
    PLIM_TRY(read_shape(&t.shape, j, err));
    PLIM_TRY(read_place(&t, j, start, f->stat.size, err));
    if (plim__json_count(j) != 3) return plim__json_fail(err, PLIM_E_FORMAT, j, "more than dtype, shape and data_offsets");
    t.name = plim__strdup(&f->alloc, name, err);
    if (!t.name) return PLIM_E_NOMEM;
    f->tensor[f->n_tensors++] = t;
    return PLIM_OK;
}

static plim_status read_metadata(plim__safetensors *f, const plim__json *j, plim_error *err)
{
    void *iter = NULL;
    const char *key, *text;
    plim__json value;
    if (plim__json_kind_of(j) != PLIM__JSON_OBJECT) return plim__json_fail(err, PLIM_E_FORMAT, j, "not an object");
    f->text = plim__new(&f->alloc, plim__json_count(j), sizeof *f->text, err);
    if (!f->text) return PLIM_E_NOMEM;
    while (plim__json_each(j, &iter, &key, &value)) {
        PLIM_TRY(plim__json_string(&text, &value, err));
        plim__safetensors_text *t = &f->text[f->n_texts++];
        t->key = plim__strdup(&f->alloc, key, err);
        t->value = t->key ? plim__strdup(&f->alloc, text, err) : NULL;
        if (!t->value) return PLIM_E_NOMEM;
    }
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

static int compare_places(const void *a, const void *b)
{
    const plim__safetensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int compare_names(const void *a, const void *b)
{
    const plim__safetensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int compare_keys(const void *a, const void *b)
{
    const plim__safetensors_text *x = a, *y = b;
    return strcmp(x->key, y->key);
}

/* Every byte behind the header belongs to exactly one tensor. The list is sorted by place. */
static plim_status check_places(const plim__safetensors *f, uint64_t start, plim_error *err)
{
    char shown[64];
    uint64_t at = start;
    for (uint32_t i = 0; i < f->n_tensors; i++) {
        const plim__safetensor *t = &f->tensor[i];
        plim__array_quote(shown, sizeof shown, (const uint8_t *)t->name, strlen(t->name));
        if (t->begin < at) return plim__array_fail(err, PLIM_E_FORMAT, f->path, t->begin, "tensor '%s' shares bytes with another one", shown);
        if (t->begin > at) break;
        at = t->end;
    }
    if (at != f->stat.size)
        return plim__array_fail(err, PLIM_E_FORMAT, f->path, at, "byte %llu belongs to no tensor", (unsigned long long)at);
    return PLIM_OK;
}

static plim_status read_tensors(plim__safetensors *f, const plim__json *root, uint64_t start, plim_error *err)
{
    void *iter = NULL;
    const char *key;
    plim__json value;
    f->tensor = plim__new(&f->alloc, plim__json_count(root), sizeof *f->tensor, err);
    if (!f->tensor) return PLIM_E_NOMEM;
    while (plim__json_each(root, &iter, &key, &value))
        PLIM_TRY(strcmp(key, PLIM__SAFETENSORS_METADATA) == 0 ? read_metadata(f, &value, err) : read_tensor(f, key, &value, start, err));
    qsort(f->tensor, f->n_tensors, sizeof *f->tensor, compare_places);
    PLIM_TRY(check_places(f, start, err));
    qsort(f->tensor, f->n_tensors, sizeof *f->tensor, compare_names);
    if (f->n_texts) qsort(f->text, f->n_texts, sizeof *f->text, compare_keys);
    return PLIM_OK;
}

static plim_status read_file(plim__safetensors *f, const plim__os *os, int fd, plim_error *err)
{
    char *text = NULL;
    plim__json root = {0};
    uint64_t start = 0;
    plim_status status;
    PLIM_TRY_DONE(read_header(f, os, fd, &text, &start, err));
    PLIM_TRY_DONE(plim__json_parse(&root, text, start - 8, f->path, err));
    PLIM_TRY_DONE(read_tensors(f, &root, start, err));
done:
    plim__json_free(&root);
    plim__free(&f->alloc, text);
    return status;
}

plim_status plim__safetensors_open(plim__safetensors *out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err)
{
    int fd;
    *out = (plim__safetensors){.alloc = alloc};
    out->path = plim__strdup(&alloc, path, err);
    if (!out->path) return PLIM_E_NOMEM;
    plim_status status = plim__file_open(&fd, &out->stat, os, path, err);
    if (status == PLIM_OK) {
        status = read_file(out, os, fd, err);
        os->close(os->self, fd);
    }
    if (status != PLIM_OK) plim__safetensors_free(out);
    return status;
}

void plim__safetensors_free(plim__safetensors *f)
{
    for (uint32_t i = 0; i < f->n_tensors; i++) plim__free(&f->alloc, f->tensor[i].name);
    for (uint32_t i = 0; i < f->n_texts; i++) {
        plim__free(&f->alloc, (void *)(uintptr_t)f->text[i].key);
        plim__free(&f->alloc, (void *)(uintptr_t)f->text[i].value);
    }
    plim__free(&f->alloc, f->tensor);
    plim__free(&f->alloc, f->text);
    plim__free(&f->alloc, f->path);
    *f = (plim__safetensors){0};
}

/* ---------------------------------------------------------------------------------------------------------- a name */

static plim_status fail_missing(const plim__safetensors *f, const char *name, plim_error *err)
{
    char list[200] = "", wanted[64], shown[64], more[48] = "";
    size_t used = 0;
    uint32_t i = 0;
    for (; i < f->n_tensors; i++) {
        plim__array_quote(shown, sizeof shown, (const uint8_t *)f->tensor[i].name, strlen(f->tensor[i].name));
        if (used + strlen(shown) + 2 >= sizeof list) break;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", shown);
    }
    if (i < f->n_tensors) snprintf(more, sizeof more, " and %u more", f->n_tensors - i);
    plim__array_quote(wanted, sizeof wanted, (const uint8_t *)name, strlen(name));
    if (f->n_tensors == 0) return plim__array_fail(err, PLIM_E_INVALID, f->path, 0, "no tensor '%s': there are none", wanted);
    return plim__array_fail(err, PLIM_E_INVALID, f->path, 0, "no tensor '%s'; there are %s%s", wanted, list, more);
}

plim_status plim__safetensors_find(plim__array_file *out, const plim__safetensors *f, const char *name, plim_error *err)
{
    const plim__safetensor key = {.name = (char *)(uintptr_t)name};
    const plim__safetensor *t = f->n_tensors ? bsearch(&key, f->tensor, f->n_tensors, sizeof key, compare_names) : NULL;
    if (!t) return fail_missing(f, name, err);
    plim__array_file found = {.dtype = t->dtype, .shape = t->shape};
    found.source.path = f->path;
    found.source.offset = t->begin;
    found.source.swap = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && plim_dtype_bytes(t->dtype) > 1;
    plim__source_identify(&found.source, &f->stat);
    PLIM_TRY(plim__array_settle(&found, f->stat.size, f->path, err));
    *out = found;
    return PLIM_OK;
}

const char *plim__safetensors_metadata(const plim__safetensors *f, const char *key)
{
    const plim__safetensors_text wanted = {.key = key};
    const plim__safetensors_text *t = f->n_texts ? bsearch(&wanted, f->text, f->n_texts, sizeof wanted, compare_keys) : NULL;
    return t ? t->value : NULL;
}
