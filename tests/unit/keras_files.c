/* The Keras reader's files: archives and .h5 files made with the HDF5 library, whole and cut off; the models in tests/models. */
#include "keras_net.h"

#include <hdf5.h>
#include <zlib.h>

/* ---------------------------------------------------------------------------------------------------------------- files */

static void h5_group(hid_t file, const char *path)
{
    const hid_t list = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(list, 1);
    if (H5Lexists(file, path, H5P_DEFAULT) <= 0) H5Gclose(H5Gcreate2(file, path, list, H5P_DEFAULT, H5P_DEFAULT));
    H5Pclose(list);
}

/* A dataset of f32: first, first + 1, ... */
static void h5_data(hid_t file, const char *path, int rank, const hsize_t *dims, float first, bool chunked)
{
    hsize_t n = 1;
    for (int d = 0; d < rank; d++) n *= dims[d];
    float *data = malloc(n * sizeof *data);
    for (hsize_t i = 0; i < n; i++) data[i] = first + (float)i;
    const hid_t list = H5Pcreate(H5P_LINK_CREATE), create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, dims, NULL);
    H5Pset_create_intermediate_group(list, 1);
    if (chunked) H5Pset_chunk(create, rank, dims);
    const hid_t set = H5Dcreate2(file, path, H5T_IEEE_F32LE, space, list, create, H5P_DEFAULT);
    assert_true(set >= 0 && H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(list);
    free(data);
}

static void h5_text(hid_t file, const char *object, const char *name, const char *value)
{
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), at_object = H5Oopen(file, object, H5P_DEFAULT);
    H5Tset_size(type, H5T_VARIABLE);
    const hid_t attr = H5Acreate2(at_object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attr, type, &value) >= 0);
    H5Aclose(attr);
    H5Oclose(at_object);
    H5Sclose(space);
    H5Tclose(type);
}

static void h5_texts(hid_t file, const char *object, const char *name, const char (*value)[32], hsize_t n)
{
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL), at_object = H5Oopen(file, object, H5P_DEFAULT);
    H5Tset_size(type, 32);
    const hid_t attr = H5Acreate2(at_object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attr, type, value) >= 0);
    H5Aclose(attr);
    H5Oclose(at_object);
    H5Sclose(space);
    H5Tclose(type);
}

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

static void put(FILE *f, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) fputc(i < 8 ? (int)(x >> 8 * i & 255) : 0, f);
}

/* A zip archive of whole files of the test's folder, as zipfile writes them: stored. */
static void write_zip(const char *name, const char *const *members, size_t n, uint16_t method)
{
    FILE *f = fopen(files_path(name), "wb");
    uint64_t place[8], size[8];
    uint32_t crc[8];
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        uint8_t *data = files_read(members[i], &bytes);
        place[i] = (uint64_t)ftell(f);
        size[i] = bytes;
        crc[i] = (uint32_t)crc32(0, data, (uInt)bytes);
        put(f, 0x04034b50, 4), put(f, 20, 2), put(f, 0, 2), put(f, method, 2), put(f, 0, 4), put(f, crc[i], 4), put(f, bytes, 4), put(f, bytes, 4);
        put(f, strlen(members[i]), 2), put(f, 0, 2);
        fputs(members[i], f);
        fwrite(data, 1, bytes, f);
        free(data);
    }
    const uint64_t at_end = (uint64_t)ftell(f);
    for (size_t i = 0; i < n; i++) {
        put(f, 0x02014b50, 4), put(f, 20, 2), put(f, 20, 2), put(f, 0, 2), put(f, method, 2), put(f, 0, 4), put(f, crc[i], 4), put(f, size[i], 4),
                put(f, size[i], 4);
        put(f, strlen(members[i]), 2), put(f, 0, 12), put(f, place[i], 4);
        fputs(members[i], f);
    }
    const uint64_t bytes = (uint64_t)ftell(f) - at_end;
    put(f, 0x06054b50, 4), put(f, 0, 4), put(f, n, 2), put(f, n, 2), put(f, bytes, 4), put(f, at_end, 4), put(f, 0, 2);
    fclose(f);
}

static const char *const members[] = {"metadata.json", "config.json", "model.weights.h5"};

/* Two Dense layers around a nested model with a BatchNormalization, in the form of an archive. */
static const char *archived_config(void)
{
    return quoted("{'module':'keras','class_name':'Sequential','config':{'name':'m','layers':["
                  "{'module':'keras.layers','class_name':'InputLayer','config':{'name':'in','batch_shape':[null,4]}},"
                  "{'module':'keras.layers','class_name':'Dense','config':{'name':'one','units':3}},"
                  "{'module':'keras','class_name':'Sequential','config':{'name':'inner','layers':["
                  "{'module':'keras.layers','class_name':'InputLayer','config':{'name':'i2','batch_shape':[null,3]}},"
                  "{'module':'keras.layers','class_name':'BatchNormalization','config':{'name':'bn'}},"
                  "{'module':'keras.layers','class_name':'Dense','config':{'name':'two','units':3,'use_bias':false}}]}},"
                  "{'module':'keras.layers','class_name':'Dense','config':{'name':'three','units':2}}]}}");
}

static void write_archive(bool chunked, const hsize_t *three)
{
    const char *config = archived_config();
    files_write("config.json", config, strlen(config));
    files_write("metadata.json", "{\"keras_version\": \"3.3.3\"}", 26);
    const hid_t f = H5Fcreate(files_path("model.weights.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    h5_data(f, "layers/dense/vars/0", 2, (hsize_t[]){4, 3}, 100, chunked);
    h5_data(f, "layers/dense/vars/1", 1, (hsize_t[]){3}, 200, false);
    for (int i = 0; i < 4; i++) {
        char path[80];
        snprintf(path, sizeof path, "layers/sequential/layers/batch_normalization/vars/%d", i);
        h5_data(f, path, 1, (hsize_t[]){3}, (float)(300 + 10 * i), false);
    }
    h5_data(f, "layers/sequential/layers/dense/vars/0", 2, (hsize_t[]){3, 3}, 400, false);
    h5_data(f, "layers/dense_1/vars/0", 2, three, 500, false);
    h5_data(f, "layers/dense_1/vars/1", 1, (hsize_t[]){2}, 600, false);
    H5Fclose(f);
    write_zip("m.keras", members, 3, 0);
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
    const hid_t f = H5Fcreate(files_path("m.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    h5_text(f, "/", "model_config", archived_config());
    h5_text(f, "/", "keras_version", "2.13.1");
    h5_data(f, "model_weights/one/one/kernel:0", 2, (hsize_t[]){4, 3}, 100, false);
    h5_data(f, "model_weights/one/one/bias:0", 1, (hsize_t[]){3}, 200, false);
    h5_texts(f, "model_weights/one", "weight_names", (const char[2][32]){"one/kernel:0", "one/bias:0"}, 2);
    static const char names[5][32] = {"bn/gamma:0", "bn/beta:0", "two/kernel:0", "bn/moving_mean:0", "bn/moving_variance:0"};
    h5_data(f, "model_weights/inner/bn/gamma:0", 1, (hsize_t[]){3}, 300, false);
    h5_data(f, "model_weights/inner/bn/beta:0", 1, (hsize_t[]){3}, 310, false);
    h5_data(f, "model_weights/inner/bn/moving_mean:0", 1, (hsize_t[]){3}, 320, false);
    h5_data(f, "model_weights/inner/bn/moving_variance:0", 1, (hsize_t[]){3}, 330, false);
    h5_data(f, "model_weights/inner/two/kernel:0", 2, (hsize_t[]){3, 3}, 400, false);
    h5_texts(f, "model_weights/inner", "weight_names", names, 5);
    h5_data(f, "model_weights/three/three/kernel:0", 2, (hsize_t[]){3, 2}, 500, false);
    h5_data(f, "model_weights/three/three/bias:0", 1, (hsize_t[]){2}, 600, false);
    h5_texts(f, "model_weights/three", "weight_names0", (const char[1][32]){"three/kernel:0"}, 1); /* cut into parts, as long lists are */
    h5_texts(f, "model_weights/three", "weight_names1", (const char[1][32]){"three/bias:0"}, 1);
    h5_group(f, "model_weights/top_level_model_weights");
    H5Fclose(f);
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
