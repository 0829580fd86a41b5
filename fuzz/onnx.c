/* Any bytes as an ONNX model, through a system whose one file is the input. What is read is a model whose graph is whole: its ports and
 * parameters are values, and parameters lie inside the file. Whatever is known while reading is computed by the kernels, so these are driven, too. */
#include "models/onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

typedef struct input {
    const uint8_t *data;
    uint64_t size;
} input;

static int in_open(void *self, const char *path, int flags, int mode)
{
    (void)self, (void)flags, (void)mode;
    CHECK(strstr(path, "..") == NULL && (path[0] != '/')); /* external data stays inside the folder */
    return strcmp(path, "f/m.onnx") == 0 ? 3 : -ENOENT;
}

static int in_close(void *self, int fd) { return (void)self, (void)fd, 0; }

static int64_t in_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    const input *in = self;
    (void)fd;
    CHECK(off <= in->size && n <= in->size - off); /* the reader never asks for what is not there */
    memcpy(buf, in->data + off, n);
    return (int64_t)n;
}

static int in_stat(void *self, int fd, plim__stat *out)
{
    const input *in = self;
    (void)fd;
    *out = (plim__stat){.size = in->size, .inode = 1, .regular = true};
    return 0;
}

/* No single block of memory may be much larger than what a file of a few KiB can justify. */
static void *bounded(void *ctx, void *old, size_t size)
{
    (void)ctx;
    if (size == 0) return free(old), NULL;
    return size > UINT64_C(512) << 20 ? NULL : realloc(old, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .size = size};
    const plim__os os = {.self = &in, .open = in_open, .close = in_close, .pread = in_pread, .stat = in_stat};
    for (int training = 0; training < 2; training++) {
        const plim__model_options options = {.batch = training ? 3 : 0, .training = training};
        plim__model *m = NULL;
        plim_error err = {0};
        if (plim__onnx_read_from(&m, &os, "f/m.onnx", &options, (plim__alloc){.hook = bounded}, &err) != PLIM_OK) {
            CHECK(!m && err.code != PLIM_OK && err.message[0]);
            continue;
        }
        for (uint32_t i = 0; i < m->n_inputs; i++) CHECK(m->input[i].value < m->graph->n_values);
        CHECK(m->n_outputs > 0);
        for (uint32_t i = 0; i < m->n_outputs; i++) CHECK(m->output[i].value < m->graph->n_values);
        for (uint32_t i = 0; i < m->n_params; i++) {
            const plim__value *v = &m->graph->value[m->param[i].value];
            const plim__source *s = &m->graph->source[v->source];
            CHECK(v->bytes <= size && s->offset <= size - v->bytes);
        }
        plim__model_free(&m);
    }
    return 0;
}
