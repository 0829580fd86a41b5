/* Any bytes as a Keras model, through a system whose one file is the input: JSON text, or an archive around it. What comes out is a graph whose sizes
 * were all checked, or a message. Bytes with an HDF5 signature go no further than the archive: that part is another library's parser. */
#include "models/keras.h"
#include "one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_file file = {.path = "f.json", .data = data, .size = size};
    const plim__os os = one_file_os(&file);
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
