/* Trained copies of ONNX models: the bytes of parameters are new, all others are the original's; data inside and outside the model's file. */
#include "unit.h"

#include "countdown.h"
#include "models/onnx_save.h"
#include "onnx_file.h"
#include "save_faults.h"
#include "saved_values.h"

#include <sys/stat.h>

static plim__model *read_model(const char *name)
{
    plim__model *m;
    plim_error err = {0};
    if (plim__onnx_read(&m, files_path(name), &(plim__model_options){.batch = 2, .training = true}, (plim__alloc){0}, &err) != PLIM_OK)
        fail_msg("%s", err.message);
    assert_int_equal(m->form, PLIM__MODEL_ONNX);
    return m;
}

static pb tensor_f16_packed(const char *name)
{
    pb t = tensor_head(name, ONNX_F16, "3"), packed = {0};
    for (int i = 0; i < 3; i++) pb_varint(&packed, 0x3c00 + 17u * (unsigned)i);
    pb_message(&t, 5, &packed);
    return t;
}

static pb tensor_external(const char *name, int type, const char *dims, const char *location, const char *offset, const char *length)
{
    pb t = tensor_head(name, type, dims);
    const char *const entry[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < COUNT_OF(entry); i++) {
        pb e = {0};
        if (!entry[i][1]) continue;
        pb_text(&e, 1, entry[i][0]);
        pb_text(&e, 2, entry[i][1]);
        pb_message(&t, 13, &e);
    }
    pb_int(&t, 14, 1);
    return t;
}

static void cast_to_f32(pb *g, const char *in, const char *out)
{
    pb attrs = {0};
    attr_int(&attrs, "to", ONNX_F32);
    onnx_node(g, "Cast", in, out, &attrs);
}

/* Parameters as raw_data, float_data and double_data; halves that are packed as integers are a constant. */
static void write_inside(const char *name)
{
    static const float w[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b[3] = {.1f, .2f, .3f};
    static const double d[3] = {7, 8, 9};
    pb g = {0};
    onnx_input(&g, "x", ONNX_F32, "N,4");
    onnx_output(&g, "y");
    onnx_init_f32(&g, "w", "4,3", 12, w);
    pb t = tensor_head("b", ONNX_F32, "3");
    pb_bytes(&t, 4, b, sizeof b);
    onnx_init(&g, t);
    t = tensor_head("d", ONNX_F64, "3");
    pb_bytes(&t, 10, d, sizeof d);
    onnx_init(&g, t);
    onnx_init(&g, tensor_f16_packed("h"));
    onnx_node(&g, "Gemm", "x w b", "p", NULL);
    cast_to_f32(&g, "d", "d32");
    cast_to_f32(&g, "h", "h32");
    onnx_node(&g, "Add", "p d32", "q", NULL);
    onnx_node(&g, "Add", "q h32", "y", NULL);
    onnx_save(name, &g, 13);
}

static void write_outside(const char *name, const char *first, const char *second, const char *second_offset)
{
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i + 1);
    const int64_t shape[2] = {-1, 3};
    pb g = {0};
    files_write("data.bin", data, sizeof data);
    files_write("shape.bin", shape, sizeof shape);
    onnx_input(&g, "x", ONNX_F32, "N,4");
    onnx_output(&g, "y");
    onnx_init(&g, tensor_external("w", ONNX_F32, "4,3", first, "16", "48"));
    onnx_init(&g, tensor_external("v", ONNX_F32, "4,3", second, second_offset, NULL));
    onnx_init(&g, tensor_external("s", ONNX_I64, "2", "shape.bin", NULL, NULL));
    onnx_init(&g, tensor_external("unused", ONNX_F32, "2", "nowhere.bin", NULL, NULL));
    onnx_node(&g, "MatMul", "x w", "p", NULL);
    onnx_node(&g, "MatMul", "x v", "q", NULL);
    onnx_node(&g, "Add", "p q", "r", NULL);
    onnx_node(&g, "Reshape", "r s", "y", NULL);
    onnx_save(name, &g, 13);
}

static plim_status save_as(const plim__model *m, const char *from, const char *to, plim_error *err)
{
    *err = (plim_error){0};
    return plim__onnx_save(m, &plim__os_linux, saved_reader, files_path(from), files_path(to), err);
}

static void refused(const plim__model *m, const char *from, const char *to, plim_status code, const char *says)
{
    plim_error err, early = {0};
    const plim_status status = save_as(m, from, to, &err);
    if (status != code || !strstr(err.message, says)) fail_msg("%s: %s, not '%s'", plim_status_name(status), err.message, says);
    const plim_status before = plim__onnx_save(m, &plim__os_linux, (plim__tensor_reader){0}, files_path(from), files_path(to), &early);
    assert_int_equal(before, code); /* known before there are values */
    assert_string_equal(early.message, err.message);
    assert_int_equal(files_temporary(), 0);
}

static const bool all_new[8] = {true, true, true, true, true, true, true, true};

static void test_inside(void **state)
{
    (void)state;
    plim_error err = {0};
    write_inside("in.onnx");
    plim__model *m = read_model("in.onnx");
    assert_int_equal(m->n_params, 3);
    assert_int_equal(plim__onnx_save(m, &plim__os_linux, (plim__tensor_reader){0}, files_path("in.onnx"), files_path("out.onnx"), &err), PLIM_OK);
    assert_false(files_exist("out.onnx"));
    assert_int_equal(files_temporary(), 0);
    for (int again = 0; again < 2; again++) { /* an older copy is replaced */
        if (save_as(m, "in.onnx", "out.onnx", &err) != PLIM_OK) fail_msg("%s", err.message);
        saved_compare(m, "in.onnx", "out.onnx", all_new, NULL);
    }
    plim__model *copy = read_model("out.onnx");
    size_t n;
    uint8_t *file = files_read("out.onnx", &n);
    assert_int_equal(copy->n_params, 3);
    for (uint32_t p = 0; p < 3; p++) {
        assert_string_equal(copy->param[p].name, m->param[p].name);
        saved_expect(copy, p, file, copy->param[p].home.offset, false);
    }
    free(file);
    plim__model_free(&copy);
    plim__model_free(&m);
}

/* What is neither trained nor updated nor bound to other data stays. */
static void test_frozen(void **state)
{
    (void)state;
    plim_error err;
    write_inside("in.onnx");
    plim__model *m = read_model("in.onnx");
    for (uint32_t p = 0; p < 3; p++) m->param[p].trainable = false;
    m->param[1].update = m->output[0].value;
    m->graph->source[m->graph->value[m->param[2].value].source].offset++;
    if (save_as(m, "in.onnx", "frozen.onnx", &err) != PLIM_OK) fail_msg("%s", err.message);
    saved_compare(m, "in.onnx", "frozen.onnx", (const bool[]){false, true, true}, NULL);
    plim__model_free(&m);
}

static void test_outside(void **state)
{
    (void)state;
    plim_error err;
    write_outside("ext.onnx", "data.bin", "data.bin", "80");
    plim__model *m = read_model("ext.onnx");
    assert_int_equal(m->n_params, 2);
    refused(m, "ext.onnx", "copy.onnx", PLIM_E_INVALID, "data.bin' beside it, which a copy in the same folder would overwrite: save in an");
    assert_int_equal(mkdir(files_path("copy"), 0777), 0);
    for (int again = 0; again < 2; again++) {
        if (save_as(m, "ext.onnx", "copy/new.onnx", &err) != PLIM_OK) fail_msg("%s", err.message);
        saved_compare(m, "ext.onnx", "copy/new.onnx", all_new, NULL);
        saved_compare(m, "data.bin", "copy/data.bin", all_new, NULL);
        saved_compare(m, "shape.bin", "copy/shape.bin", all_new, NULL);
        assert_false(files_exist("copy/nowhere.bin"));
    }
    refused(m, "ext.onnx", "copy/other.onnx", PLIM_E_INVALID, "may belong to another model");
    plim__model *copy = read_model("copy/new.onnx");
    assert_string_equal(copy->param[0].home.path, files_path("copy/data.bin"));
    plim__model_free(&copy);
    plim__model_free(&m);
}

static void test_outside_in_folders(void **state)
{
    (void)state;
    plim_error err;
    mkdir(files_path("sub"), 0777);
    mkdir(files_path("far"), 0777);
    write_outside("ext.onnx", "data.bin", "sub/v.bin", NULL);
    files_write("sub/v.bin", "0123456789abcdef0123456789abcdef0123456789abcdef", 48);
    plim__model *m = read_model("ext.onnx");
    refused(m, "ext.onnx", "far/new.onnx", PLIM_E_IO, "far/sub");
    assert_false(files_exist("far/new.onnx"));
    assert_false(files_exist("far/data.bin")); /* all or none */
    mkdir(files_path("far/sub"), 0777);
    if (save_as(m, "ext.onnx", "far/new.onnx", &err) != PLIM_OK) fail_msg("%s", err.message);
    saved_compare(m, "data.bin", "far/data.bin", all_new, NULL);
    saved_compare(m, "sub/v.bin", "far/sub/v.bin", all_new, NULL);
    plim__model_free(&m);
}

static void test_refusals(void **state)
{
    (void)state;
    write_inside("in.onnx");
    plim__model *m = read_model("in.onnx");
    refused(m, "in.onnx", "in.onnx", PLIM_E_INVALID, "is the model that is trained: give the trained copy another name");
    assert_int_equal(symlink("in.onnx", files_path("link.onnx")), 0);
    refused(m, "in.onnx", "link.onnx", PLIM_E_INVALID, "is the model that is trained");
    write_inside("twin.onnx");
    refused(m, "twin.onnx", "x.onnx", PLIM_E_INVALID, "twin.onnx' is not the file that the model was read from");
    refused(m, "gone.onnx", "x.onnx", PLIM_E_IO, "gone.onnx");
    uint32_t bad = 2;
    plim_error err = {0};
    assert_int_equal(plim__onnx_save(m, &plim__os_linux, (plim__tensor_reader){&bad, saved_read}, files_path("in.onnx"), files_path("x.onnx"), &err),
                     PLIM_E_IO);
    assert_string_equal(err.message, "parameter 2 cannot be read");
    assert_false(files_exist("x.onnx"));
    assert_int_equal(truncate(files_path("in.onnx"), 3000), 0);
    refused(m, "in.onnx", "x.onnx", PLIM_E_CHANGED, "in.onnx' changed since it was read");
    plim__model_free(&m);

    write_outside("ext.onnx", "data.bin", "data.bin", "60");
    m = read_model("ext.onnx");
    refused(m, "ext.onnx", "copy/new.onnx", PLIM_E_UNSUPPORTED, "'w' and 'v' share bytes there");
    plim__model_free(&m);
    write_outside("ext.onnx", "data.bin", "./data.bin", "80");
    m = read_model("ext.onnx");
    refused(m, "ext.onnx", "copy/new.onnx", PLIM_E_UNSUPPORTED, "external file './data.bin' has another name in the model, too");
    plim__model_free(&m);
}

static plim_status save(const plim__os *os, const void *arg, plim_error *err)
{
    return plim__onnx_save(arg, os, saved_reader, files_path("in.onnx"), files_path("f.onnx"), err);
}

/* A file beside it that was renamed when the model's own could not be stays: both are whole. */
static plim_status save_outside(const plim__os *os, const void *arg, plim_error *err)
{
    unlink(files_path("fault/data.bin"));
    unlink(files_path("fault/shape.bin"));
    return plim__onnx_save(arg, os, saved_reader, files_path("ext.onnx"), files_path("fault/f.onnx"), err);
}

static void test_failures(void **state)
{
    (void)state;
    write_inside("in.onnx");
    plim__model *m = read_model("in.onnx");
    save_survives(save, m, "f.onnx");
    plim__model_free(&m);
    mkdir(files_path("fault"), 0777);
    write_outside("ext.onnx", "data.bin", "data.bin", "80");
    m = read_model("ext.onnx");
    save_fails(save_outside, m, "fault/f.onnx", FAULTY_open, -EIO);
    save_fails(save_outside, m, "fault/f.onnx", FAULTY_pread, -EIO);
    save_fails(save_outside, m, "fault/f.onnx", FAULTY_rename, -EIO);
    plim__model_free(&m);
}

static void test_allocations(void **state)
{
    (void)state;
    countdown c = {.left = -1};
    plim__model *m;
    plim_error err = {0};
    write_outside("ext.onnx", "data.bin", "data.bin", "80");
    mkdir(files_path("alloc"), 0777);
    assert_int_equal(plim__onnx_read(&m, files_path("ext.onnx"), NULL, countdown_of(&c), &err), PLIM_OK);
    const int64_t live = c.live;
    plim_status status = PLIM_E_NOMEM;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        err = (plim_error){0};
        c.left = n;
        status = plim__onnx_save(m, &plim__os_linux, saved_reader, files_path("ext.onnx"), files_path("alloc/f.onnx"), &err);
        assert_true(status == PLIM_OK || (status == PLIM_E_NOMEM && err.code == PLIM_E_NOMEM));
        assert_int_equal(c.live, live);
        assert_true(files_exist("alloc/f.onnx") == (status == PLIM_OK) && n < 200);
    }
    c.left = -1;
    plim__model_free(&m);
    assert_int_equal(c.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inside),   cmocka_unit_test(test_frozen),   cmocka_unit_test(test_outside), cmocka_unit_test(test_outside_in_folders),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_failures), cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests_name("onnx_save", tests, files_begin, files_end);
}
