/* For tests of Keras' files: .keras archives and .h5 files with a small model, made with the HDF5 library. */
#ifndef PLIM_TESTS_KERAS_FILE_H
#define PLIM_TESTS_KERAS_FILE_H

#include "keras_net.h"

#include <hdf5.h>
#include <zlib.h>

static inline void h5_group(hid_t file, const char *path)
{
    const hid_t list = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(list, 1);
    if (H5Lexists(file, path, H5P_DEFAULT) <= 0) H5Gclose(H5Gcreate2(file, path, list, H5P_DEFAULT, H5P_DEFAULT));
    H5Pclose(list);
}

/* A dataset of f32: first, first + 1, ... */
static inline void h5_data(hid_t file, const char *path, int rank, const hsize_t *dims, float first, bool chunked)
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

static inline void h5_text(hid_t file, const char *object, const char *name, const char *value)
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

static inline void h5_texts(hid_t file, const char *object, const char *name, const char (*value)[32], hsize_t n)
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

static inline void put(FILE *f, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) fputc(i < 8 ? (int)(x >> 8 * i & 255) : 0, f);
}

/* A zip archive of whole files of the test's folder, as zipfile writes them: stored. @param streamed  CRC and sizes follow the data */
static inline void write_zip_as(const char *name, const char *const *members, size_t n, uint16_t method, bool streamed)
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
        put(f, 0x04034b50, 4), put(f, 20, 2), put(f, streamed ? 8 : 0, 2), put(f, method, 2), put(f, 0, 4);
        put(f, streamed ? 0 : crc[i], 4), put(f, streamed ? 0 : bytes, 4), put(f, streamed ? 0 : bytes, 4);
        put(f, strlen(members[i]), 2), put(f, 0, 2);
        fputs(members[i], f);
        fwrite(data, 1, bytes, f);
        if (streamed) put(f, 0x08074b50, 4), put(f, crc[i], 4), put(f, bytes, 4), put(f, bytes, 4);
        free(data);
    }
    const uint64_t at_end = (uint64_t)ftell(f);
    for (size_t i = 0; i < n; i++) {
        put(f, 0x02014b50, 4), put(f, 20, 2), put(f, 20, 2), put(f, streamed ? 8 : 0, 2), put(f, method, 2), put(f, 0, 4);
        put(f, crc[i], 4), put(f, size[i], 4), put(f, size[i], 4);
        put(f, strlen(members[i]), 2), put(f, 0, 12), put(f, place[i], 4);
        fputs(members[i], f);
    }
    const uint64_t bytes = (uint64_t)ftell(f) - at_end;
    put(f, 0x06054b50, 4), put(f, 0, 4), put(f, n, 2), put(f, n, 2), put(f, bytes, 4), put(f, at_end, 4), put(f, 0, 2);
    fclose(f);
}

static inline void write_zip(const char *name, const char *const *members, size_t n, uint16_t method)
{
    write_zip_as(name, members, n, method, false);
}

static const char *const members[] = {"metadata.json", "config.json", "model.weights.h5"};

/* Two Dense layers around a nested model with a BatchNormalization, in the form of an archive. */
static inline const char *archived_config(void)
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

static inline void write_archive(bool chunked, const hsize_t *three)
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

/* The same model as Keras 2's .h5: a nested model's trainable weights come before all its others. */
static inline void write_hdf5(void)
{
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
}

#endif
