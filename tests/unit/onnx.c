/* The ONNX reader: tiny models that the test writes itself. Good ones are evaluated, bad ones are told what is wrong with them. */
#include "unit.h"

#include "countdown.h"
#include "models/onnx.h"
#include "onnx_file.h"

static const plim__model_options plain = {0};

static plim__model *read_ok(const char *file, const plim__model_options *options)
{
    plim__model *m = NULL;
    plim_error err = {0};
    if (plim__onnx_read(&m, files_path(file), options, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    return m;
}

static void refused(const char *file, const plim__model_options *options, plim_status code, const char *expected)
{
    plim__model *m = NULL;
    plim_error err = {0};
    const plim_status status = plim__onnx_read(&m, files_path(file), options, (plim__alloc){0}, &err);
    if (status != code || !strstr(err.message, expected))
        fail_msg("%s '%s' is not %s '%s'", plim_status_name(status), err.message, plim_status_name(code), expected);
    assert_null(m);
}

/* Runs a model of one input (or none) and compares its first output. */
static void gives(plim__model *m, const float *in, uint32_t n, const float *expected)
{
    void **data = calloc(m->graph->n_values, sizeof *data);
    parts_rng rng = {3};
    onnx_load_params(m, data);
    if (m->n_inputs) {
        const plim__value *v = &m->graph->value[m->input[0].value];
        data[m->input[0].value] = malloc(v->bytes + 8);
        memcpy(data[m->input[0].value], in, v->bytes);
    }
    parts_run(m->graph, data, PARTS_CUT, &rng);
    const plim__value *out = &m->graph->value[m->output[0].value];
    uint64_t count;
    assert_int_equal(plim_shape_count(&count, &out->shape, NULL), PLIM_OK);
    assert_int_equal(count, n);
    for (uint32_t i = 0; i < n; i++) {
        const double have = parts_get(data[m->output[0].value], out->dtype, i);
        if (!parts_close(have, (double)expected[i], 1e-5, 1e-5)) fail_msg("element %u is %g, not %g", i, have, (double)expected[i]);
    }
    parts_free(m->graph, data);
    free(data);
}

static void shape_is(const plim__model *m, uint32_t v, const char *expected)
{
    char text[160];
    assert_string_equal(plim_shape_format(text, sizeof text, &m->graph->value[v].shape), expected);
}

static const float in6[] = {1, 2, 3, 4, 5, 6}, weights[] = {1, 0, 2, -1, 0.5f, 3}, bias[] = {10, 20};

/* ------------------------------------------------------------------------------------------- parameters and their bytes */

/* y = x w + b with w raw and b as float_data: both stay in the file. */
static void test_parameters(void **state)
{
    (void)state;
    pb g = {0}, b = tensor_head("b", ONNX_F32, "2");
    pb_bytes(&b, 4, bias, sizeof bias);
    onnx_init_f32(&g, "w", "3,2", 6, weights);
    onnx_init(&g, b);
    onnx_input(&g, "x", ONNX_F32, "N,3");
    onnx_node(&g, "MatMul", "x w", "xw", NULL);
    onnx_node(&g, "Add", "xw b", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    plim__model *m = read_ok("m.onnx", &(plim__model_options){.batch = 2});
    assert_int_equal(m->n_params, 2);
    assert_string_equal(m->param[0].name, "w");
    assert_true(m->param[0].trainable && m->param[0].update == PLIM__NONE && m->param[0].init == PLIM__INIT_FILE);
    const plim__source *s = &m->graph->source[m->graph->value[m->param[0].value].source];
    assert_string_equal(s->path, files_path("m.onnx"));
    assert_true(s->offset > 0 && s->stride[0] == 2 && s->stride[1] == 1 && s->file_bytes > s->offset && s->inode != 0);
    assert_int_equal(m->n_layers, 3); /* and the one that belongs to none */
    assert_string_equal(m->layer[1].name, "xw");
    assert_string_equal(m->layer[1].kind, "MatMul");
    assert_int_equal(m->param[1].layer, 2);
    assert_true(m->input[0].batch_axis == 0 && m->output[0].batch_axis == 0);
    shape_is(m, m->output[0].value, "[2,2]");
    gives(m, in6, 4, (const float[]){1 * 1 + 2 * 2 + 3 * 0.5f + 10, -2 + 9 + 20, 4 + 10 + 3 + 10, -5 + 18 + 20});
    plim__model_free(&m);
}

static void external(const char *location, const char *offset, const char *length)
{
    pb g = {0}, w = tensor_head("w", ONNX_F32, "3,2"), e = {0};
    const struct { const char *key, *value; } entries[] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        if (!entries[i].value) continue;
        pb_text(&e, 1, entries[i].key);
        pb_text(&e, 2, entries[i].value);
        pb_message(&w, 13, &e);
    }
    pb_int(&w, 14, 1);
    onnx_init(&g, w);
    onnx_input(&g, "x", ONNX_F32, "1,3");
    onnx_node(&g, "MatMul", "x w", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
}

static void test_external(void **state)
{
    (void)state;
    uint8_t file[16 + sizeof weights] = {0};
    memcpy(file + 16, weights, sizeof weights);
    files_write("w.bin", file, sizeof file);
    external("w.bin", "16", "24");
    plim__model *m = read_ok("m.onnx", &plain);
    const plim__source *s = &m->graph->source[m->graph->value[m->param[0].value].source];
    assert_string_equal(s->path, files_path("w.bin"));
    assert_true(s->offset == 16 && s->file_bytes == sizeof file);
    gives(m, in6, 2, (const float[]){6.5f, 7});
    plim__model_free(&m);

    external("../w.bin", "16", NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "external file '../w.bin' is not inside the model's folder");
    external("/etc/passwd", NULL, NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "is not inside the model's folder");
    external("a/../../w.bin", NULL, NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "is not inside the model's folder");
    external("nowhere.bin", NULL, NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "tensor 'w': external file 'nowhere.bin' is not there");
    external("w.bin/x", NULL, NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "tensor 'w': external file 'w.bin/x' is not there");
    external(".", NULL, NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "tensor 'w': external file '.' is not a regular file");
    external("w.bin", "17", NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "tensor 'w': 24 bytes from byte 17 of 'w.bin', which has 40");
    external("w.bin", "16", "20");
    refused("m.onnx", &plain, PLIM_E_FORMAT, "external data of 20 bytes; its shape needs 24");
    external("w.bin", "x", NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "external offset 'x' is not a number");
    external(NULL, NULL, NULL);
    refused("m.onnx", &plain, PLIM_E_FORMAT, "external data without a location");
}

/* Statistics are not trained; in training they are said what they become. */
static void test_statistics(void **state)
{
    (void)state;
    static const float one[] = {1, 2}, mean[] = {0.5f, 1}, var[] = {4, 9};
    pb g = {0}, attr = {0};
    onnx_init_f32(&g, "scale", "2", 2, one);
    onnx_init_f32(&g, "shift", "2", 2, bias);
    onnx_init_f32(&g, "mean", "2", 2, mean);
    onnx_init_f32(&g, "var", "2", 2, var);
    onnx_input(&g, "x", ONNX_F32, "N,2,1");
    attr_float(&attr, "epsilon", 0);
    onnx_node(&g, "BatchNormalization", "x scale shift mean var", "y", &attr);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 15);
    plim__model *m = read_ok("m.onnx", &(plim__model_options){.batch = 2});
    assert_int_equal(m->n_params, 4);
    for (uint32_t i = 0; i < 4; i++) assert_true(m->param[i].trainable == (i < 2) && m->param[i].update == PLIM__NONE);
    gives(m, in6, 4, (const float[]){(1 - 0.5f) / 2 + 10, (2 - 1) / 3.0f * 2 + 20, (3 - 0.5f) / 2 + 10, (4 - 1) / 3.0f * 2 + 20});
    plim__model_free(&m);
    m = read_ok("m.onnx", &(plim__model_options){.batch = 2, .training = true});
    for (uint32_t i = 0; i < 4; i++) assert_true((m->param[i].update == PLIM__NONE) == (i < 2));
    gives(m, in6, 4, (const float[]){-1 + 10, -2 + 20, 1 + 10, 2 + 20});
    plim__model_free(&m);
}

/* ----------------------------------------------------------------------------------------------------- known while reading */

/* Flattening as exporters write it: Shape, Gather, Unsqueeze, Concat, Reshape. Only the Reshape and the Neg are left. */
static void test_shape_arithmetic(void **state)
{
    (void)state;
    pb g = {0}, attr = {0};
    onnx_init_i64(&g, "minus", 1, (const int64_t[]){-1});
    onnx_init_i64(&g, "axes", 1, (const int64_t[]){0});
    onnx_input(&g, "x", ONNX_F32, "batch,3,height");
    onnx_node(&g, "Neg", "x", "n", NULL);
    onnx_node(&g, "Shape", "n", "shape", NULL);
    attr_tensor(&attr, "value", tensor_raw("", ONNX_I64, "", &(int64_t){0}, 8));
    onnx_node(&g, "Constant", "", "zero", &attr);
    attr_int(&attr, "axis", 0);
    onnx_node(&g, "Gather", "shape zero", "rows", &attr);
    onnx_node(&g, "Unsqueeze", "rows axes", "rows1", NULL);
    attr_int(&attr, "axis", 0);
    onnx_node(&g, "Concat", "rows1 minus", "to", &attr);
    onnx_node(&g, "Reshape", "n to", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    plim__model *m = read_ok("m.onnx", &(plim__model_options){.batch = 2, .dim = &(plim__dim_binding){"height", 1}, .n_dims = 1});
    assert_int_equal(m->n_layers, 3);
    assert_int_equal(m->graph->n_nodes, 2);
    shape_is(m, m->output[0].value, "[2,3]");
    gives(m, in6, 6, (const float[]){-1, -2, -3, -4, -5, -6});
    plim__model_free(&m);
    refused("m.onnx", &plain, PLIM_E_INVALID, "input 'x': dimension 2 ('height') has no size; give it with --dim height=SIZE");
    refused("m.onnx", &(plim__model_options){.dim = &(plim__dim_binding){"width", 1}, .n_dims = 1}, PLIM_E_INVALID,
            "no input has a dimension 'width'");
}

/* A fixed batch of 1 is replaced, in a fixed shape as well. */
static void test_batch(void **state)
{
    (void)state;
    pb g = {0};
    onnx_init_i64(&g, "to", 2, (const int64_t[]){1, 3});
    onnx_input(&g, "x", ONNX_F32, "1,3,1");
    onnx_node(&g, "Reshape", "x to", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    plim__model *m = read_ok("m.onnx", &(plim__model_options){.batch = 2});
    shape_is(m, m->output[0].value, "[2,3]");
    plim__model_free(&m);
    onnx_input(&g, "x", ONNX_F32, "4,3");
    onnx_node(&g, "Neg", "x", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    m = read_ok("m.onnx", &plain);
    assert_int_equal(m->input[0].batch_axis, 0);
    plim__model_free(&m);
    refused("m.onnx", &(plim__model_options){.batch = 2}, PLIM_E_INVALID, "a batch of 2: input 'x' has a fixed first dimension of 4");
    onnx_input(&g, "x", ONNX_F32, "-,-");
    onnx_node(&g, "Neg", "x", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    refused("m.onnx", &plain, PLIM_E_INVALID, "input 'x': dimension 1 has no size; give it with --dim x:1=SIZE");
    m = read_ok("m.onnx", &(plim__model_options){.dim = &(plim__dim_binding){"x:1", 7}, .n_dims = 1});
    shape_is(m, m->output[0].value, "[1,7]");
    plim__model_free(&m);
}

/* One operator in its older and its newer form: the same result. */
static void one_node(const char *op, const char *inputs, int64_t opset, pb *attrs, pb *graph, const float *expected, uint32_t n)
{
    onnx_input(graph, "x", ONNX_F32, "2,3");
    onnx_node(graph, op, inputs, "y", attrs);
    onnx_output(graph, "y");
    onnx_save("m.onnx", graph, opset);
    plim__model *m = read_ok("m.onnx", &plain);
    gives(m, in6, n, expected);
    plim__model_free(&m);
}

static void test_opsets(void **state)
{
    (void)state;
    pb g = {0}, a = {0};
    static const float middle[] = {2, 5}, clipped[] = {2, 2, 3, 4, 4, 4}, sums[] = {6, 15}, padded[] = {0, 1, 2, 3, 0, 4, 5, 6};
    attr_ints(&a, "starts", 1, (const int64_t[]){1});
    attr_ints(&a, "ends", 1, (const int64_t[]){-1});
    attr_ints(&a, "axes", 1, (const int64_t[]){1});
    one_node("Slice", "x", 9, &a, &g, middle, 2);
    onnx_init_i64(&g, "from", 1, (const int64_t[]){1});
    onnx_init_i64(&g, "to", 1, (const int64_t[]){INT64_MIN + 5});
    onnx_init_i64(&g, "axis", 1, (const int64_t[]){-1});
    onnx_init_i64(&g, "step", 1, (const int64_t[]){-2});
    one_node("Slice", "x from to axis step", 13, NULL, &g, middle, 2);
    attr_float(&a, "min", 2);
    attr_float(&a, "max", 4);
    one_node("Clip", "x", 6 + 1, &a, &g, clipped, 6);
    onnx_init_f32(&g, "lo", "", 1, (const float[]){2});
    onnx_init_f32(&g, "hi", "", 1, (const float[]){4});
    one_node("Clip", "x lo hi", 13, NULL, &g, clipped, 6);
    attr_ints(&a, "axes", 1, (const int64_t[]){1});
    attr_int(&a, "keepdims", 0);
    one_node("ReduceSum", "x", 11, &a, &g, sums, 2);
    onnx_init_i64(&g, "axis", 1, (const int64_t[]){-1});
    one_node("ReduceSum", "x axis", 13, NULL, &g, sums, 2);
    attr_ints(&a, "pads", 4, (const int64_t[]){0, 1, 0, 0});
    one_node("Pad", "x", 10, &a, &g, padded, 8);
    onnx_init_i64(&g, "pads", 2, (const int64_t[]){1, 0});
    onnx_init_i64(&g, "axis", 1, (const int64_t[]){1});
    one_node("Pad", "x pads - axis", 18, NULL, &g, padded, 8);
    attr_ints(&a, "axes", 1, (const int64_t[]){1});
    one_node("Unsqueeze", "x", 11, &a, &g, in6, 6);
    onnx_init_i64(&g, "axis", 1, (const int64_t[]){-1});
    one_node("Unsqueeze", "x axis", 13, NULL, &g, in6, 6);
    attr_float(&a, "ratio", 0.5f);
    one_node("Dropout", "x", 10, &a, &g, in6, 6);
}

/* Before opset 13 softmax takes everything from its axis on as one dimension. */
static void test_softmax(void **state)
{
    (void)state;
    pb g = {0}, a = {0};
    float all[6], rows[6], sum = 0, row[2] = {0};
    for (int i = 0; i < 6; i++) {
        sum += expf(in6[i]);
        row[i / 3] += expf(in6[i]);
    }
    for (int i = 0; i < 6; i++) {
        all[i] = expf(in6[i]) / sum;
        rows[i] = expf(in6[i]) / row[i / 3];
    }
    attr_int(&a, "axis", 0);
    one_node("Softmax", "x", 11, &a, &g, all, 6);
    one_node("Softmax", "x", 11, NULL, &g, rows, 6);
    one_node("Softmax", "x", 13, NULL, &g, rows, 6);
}

/* ------------------------------------------------------------------------------------------------------ order and dead ends */

static void test_order(void **state)
{
    (void)state;
    pb g = {0};
    onnx_input(&g, "x", ONNX_F32, "2,3");
    onnx_input(&g, "unused", ONNX_F32, "who,knows");
    onnx_node(&g, "Neg", "b", "y", NULL);
    onnx_node(&g, "Nonsense", "x", "nobody", NULL);
    onnx_node(&g, "Abs", "a", "b", NULL);
    onnx_node(&g, "Neg", "x", "a", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    plim__model *m = read_ok("m.onnx", &plain);
    assert_int_equal(m->n_inputs, 1);
    gives(m, in6, 6, (const float[]){-1, -2, -3, -4, -5, -6});
    plim__model_free(&m);
}

/* Constants in every encoding, folded into one. */
static void test_constants(void **state)
{
    (void)state;
    pb g = {0}, a = {0}, half = tensor_head("half", ONNX_F16, ""), ints = tensor_head("ints", ONNX_I32, "2");
    pb more = tensor_head("more", ONNX_F64, "2");
    pb_int(&half, 5, 0x3800);
    pb_bytes(&ints, 5, "\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    pb_bytes(&more, 10, (const double[]){0.25, 8}, 16);
    onnx_init(&g, half);
    onnx_init(&g, ints);
    attr_tensor(&a, "value", more);
    onnx_node(&g, "Constant", "", "doubles", &a);
    attr_int(&a, "to", ONNX_F64);
    onnx_node(&g, "Cast", "half", "half64", &a);
    attr_int(&a, "to", ONNX_F64);
    onnx_node(&g, "Cast", "ints", "ints64", &a);
    onnx_node(&g, "Mul", "doubles ints64", "p", NULL);
    onnx_node(&g, "Add", "p half64", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("m.onnx", &g, 13);
    plim__model *m = read_ok("m.onnx", &plain);
    assert_int_equal(m->graph->n_nodes, 0);
    assert_int_equal(m->n_layers, 1);
    gives(m, NULL, 2, (const float[]){1.25f, -7.5f});
    plim__model_free(&m);
}

/* --------------------------------------------------------------------------------------------------------------- refusals */

/* A graph of one node. */
static void bad_node(const char *op, const char *in, pb *attrs, int64_t opset, plim_status code, const char *expected)
{
    pb g = {0};
    onnx_init_f32(&g, "w", "3,2", 6, weights);
    onnx_input(&g, "x", ONNX_F32, "2,3");
    onnx_node(&g, op, in, "y", attrs);
    onnx_output(&g, "y");
    onnx_save("bad.onnx", &g, opset);
    refused("bad.onnx", &plain, code, expected);
}

static void test_bad_nodes(void **state)
{
    (void)state;
    pb a = {0};
    bad_node("Mystery", "x", NULL, 13, PLIM_E_UNSUPPORTED, "bad.onnx: node 'y' (Mystery): this operator is not supported");
    attr_int(&a, "speed", 3);
    bad_node("Neg", "x", &a, 13, PLIM_E_UNSUPPORTED, "node 'y' (Neg): attribute speed is not supported");
    attr_text(&a, "axis", "first");
    bad_node("Softmax", "x", &a, 13, PLIM_E_FORMAT, "attribute axis is of type 3");
    attr_text(&a, "mode", "wrap");
    bad_node("Pad", "x", &a, 10, PLIM_E_UNSUPPORTED, "node 'y' (Pad): attribute mode = wrap is not supported");
    bad_node("MatMul", "x nothing", NULL, 13, PLIM_E_FORMAT, "node 'y' (MatMul): input 'nothing' is no node's output");
    bad_node("MatMul", "x", NULL, 13, PLIM_E_FORMAT, "node 'y' (MatMul): input 1 is missing");
    bad_node("MatMul", "x w w", NULL, 13, PLIM_E_FORMAT, "3 inputs, at most 2 are allowed");
    bad_node("MatMul", "w x y", NULL, 13, PLIM_E_FORMAT, "a cycle");
    bad_node("MatMul", "x x", NULL, 13, PLIM_E_SHAPE, "node 'y' (MatMul): matmul: [2,3] @ [2,3]");
    bad_node("Reshape", "x x", NULL, 13, PLIM_E_UNSUPPORTED, "input 1 (shape) has to be known when the model is read");
    bad_node("Add", "x x", NULL, 6, PLIM_E_UNSUPPORTED, "operator set 6 has it; 7 to 21 are supported");
    bad_node("Neg", "x", NULL, 99, PLIM_E_UNSUPPORTED, "operator set 99");
    attr_int(&a, "axis", 2);
    bad_node("Concat", "x x", &a, 13, PLIM_E_SHAPE, "node 'y' (Concat): axis 2 of 2 dimensions");
    attr_int(&a, "to", ONNX_STRING);
    bad_node("Cast", "x", &a, 13, PLIM_E_UNSUPPORTED, "data type 8 (string) is not supported");
}

static void test_cycle(void **state)
{
    (void)state;
    pb g = {0};
    onnx_input(&g, "x", ONNX_F32, "2,3");
    onnx_node(&g, "Add", "x c", "a", NULL);
    onnx_node(&g, "Neg", "a", "b", NULL);
    onnx_node(&g, "Neg", "b", "c", NULL);
    onnx_output(&g, "c");
    onnx_save("bad.onnx", &g, 13);
    refused("bad.onnx", &plain, PLIM_E_FORMAT, "a cycle: node 'b' (Neg) needs 'a', which needs that node");
}

static void bad_tensor(pb t, plim_status code, const char *expected)
{
    pb g = {0};
    onnx_init(&g, t);
    onnx_input(&g, "x", ONNX_F32, "2,3");
    onnx_node(&g, "MatMul", "x w", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("bad.onnx", &g, 13);
    refused("bad.onnx", &plain, code, expected);
}

static void test_bad_tensors(void **state)
{
    (void)state;
    bad_tensor(tensor_raw("w", ONNX_F32, "3,2", weights, 20), PLIM_E_FORMAT, "tensor 'w': 20 bytes of data at byte ");
    bad_tensor(tensor_raw("w", ONNX_STRING, "3,2", weights, 24), PLIM_E_UNSUPPORTED, "data type 8 (string) is not supported");
    bad_tensor(tensor_head("w", ONNX_F32, "3,2"), PLIM_E_FORMAT, "tensor 'w': f32 without data");
    bad_tensor(tensor_raw("w", ONNX_F32, "1,1,1,1,1,1,1,1,1,1,1,3,2", weights, 24), PLIM_E_UNSUPPORTED, "tensor 'w': 13 dimensions; 12 are supported");
    bad_tensor(tensor_raw("w", ONNX_F32, "9223372036854775807,4", weights, 24), PLIM_E_OVERFLOW, "2^63");
    pb twice = tensor_raw("w", ONNX_F32, "3,2", weights, 12);
    pb_bytes(&twice, 9, weights, 12);
    bad_tensor(twice, PLIM_E_UNSUPPORTED, "its data is in several pieces");
    pb few = tensor_head("w", ONNX_I64, "3,2");
    pb_bytes(&few, 7, "\1\2\3\4\5", 5);
    bad_tensor(few, PLIM_E_FORMAT, "tensor 'w': 5 bytes cannot hold the elements of its shape");
}

static void test_bad_files(void **state)
{
    (void)state;
    files_write("bad.onnx", "hello", 5);
    refused("bad.onnx", &plain, PLIM_E_FORMAT, "bad.onnx: ");
    files_write("bad.onnx", "", 0);
    refused("bad.onnx", &plain, PLIM_E_FORMAT, "no graph in it: not an ONNX model");
    refused("nowhere.onnx", &plain, PLIM_E_IO, "nowhere.onnx");
    refused("", &plain, PLIM_E_INVALID, "not a regular file");
    pb g = {0};
    onnx_input(&g, "x", ONNX_F32, "2");
    onnx_save("bad.onnx", &g, 13);
    refused("bad.onnx", &plain, PLIM_E_FORMAT, "the graph has no output");
    onnx_input(&g, "x", ONNX_F32, "2");
    onnx_output(&g, "y");
    onnx_save("bad.onnx", &g, 13);
    refused("bad.onnx", &plain, PLIM_E_FORMAT, "output 'y' is no node's output");
    onnx_input(&g, "x", ONNX_F32, "2");
    onnx_node(&g, "Neg", "x", "y", NULL);
    onnx_node(&g, "Abs", "x", "y", NULL);
    onnx_output(&g, "y");
    onnx_save("bad.onnx", &g, 13);
    refused("bad.onnx", &plain, PLIM_E_FORMAT, "node 'y' (Abs): output 'y' is there already");
}

/* Cut anywhere, a model is refused or read; it never crashes and never reads beyond its end. */
static void test_cut(void **state)
{
    (void)state;
    test_parameters(NULL);
    size_t n;
    uint8_t *file = files_read("m.onnx", &n);
    for (size_t i = 0; i < n; i++) {
        plim__model *m = NULL;
        plim_error err = {0};
        files_write("cut.onnx", file, i);
        if (plim__onnx_read(&m, files_path("cut.onnx"), &plain, (plim__alloc){0}, &err) == PLIM_OK) plim__model_free(&m);
        else assert_true(!m && err.message[0]);
    }
    free(file);
}

/* ------------------------------------------------------------------------------------------------------------- failures */

static void test_no_memory(void **state)
{
    (void)state;
    test_shape_arithmetic(NULL);
    const plim__model_options options = {.batch = 2, .dim = &(plim__dim_binding){"height", 1}, .n_dims = 1};
    plim_status status = PLIM_E_NOMEM;
    for (int64_t n = 0; status != PLIM_OK && n < 10000; n++) {
        countdown c = {.left = n, .from_then = true};
        plim__model *m = NULL;
        plim_error err = {0};
        status = plim__onnx_read(&m, files_path("m.onnx"), &options, countdown_of(&c), &err);
        if (status != PLIM_OK) assert_true(status == PLIM_E_NOMEM && !m && err.code == PLIM_E_NOMEM);
        plim__model_free(&m);
        assert_int_equal(c.live, 0);
    }
    assert_int_equal(status, PLIM_OK);
}

static void test_read_errors(void **state)
{
    (void)state;
    test_constants(NULL);
    plim_status status = PLIM_E_IO;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        failing_os os;
        plim__model *m = NULL;
        plim_error err = {0};
        failing_os_init(&os);
        os.reads_left = n;
        status = plim__onnx_read_from(&m, &os.table, files_path("m.onnx"), &plain, (plim__alloc){0}, &err);
        if (status != PLIM_OK) assert_true(status == PLIM_E_IO && strstr(err.message, "m.onnx"));
        plim__model_free(&m);
        assert_true(n < 100);
    }
}

/* Which reader is asked follows from the content, not from the name. */
static void test_dispatch(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t n; plim_status code; const char *says; } heads[] = {
        {"", 0, PLIM_E_FORMAT, "an empty file is no model"},
        {"\x08\x08", 2, PLIM_E_FORMAT, "not an ONNX model"},
        {"hello\n", 6, PLIM_E_FORMAT, "neither an ONNX model nor one of Keras (.keras, .h5, JSON): it begins with 'hello?'"},
        {" {\"class_name\": \"Nonsense\"}", 28, PLIM_E_FORMAT, "'config' is missing"},
    };
    plim__model *m = NULL;
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        plim_error err = {0};
        files_write("model", heads[i].bytes, heads[i].n);
        const plim_status status = plim__model_read(&m, files_path("model"), &plain, (plim__alloc){0}, &err);
        if (status != heads[i].code || !strstr(err.message, heads[i].says)) fail_msg("%s '%s'", plim_status_name(status), err.message);
        assert_null(m);
    }
    test_parameters(NULL);
    assert_int_equal(plim__model_read(&m, files_path("m.onnx"), NULL, (plim__alloc){0}, NULL), PLIM_OK);
    plim__model_free(&m);
}

/* -------------------------------------------------------------------------------------------------------- known networks */

static const struct { const char *name, *out, *out4; uint32_t convs; } light[] = {
    {"bvlc_alexnet", "[1,1000]", "[4,1000]", 5},
    {"densenet121", "[1,1000,1,1]", "[4,1000,1,1]", 121},
    {"inception_v1", "[1,1000]", "[4,1000]", 57},
    {"inception_v2", "[1,1000]", "[4,1000]", 69},
    {"resnet50", "[1,1000]", "[4,1000]", 53},
    {"shufflenet", "[1,1000]", "[4,1000]", 49},
    {"squeezenet", "[1,1000,1,1]", "[4,1000,1,1]", 26},
    {"vgg19", "[1,1000]", "[4,1000]", 16},
    {"zfnet512", "[1,1000]", "[4,1000]", 5},
};

static void test_light(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (size_t i = 0; i < COUNT_OF(light); i++) {
        char path[512], file[64];
        snprintf(file, sizeof file, "onnx-light/light_%s.onnx", light[i].name);
        if (!files_shared(path, sizeof path, file)) continue;
        found++;
        for (int round = 0; round < 3; round++) { /* as it is; four samples; four samples in training */
            plim__model *m = NULL;
            plim_error err = {0};
            const plim__model_options options = {.batch = round ? 4 : 0, .training = round == 2};
            uint32_t convs = 0;
            if (plim__onnx_read(&m, path, &options, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
            shape_is(m, m->output[0].value, round ? light[i].out4 : light[i].out);
            for (uint32_t k = 0; k < m->n_layers; k++) convs += !strcmp(m->layer[k].kind, "Conv");
            assert_int_equal(convs, light[i].convs);
            assert_int_equal(m->n_inputs, 1);
            plim__model_free(&m);
        }
    }
    if (found == 0) {
        print_message("# the networks are not here\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_shape_arithmetic),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_opsets),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_bad_nodes),
        cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read_errors),
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_light),
    };
    return cmocka_run_group_tests_name("onnx", tests, files_begin, files_end);
}
