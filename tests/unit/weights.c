/* Parameters by name: out to a safetensors file and back, what does not fit, which endings go with which models. */
#include "keras_net.h"

#include "countdown.h"
#include "formats/safetensors_write.h"
#include "models/param_init.h"
#include "models/weights.h"
#include "onnx_file.h"
#include "saved_values.h"
#include "save_faults.h"

static plim__model *read_known(const char *name, plim__alloc alloc)
{
    char path[256];
    plim__model *m;
    plim_error err = {0};
    snprintf(path, sizeof path, "%s/tests/models/%s.json", PLIM_SOURCE_DIR, name);
    if (plim__keras_read(&m, path, &(plim__model_options){.batch = 2, .training = true}, alloc, &err) != PLIM_OK) fail_msg("%s", err.message);
    return m;
}

static plim__model *read_slim(plim__alloc alloc) { return read_known("slim", alloc); }

static void save_initial(const plim__model *m, uint64_t seed, const char *name)
{
    plim__param_filler f;
    plim_error err = {0};
    plim__param_filler_open(&f, m, &plim__os_linux, seed);
    const plim__tensor_reader r = plim__param_filler_reader(&f);
    if (plim__model_save(m, &plim__os_linux, r, "slim.json", files_path(name), &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(plim__param_filler_close(&f, &err), PLIM_OK);
}

static void test_round_trip(void **state)
{
    (void)state;
    plim_error err = {0};
    uint32_t extra = 9;
    plim__model *a = read_slim((plim__alloc){0}), *b = read_slim((plim__alloc){0});
    save_initial(a, 77, "w.safetensors");
    if (plim__weights_bind(b, &plim__os_linux, files_path("w.safetensors"), &extra, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(extra, 0);
    plim__param_filler fa, fb;
    plim__param_filler_open(&fa, a, &plim__os_linux, 77);
    plim__param_filler_open(&fb, b, &plim__os_linux, 1);
    for (uint32_t p = 0; p < a->n_params; p++) {
        const plim__value *v = &a->graph->value[a->param[p].value];
        const uint64_t n = v->bytes / plim_dtype_bytes(v->dtype);
        void *x = malloc(v->bytes), *y = malloc(v->bytes);
        assert_int_equal(plim__param_fill(&fa, p, 0, x, n, &err), PLIM_OK);
        assert_int_equal(plim__param_fill(&fb, p, 0, y, n, &err), PLIM_OK);
        assert_int_equal(b->param[p].init, PLIM__INIT_FILE);
        assert_memory_equal(x, y, v->bytes);
        free(x), free(y);
    }
    assert_int_equal(plim__param_filler_close(&fa, &err), PLIM_OK);
    assert_int_equal(plim__param_filler_close(&fb, &err), PLIM_OK);
    plim__model_free(&a);
    plim__model_free(&b);
}

static void write_list(const plim__tensor_spec *list, uint32_t n)
{
    plim_error err = {0};
    if (plim__safetensors_write(&plim__os_linux, files_path("l.safetensors"), list, n, NULL, 0, saved_reader, (plim__alloc){0}, &err) != PLIM_OK)
        fail_msg("%s", err.message);
}

static void misfit(plim__model *m, plim_status code, const char *says)
{
    plim_error err = {0};
    const plim__init was = m->param[0].init;
    const plim_status status = plim__weights_bind(m, &plim__os_linux, files_path("l.safetensors"), NULL, &err);
    if (status != code || !strstr(err.message, says)) fail_msg("%s: %s, not '%s'", plim_status_name(status), err.message, says);
    assert_int_equal(m->param[0].init, was);
    assert_string_equal(m->graph->source[m->graph->value[m->param[0].value].source].path, "");
}

static const char *two_dense(void)
{
    return sequential(INPUT("[null,4]") "," LAYER("Dense", "a", ",'units':3") "," LAYER("Dense", "b", ",'units':2"));
}

static void test_misfits(void **state)
{
    (void)state;
    plim__model *m;
    plim_error err;
    uint32_t extra;
    plim__tensor_spec list[] = {{"more", PLIM_F32, {0}}, {"a/kernel", PLIM_F32, {2, {4, 3}}}, {"a/bias", PLIM_F32, {1, {3}}},
                                {"b/kernel", PLIM_F32, {2, {3, 2}}}, {"b/bias", PLIM_F32, {1, {2}}}, {"step", PLIM_I64, {0}}};
    assert_int_equal(read_text(&m, two_dense(), NULL, &err), PLIM_OK);
    write_list(list, 4);
    misfit(m, PLIM_E_INVALID, "l.safetensors: 1 of the model's 4 parameters do not fit: 'b/bias' is missing");
    write_list(list, 1);
    misfit(m, PLIM_E_INVALID, "4 of the model's 4 parameters do not fit: 'a/kernel' is missing, 'a/bias' is missing, 'b/kernel' is missing, 'b");
    list[1].dtype = PLIM_F16;
    list[3].shape.dim[0] = 2;
    write_list(list, 6);
    misfit(m, PLIM_E_INVALID, "2 of the model's 4 parameters do not fit: 'a/kernel' is f16[4,3], not f32[4,3], 'b/kernel' is f32[2,2], not f32[3,2]");
    list[1].dtype = PLIM_F32;
    list[3].shape.dim[0] = 3;
    write_list(list, 6);
    if (plim__weights_bind(m, &plim__os_linux, files_path("l.safetensors"), &extra, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(extra, 2);
    plim__model_free(&m);

    assert_int_equal(read_text(&m, two_dense(), NULL, &err), PLIM_OK);
    memcpy(m->param[2].name, "a/kernel", 9);
    misfit(m, PLIM_E_INVALID, "two tensors are called 'a/kernel'");
    err = (plim_error){0};
    assert_int_equal(plim__model_save_check(m, &plim__os_linux, "m.json", files_path("o.safetensors"), &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "two tensors are called 'a/kernel'; in this file each needs a name of its own"));
    memcpy(m->param[2].name, "b/kernel", 9);
    err = (plim_error){0};
    assert_int_equal(plim__model_save_check(m, &plim__os_linux, "m.json", files_path("o.safetensors"), &err), PLIM_OK);
    assert_true(!files_exist("o.safetensors") && files_temporary() == 0);
    assert_int_equal(plim__model_save_check(m, &plim__os_linux, "m.json", files_path("nowhere/o.safetensors"), &err), PLIM_E_IO);
    assert_non_null(strstr(err.message, "/nowhere"));
    files_write("l.safetensors", "nonsense", 8);
    misfit(m, PLIM_E_FORMAT, "l.safetensors");
    plim__model_free(&m);
}

/* A message that has no room for all counts the rest. */
static void test_many_misfits(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__model *m = read_known("resnet50", (plim__alloc){0});
    write_list(NULL, 0);
    char says[80];
    snprintf(says, sizeof says, "l.safetensors: %u of the model's %u parameters do not fit: '", m->n_params, m->n_params);
    assert_int_equal(plim__weights_bind(m, &plim__os_linux, files_path("l.safetensors"), NULL, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, says));
    if (!strstr(err.message, " more")) fail_msg("%s", err.message);
    plim__model_free(&m);
}

static void cannot(const plim__model *m, const char *name, const char *says)
{
    plim_error err = {0};
    const plim_status status = plim__model_save(m, &plim__os_linux, saved_reader, "model", files_path(name), &err);
    if (status != PLIM_E_INVALID || !strstr(err.message, says)) fail_msg("%s: %s, not '%s'", plim_status_name(status), err.message, says);
    assert_int_equal(plim__model_save_check(m, &plim__os_linux, "model", files_path(name), NULL), PLIM_E_INVALID);
    assert_false(files_exist(name));
}

static void test_endings(void **state)
{
    (void)state;
    plim__model *m = read_slim((plim__alloc){0});
    static const char *const wrong[] = {"o.keras", "o.h5", "o.onnx", "o", "o.bin", ".onnx"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        cannot(m, wrong[i], "an architecture in JSON, without a place for weights: save its parameters as .safetensors");
    m->form = PLIM__MODEL_KERAS;
    cannot(m, "o.h5", "a .keras archive: a trained copy can be saved as .keras");
    m->form = PLIM__MODEL_HDF5;
    cannot(m, "o.keras", "an HDF5 file: a trained copy can be saved as .h5");
    m->form = PLIM__MODEL_ONNX;
    cannot(m, "o.keras", "an ONNX file: a trained copy can be saved as .onnx");
    m->form = PLIM__MODEL_MADE;
    cannot(m, "o.onnx", "has no file of its own");
    plim__model_free(&m);
}

/* Weights from elsewhere, saved as a copy of the model: there are all of them in it, trained or not. */
static void test_onnx(void **state)
{
    (void)state;
    static const float w[6] = {1, 2, 3, 4, 5, 6}, b[3] = {7, 8, 9};
    plim__model *m;
    plim_error err = {0};
    pb g = {0};
    size_t n;
    onnx_input(&g, "x", ONNX_F32, "N,2");
    onnx_output(&g, "y");
    onnx_init_f32(&g, "w", "2,3", 6, w);
    onnx_init_f32(&g, "b", "3", 3, b);
    onnx_node(&g, "Gemm", "x w b", "y", NULL);
    onnx_save("m.onnx", &g, 13);
    if (plim__model_read(&m, files_path("m.onnx"), &(plim__model_options){0}, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    for (uint32_t p = 0; p < m->n_params; p++) m->param[p].trainable = false;
    write_list((plim__tensor_spec[]){{"b", PLIM_F32, {1, {3}}}, {"w", PLIM_F32, {2, {2, 3}}}}, 2);
    if (plim__weights_bind(m, &plim__os_linux, files_path("l.safetensors"), NULL, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_string_equal(m->param[0].home.path, files_path("m.onnx"));
    plim__param_filler f;
    plim__param_filler_open(&f, m, &plim__os_linux, 0);
    if (plim__model_save(m, &plim__os_linux, plim__param_filler_reader(&f), files_path("m.onnx"), files_path("o.onnx"), &err) != PLIM_OK)
        fail_msg("%s", err.message);
    assert_int_equal(plim__param_filler_close(&f, &err), PLIM_OK);
    uint8_t *file = files_read("o.onnx", &n);
    for (uint32_t p = 0; p < 2; p++) /* number 0 of the list was b */
        for (uint64_t i = 0; i < m->graph->value[m->param[p].value].bytes; i++)
            assert_int_equal(file[m->param[p].home.offset + i], saved_byte(m->param[p].name[0] == 'w', i));
    free(file);
    plim__model_free(&m);
}

static void test_failures(void **state)
{
    (void)state;
    countdown c = {.left = -1};
    plim_error err = {0};
    plim__model *m = read_slim(countdown_of(&c));
    save_initial(m, 3, "f.safetensors");
    const int64_t live = c.live;
    plim_status status = PLIM_E_NOMEM;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        c.left = n;
        err = (plim_error){0};
        status = plim__weights_bind(m, &plim__os_linux, files_path("f.safetensors"), NULL, &err);
        assert_true(status == PLIM_OK || (status == PLIM_E_NOMEM && err.code == PLIM_E_NOMEM && m->param[0].init != PLIM__INIT_FILE));
        assert_int_equal(c.live, live);
        assert_true(n < 1000);
    }
    c.left = -1;
    plim__model_free(&m);
    assert_int_equal(c.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_misfits), cmocka_unit_test(test_many_misfits),
        cmocka_unit_test(test_endings),    cmocka_unit_test(test_onnx),    cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("weights", tests, files_begin, files_end);
}
