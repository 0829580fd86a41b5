/* Trained copies of Keras' files: the bytes of parameters are new, all others are the original's, but for the archive's checksum. */
#include "keras_net.h"

#include "formats/zip.h"
#include "keras_file.h"
#include "models/keras_save.h"
#include "save_faults.h"
#include "saved_values.h"

static const bool all_new[16] = {true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true};

static plim__model *read_model(const char *name, plim__model_form form)
{
    plim__model *m;
    plim_error err = {0};
    const plim__model_options o = {.training = true};
    if (plim__keras_read(&m, files_path(name), &o, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(m->form, form);
    assert_int_equal(m->n_params, 9);
    return m;
}

static void save_ok(const plim__model *m, const char *from, const char *to)
{
    plim_error err = {0};
    const plim__tensor_reader readers[] = {{0}, saved_reader}; /* could it be, and do it */
    for (int i = 0; i < 2; i++)
        if (plim__keras_save(m, &plim__os_linux, readers[i], files_path(from), files_path(to), &err) != PLIM_OK) fail_msg("%s", err.message);
}

static void refused(const plim__model *m, const char *from, const char *to, plim_status code, const char *says)
{
    plim_error err = {0};
    const plim_status status = plim__keras_save(m, &plim__os_linux, saved_reader, files_path(from), files_path(to), &err);
    if (status != code || !strstr(err.message, says)) fail_msg("%s: %s, not '%s'", plim_status_name(status), err.message, says);
    assert_int_equal(plim__keras_save(m, &plim__os_linux, (plim__tensor_reader){0}, files_path(from), files_path(to), NULL), code);
    assert_int_equal(files_temporary(), 0);
}

/* The member's CRC, as the archive has it and as it is. @param at  where it stands */
static void check_crc(const char *name, uint64_t at[2])
{
    plim__zip_member m;
    plim__stat st;
    plim_error err = {0};
    plim__zip z = {.os = &plim__os_linux, .path = files_path(name)};
    assert_int_equal(plim__file_open(&z.fd, &st, z.os, z.path, &err), PLIM_OK);
    z.bytes = st.size;
    if (plim__zip_find(&m, &z, PLIM__KERAS_WEIGHTS_MEMBER, "", &err) != PLIM_OK) fail_msg("%s", err.message);
    if (plim__zip_crc_places(at, &z, &m, &err) != PLIM_OK) fail_msg("%s", err.message);
    close(z.fd);
    size_t n;
    uint8_t *all = files_read(name, &n);
    assert_int_equal(crc32(0, all + m.data, (uInt)m.size), m.crc);
    free(all);
}

static void test_archives(void **state)
{
    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        uint64_t at[2];
        write_archive(false, (hsize_t[]){3, 2});
        if (streamed) write_zip_as("m.keras", members, 3, 0, true);
        plim__model *m = read_model("m.keras", PLIM__MODEL_KERAS);
        save_ok(m, "m.keras", "new.keras");
        check_crc("new.keras", at);
        saved_compare(m, "m.keras", "new.keras", all_new, at);
        plim__model *copy = read_model("new.keras", PLIM__MODEL_KERAS);
        for (uint32_t p = 0; p < m->n_params; p++) assert_int_equal(copy->param[p].home.offset, m->param[p].home.offset);
        plim__model_free(&copy);
        if (files_have_numpy())
            assert_true(files_python("import zipfile\nz = zipfile.ZipFile('new.keras')\nassert z.testzip() is None and len(z.namelist()) == 3\n"));
        plim__model_free(&m);
    }
}

static void test_hdf5(void **state)
{
    (void)state;
    write_hdf5();
    plim__model *m = read_model("m.h5", PLIM__MODEL_HDF5);
    m->param[4].update = PLIM__NONE; /* a running mean that is neither trained nor updated */
    m->param[0].home.swap = true;    /* as if it were stored in the other order */
    assert_false(m->param[4].trainable);
    save_ok(m, "m.h5", "new.h5");
    bool is_new[16];
    memcpy(is_new, all_new, sizeof is_new);
    is_new[4] = false;
    saved_compare(m, "m.h5", "new.h5", is_new, NULL);
    plim__model *copy = read_model("new.h5", PLIM__MODEL_HDF5);
    plim__model_free(&copy);
    plim__model_free(&m);
}

static void test_refusals(void **state)
{
    (void)state;
    write_hdf5();
    plim__model *m = read_model("m.h5", PLIM__MODEL_HDF5);
    refused(m, "m.h5", "m.h5", PLIM_E_INVALID, "is the model that is trained");
    refused(m, "gone.h5", "x.h5", PLIM_E_IO, "gone.h5");
    refused(m, "m.h5", "nowhere/x.h5", PLIM_E_IO, "nowhere");
    assert_int_equal(truncate(files_path("m.h5"), 1000), 0);
    refused(m, "m.h5", "x.h5", PLIM_E_CHANGED, "m.h5' changed since it was read");
    plim__model_free(&m);

    const hid_t f = H5Fcreate(files_path("bare.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); /* an architecture without weights */
    h5_text(f, "/", "model_config", archived_config());
    H5Fclose(f);
    m = read_model("bare.h5", PLIM__MODEL_HDF5);
    refused(m, "bare.h5", "x.h5", PLIM_E_UNSUPPORTED, "bare.h5' has no data of parameter 'one/kernel' that new values could replace");
    plim__model_free(&m);
}

static plim_status save(const plim__os *os, const void *arg, plim_error *err)
{
    return plim__keras_save(arg, os, saved_reader, files_path("m.keras"), files_path("f.keras"), err);
}

static void test_failures(void **state)
{
    (void)state;
    write_archive(false, (hsize_t[]){3, 2});
    plim__model *m = read_model("m.keras", PLIM__MODEL_KERAS);
    save_survives(save, m, "f.keras");
    plim__model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archives), cmocka_unit_test(test_hdf5), cmocka_unit_test(test_refusals), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("keras_save", tests, files_begin, files_end);
}
