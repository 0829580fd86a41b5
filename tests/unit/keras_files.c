/* The Keras reader's files: archives and .h5 files made with the HDF5 library, whole and cut off; the models in tests/models. */
#include "keras_net.h"

#include "keras_file.h"

/* ---------------------------------------------------------------------------------------------------------------- files */

/* Where a parameter says its data is, in the file. */
static float stored(const plim__model *m, uint32_t p, uint64_t i)
{
    const plim__source *s = &m->graph->source[m->graph->value[m->param[p].value].source];
    float v;
    FILE *f = fopen(s->path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(s->offset + 4 * i), SEEK_SET), 0);
    assert_int_equal(fread(&v, 4, 1, f), 1);
    fclose(f);
    assert_int_equal(m->param[p].init, PLIM__INIT_FILE);
    assert_true(s->file_bytes > 0 && s->inode > 0);
    return v;
}

static void reads_archives(void **state)
{
    (void)state;
    plim__model *m;
    plim_error err = {0};
    static const float first[] = {100, 200, 300, 310, 320, 330, 400, 500, 600};
    write_archive(false, (hsize_t[]){3, 2});
    if (plim__keras_read(&m, files_path("m.keras"), NULL, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(m->n_params, COUNT_OF(first));
    for (uint32_t p = 0; p < m->n_params; p++) {
        assert_true(stored(m, p, 0) == first[p]);
        assert_true(stored(m, p, 1) == first[p] + 1);
    }
    assert_string_equal(m->param[6].name, "inner/two/kernel");
    plim__model_free(&m);

    write_archive(false, (hsize_t[]){2, 3});
    err = (plim_error){0};
    assert_int_equal(plim__keras_read(&m, files_path("m.keras"), NULL, (plim__alloc){0}, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "'layers/dense_1/vars/0' is f32[2,3], and layer 'three' needs f32[3,2]"));
    write_archive(true, (hsize_t[]){3, 2});
    err = (plim_error){0};
    assert_int_equal(plim__keras_read(&m, files_path("m.keras"), NULL, (plim__alloc){0}, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'layers/dense/vars/0': its data does not lie in one piece"));

    write_archive(false, (hsize_t[]){3, 2});
    write_zip("m.keras", members, 3, 8);
    err = (plim_error){0};
    assert_int_not_equal(plim__keras_read(&m, files_path("m.keras"), NULL, (plim__alloc){0}, &err), PLIM_OK); /* it says deflated and is not */
    write_zip("m.keras", members, 2, 0);
    err = (plim_error){0};
    assert_int_equal(plim__keras_read(&m, files_path("m.keras"), NULL, (plim__alloc){0}, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "no member 'model.weights.h5'"));
}

static void survives_cut_archives(void **state)
{
    (void)state;
    write_archive(false, (hsize_t[]){3, 2});
    size_t n, n_weights;
    uint8_t *whole = files_read("m.keras", &n), *weights = files_read("model.weights.h5", &n_weights);
    for (size_t i = 0; i < n; i += 997) {
        plim__model *m;
        plim_error err = {0};
        files_write("cut.keras", whole, i);
        assert_int_equal(plim__keras_read(&m, files_path("cut.keras"), NULL, (plim__alloc){0}, &err), PLIM_E_FORMAT);
        assert_null(m);
    }
    for (size_t i = 0; i < n_weights; i += 331) { /* a whole archive around a cut file of weights */
        plim__model *m;
        plim_error err = {0};
        files_write("model.weights.h5", weights, i);
        write_zip("cut.keras", members, 3, 0);
        assert_int_equal(plim__keras_read(&m, files_path("cut.keras"), NULL, (plim__alloc){0}, &err), PLIM_E_FORMAT);
        assert_non_null(strstr(err.message, "cut.keras"));
    }
    free(whole);
    free(weights);
}

/* Keras 2's .h5: a nested model's trainable weights come before all its others. */
static void reads_hdf5(void **state)
{
    (void)state;
    plim__model *m;
    plim_error err = {0};
    write_hdf5();
    static const float first[] = {100, 200, 300, 310, 320, 330, 400, 500, 600};
    if (plim__keras_read(&m, files_path("m.h5"), NULL, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    for (uint32_t p = 0; p < m->n_params; p++) assert_true(stored(m, p, 1) == first[p] + 1);
    plim__model_free(&m);

    const hid_t w = H5Fcreate(files_path("w.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    h5_group(w, "layers");
    H5Fclose(w);
    err = (plim_error){0};
    assert_int_equal(plim__keras_read(&m, files_path("w.h5"), NULL, (plim__alloc){0}, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "without attribute model_config"));
}

/* ------------------------------------------------------------------------------------------------------------ the folder */

static void reads_the_known_models(void **state)
{
    (void)state;
    static const struct {
        const char *path, *out;
        uint64_t params;
    } known[] = {
        {"small", "[3,10]", 1270986}, {"wide", "[3,10]", 83559626},  {"deep", "[3,10]", 18305290},
        {"slim", "[3,10]", 76938},    {"resnet50", "[3,1000]", 25636712}, {"unet", "[3,2048,2048,1]", 482033},
    };
    for (size_t i = 0; i < 2 * COUNT_OF(known); i++) {
        char path[256];
        plim__model *m;
        plim_error err = {0};
        uint64_t total = 0, n;
        snprintf(path, sizeof path, "%s/tests/models/%s.json", PLIM_SOURCE_DIR, known[i / 2].path);
        const plim__model_options o = {.batch = 3, .training = i & 1};
        if (plim__keras_read(&m, path, &o, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
        for (uint32_t p = 0; p < m->n_params; p++) {
            assert_int_equal(plim_shape_count(&n, &m->graph->value[m->param[p].value].shape, NULL), PLIM_OK);
            total += n;
            assert_true(m->param[p].layer > 0 && m->param[p].layer < m->n_layers);
        }
        if (total != known[i / 2].params) fail_msg("%s has %llu parameters", known[i / 2].path, (unsigned long long)total);
        expect_shape(&m->graph->value[m->output[0].value].shape, known[i / 2].out);
        plim__model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_archives),
        cmocka_unit_test(survives_cut_archives),
        cmocka_unit_test(reads_hdf5),
        cmocka_unit_test(reads_the_known_models),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
