/* Any bytes as a Keras model, through a system whose one file is the input: JSON text, or an archive around it. What comes out is a graph whose sizes
 * were all checked, or a message. Bytes with an HDF5 signature go no further than the archive: that part is another library's parser. */
#include "models/keras.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

typedef struct input {
    const uint8_t *data;
    uint64_t size;
} input;

static int in_open(void *self, const char *path, int flags, int mode) { return (void)self, (void)path, (void)flags, (void)mode, 3; }
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .size = size};
    const plim__os os = {.self = &in, .open = in_open, .close = in_close, .pread = in_pread, .stat = in_stat};
    if (memmem(data, size, PLIM__HDF5_SIGNATURE, 8)) return 0;
    const plim__dim_binding dim = {"in", 5};
    for (int training = 0; training < 2; training++) {
        const plim__model_options o = {.batch = training ? 3 : 0, .training = training, .dim = &dim, .n_dims = training};
        plim__model *m = NULL;
        plim_error err = {0};
        if (plim__keras_read_from(&m, &os, "f.json", &o, (plim__alloc){0}, &err) != PLIM_OK) {
            CHECK(err.code != PLIM_OK && err.message[0] && !m);
            continue;
        }
        CHECK(m->n_inputs > 0 && m->n_outputs > 0);
        for (uint32_t i = 0; i < m->n_params; i++) CHECK(m->param[i].value < m->graph->n_values && m->param[i].layer < m->n_layers);
        plim__model_free(&m);
    }
    return 0;
}
