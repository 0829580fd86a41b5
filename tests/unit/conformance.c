/* Conformance: what counts as equal, tensors in files of their own, inputs whose data are known. */
#include "unit.h"

#include "onnx_file.h"
#include "session/conformance.h"

#include <sys/stat.h>

static plim__tensor tensor_of(plim_dtype dtype, plim_shape shape, void *data)
{
    plim__tensor t = {.dtype = dtype, .shape = shape, .data = data};
    assert_int_equal(plim_shape_count(&t.count, &shape, NULL), PLIM_OK);
    return t;
}

/* ------------------------------------------------------------------------------------------------------------ comparing */

static void test_floats(void **state)
{
    (void)state;
    char why[256] = "";
    const plim_shape s = {2, {2, 3}};
    float want[] = {0, 1, -2, INFINITY, NAN, 1000}, have[] = {1e-8f, 1.0009f, -2.0019f, INFINITY, NAN, 1000.9f};
    const plim__tensor a = tensor_of(PLIM_F32, s, have), b = tensor_of(PLIM_F32, s, want);
    assert_true(plim__conforms(&a, &b, why, sizeof why));
    have[5] = 1001.1f;
    have[4] = 0;
    assert_false(plim__conforms(&a, &b, why, sizeof why));
    assert_string_equal(why, "element [1,1] is 0, expected is nan; 2 of 6 differ");
    have[4] = NAN;
    have[3] = -INFINITY;
    have[5] = 1000;
    assert_false(plim__conforms(&a, &b, why, sizeof why));
    assert_string_equal(why, "element [1,0] is -inf, expected is inf; 1 of 6 differ");
    have[3] = INFINITY;
    have[0] = 2e-7f; /* beyond the absolute tolerance, and there is no other at 0 */
    assert_false(plim__conforms(&a, &b, why, sizeof why));
}

static void test_halves(void **state)
{
    (void)state;
    char why[256];
    uint16_t one = 0x3c00, next = 0x3c01, further = 0x3c02; /* 1, 1 + 2^-10, 1 + 2^-9 */
    const plim__tensor a = tensor_of(PLIM_F16, (plim_shape){0}, &one), b = tensor_of(PLIM_F16, (plim_shape){0}, &next);
    const plim__tensor c = tensor_of(PLIM_F16, (plim_shape){0}, &further);
    assert_true(plim__conforms(&a, &b, why, sizeof why));
    assert_false(plim__conforms(&a, &c, why, sizeof why));
    assert_string_equal(why, "element [] is 1, expected is 1.00195312; 1 of 1 differ");
}

/* Which way to round is not said: a unit in the last place is none to complain about. */
static void test_brain(void **state)
{
    (void)state;
    char why[256];
    uint16_t down = 0x3ef5, up = 0x3ef6, further = 0x3ef8;
    const plim__tensor a = tensor_of(PLIM_BF16, (plim_shape){0}, &down), b = tensor_of(PLIM_BF16, (plim_shape){0}, &up);
    const plim__tensor c = tensor_of(PLIM_BF16, (plim_shape){0}, &further);
    assert_true(plim__conforms(&a, &b, why, sizeof why));
    assert_true(plim__conforms(&b, &a, why, sizeof why));
    assert_false(plim__conforms(&c, &a, why, sizeof why));
}

static void test_integers(void **state)
{
    (void)state;
    char why[256];
    const plim_shape s = {1, {2}};
    int64_t have[] = {1, INT64_C(9007199254740993)}, want[] = {1, INT64_C(9007199254740992)}; /* one double for both */
    plim__tensor a = tensor_of(PLIM_I64, s, have), b = tensor_of(PLIM_I64, s, want);
    assert_false(plim__conforms(&a, &b, why, sizeof why));
    assert_string_equal(why, "element [1] is 9007199254740993, expected is 9007199254740992; 1 of 2 differ");
    a.dtype = PLIM_U64;
    assert_false(plim__conforms(&a, &b, why, sizeof why));
    assert_string_equal(why, "it is u64 [2], expected is i64 [2]");
    b.dtype = PLIM_U64;
    have[1] = want[1] = -1;
    assert_true(plim__conforms(&a, &b, why, sizeof why));
    a.shape = (plim_shape){2, {1, 2}};
    assert_false(plim__conforms(&a, &b, why, sizeof why));
    assert_string_equal(why, "it is u64 [1,2], expected is u64 [2]");
}

/* -------------------------------------------------------------------------------------------------------- tensor files */

static void test_tensor_files(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};
    const plim__alloc alloc = {0};
    plim__tensor t;
    plim_error err = {0};
    pb raw = tensor_raw("x", ONNX_F32, "2,3", x, sizeof x);
    files_write("x.pb", raw.p, raw.n);
    assert_int_equal(plim__tensor_read(&t, &plim__os_linux, files_path("x.pb"), alloc, &err), PLIM_OK);
    assert_string_equal(t.name, "x");
    assert_int_equal(t.dtype, PLIM_F32);
    assert_int_equal(t.count, 6);
    assert_memory_equal(t.data, x, sizeof x);
    plim__tensor_free(&t, alloc);
    for (size_t n = 0; n < raw.n; n++) { /* cut anywhere, it is refused, and the message says which file */
        err = (plim_error){0};
        files_write("cut.pb", raw.p, n);
        assert_int_not_equal(plim__tensor_read(&t, &plim__os_linux, files_path("cut.pb"), alloc, &err), PLIM_OK);
        assert_null(t.data);
        assert_non_null(strstr(err.message, "cut.pb"));
    }
    free(raw.p);
    pb ints = tensor_head("k", ONNX_I64, "2"), packed = {0};
    pb_varint(&packed, 7);
    pb_varint(&packed, (uint64_t)-7);
    pb_message(&ints, 7, &packed);
    files_write("k.pb", ints.p, ints.n);
    free(ints.p);
    err = (plim_error){0};
    assert_int_equal(plim__tensor_read(&t, &plim__os_linux, files_path("k.pb"), alloc, &err), PLIM_OK);
    assert_int_equal(((int64_t *)t.data)[1], -7);
    plim__tensor_free(&t, alloc);
    assert_int_equal(plim__tensor_read(&t, &plim__os_linux, files_path("nowhere.pb"), alloc, NULL), PLIM_E_IO);
}

/* --------------------------------------------------------------------------------------------------------- known inputs */

static void save_reshape(void)
{
    pb graph = {0};
    onnx_node(&graph, "Reshape", "x s", "y", NULL);
    onnx_input(&graph, "x", ONNX_F32, "2,3");
    onnx_input(&graph, "s", ONNX_I64, "2");
    onnx_output(&graph, "y");
    onnx_save("reshape.onnx", &graph, 13);
}

static plim_status read_known(plim__model **m, const plim__known *known, uint32_t n, plim_error *err)
{
    const plim__model_options options = {.known = known, .n_known = n};
    *err = (plim_error){0};
    return plim__onnx_read(m, files_path("reshape.onnx"), &options, (plim__alloc){0}, err);
}

static void test_known(void **state)
{
    (void)state;
    const float x[6] = {0};
    const int64_t to[] = {3, 2};
    const plim__known known[] = {
        {.input = 1, .dtype = PLIM_I64, .shape = {1, {2}}, .data = to},
        {.input = 0, .dtype = PLIM_F32, .shape = {2, {2, 3}}, .data = x},
    };
    plim__known bad = known[1];
    plim__model *m;
    plim_error err;
    save_reshape();
    assert_int_equal(read_known(&m, NULL, 0, &err), PLIM_E_UNSUPPORTED);
    for (uint32_t n = 1; n <= 2; n++) { /* the shape alone is enough; an input with data is none of the model's any more */
        assert_int_equal(read_known(&m, known, n, &err), PLIM_OK);
        assert_int_equal(m->n_inputs, 2 - n);
        assert_int_equal(m->n_params, 0);
        assert_int_equal(m->graph->value[m->output[0].value].shape.dim[0], 3);
        plim__model_free(&m);
    }
    bad.dtype = PLIM_F64;
    assert_int_equal(read_known(&m, &bad, 1, &err), PLIM_E_TYPE);
    assert_non_null(strstr(err.message, "input 'x' is of f32; the data are of f64"));
    bad.input = 2;
    assert_int_equal(read_known(&m, &bad, 1, &err), PLIM_E_INVALID);
}

/* ------------------------------------------------------------------------------------------------------------- one test */

static void test_run(void **state)
{
    (void)state;
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const int64_t to[] = {3, 2};
    const plim_settings set = plim_settings_default();
    plim_conformance got;
    plim_error err = {0};
    save_reshape();
    assert_int_equal(rename(files_path("reshape.onnx"), files_path("model.onnx")), 0);
    assert_int_equal(plim_conformance_run(&got, files_dir, &set, &err), PLIM_OK);
    assert_int_equal(got.verdict, PLIM_CONFORMANCE_FAILED);
    assert_non_null(strstr(got.why, "has no test_data_set_0"));
    assert_int_equal(mkdir(files_path("test_data_set_0"), 0700), 0);
    pb t[] = {tensor_raw("", ONNX_F32, "2,3", x, sizeof x), tensor_raw("", ONNX_I64, "2", to, sizeof to),
              tensor_raw("", ONNX_F32, "3,2", x, sizeof x)};
    static const char *const name[] = {"test_data_set_0/input_0.pb", "test_data_set_0/input_1.pb", "test_data_set_0/output_0.pb"};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        files_write(name[i], t[i].p, t[i].n);
        free(t[i].p);
    }
    assert_int_equal(plim_conformance_run(&got, files_dir, &set, &err), PLIM_OK);
    assert_string_equal(got.why, "");
    assert_int_equal(got.verdict, PLIM_CONFORMANCE_PASSED);
    assert_string_equal(got.op, "Reshape");
    assert_int_equal(plim_conformance_run(&got, files_path("nowhere"), &set, &err), PLIM_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats), cmocka_unit_test(test_halves), cmocka_unit_test(test_brain), cmocka_unit_test(test_integers),
        cmocka_unit_test(test_tensor_files), cmocka_unit_test(test_known), cmocka_unit_test(test_run),
    };
    return cmocka_run_group_tests_name("conformance", tests, files_begin, files_end);
}
