/* Any bytes as an ONNX model, through a system whose one file is the input. What is read is a model whose graph is whole: its ports and
 * parameters are values, and parameters lie inside the file. Whatever is known while reading is computed by the kernels, so these are driven, too. */
#include "models/onnx.h"
#include "one_file.h"

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
    one_file file = {.path = "f/m.onnx", .data = data, .size = size};
    const plim__os os = one_file_os(&file);
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
