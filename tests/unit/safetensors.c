/* safetensors files: good ones, and ones with every field wrong, cut at every byte, with every byte changed, read by a system that fails. */
#include "unit.h"

#include "countdown.h"
#include "files.h"
#include "formats/safetensors.h"

/* Writes "t": the length, the header, `bytes` of data, byte i being i. @param length  0: what the header has */
static void write_file(const char *header, uint64_t length, size_t bytes)
{
    const size_t n = strlen(header), total = 8 + n + bytes;
    uint8_t *p = malloc(total);
    if (length == 0) length = n;
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(length >> 8 * i);
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < bytes; i++) p[8 + n + i] = (uint8_t)i;
    files_write("t", p, total);
    free(p);
}

static plim_status open_file(plim__safetensors *f, plim_error *err)
{
    *err = (plim_error){0};
    return plim__safetensors_open(f, &plim__os_linux, files_path("t"), (plim__alloc){0}, err);
}

static const char good[] = "{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"},"
                           "\"layer.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
                           "\"b\":{\"shape\":[],\"data_offsets\":[0,4],\"dtype\":\"I32\"},"
                           "\"none\":{\"dtype\":\"F64\",\"shape\":[5,0],\"data_offsets\":[28,28]},"
                           "\"m\\u00e4sk\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[28,31]}}   ";
#define GOOD_BYTES 31

static void test_good(void **state)
{
    (void)state;
    plim__safetensors f;
    plim__array_file a;
    plim_error err;
    write_file(good, 0, GOOD_BYTES);
    const uint64_t start = 8 + strlen(good);
    if (open_file(&f, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(f.n_tensors, 4);
    assert_int_equal(plim__safetensors_find(&a, &f, "layer.weight", &err), PLIM_OK);
    assert_int_equal(a.dtype, PLIM_F32);
    assert_true(plim__shape_equal(&a.shape, &(plim_shape){2, {2, 3}}));
    assert_string_equal(a.source.path, files_path("t"));
    assert_int_equal(a.source.offset, start + 4);
    assert_true(a.source.stride[0] == 3 && a.source.stride[1] == 1 && !a.source.swap && !a.compressed && !a.fortran_order);
    plim__stat st;
    int fd;
    assert_int_equal(plim__file_open(&fd, &st, &plim__os_linux, a.source.path, &err), PLIM_OK);
    assert_true(a.source.file_bytes == st.size && a.source.inode == st.inode && a.source.device == st.device && a.source.mtime_ns == st.mtime_ns);
    uint8_t first;
    assert_int_equal(pread(fd, &first, 1, (off_t)a.source.offset), 1);
    assert_int_equal(first, 4);
    close(fd);
    assert_int_equal(plim__safetensors_find(&a, &f, "b", &err), PLIM_OK);
    assert_true(a.dtype == PLIM_I32 && a.shape.rank == 0 && a.source.offset == start);
    assert_int_equal(plim__safetensors_find(&a, &f, "none", &err), PLIM_OK);
    assert_true(a.dtype == PLIM_F64 && a.shape.dim[0] == 5 && a.shape.dim[1] == 0 && a.source.stride[0] == 0);
    assert_int_equal(plim__safetensors_find(&a, &f, "m\xc3\xa4sk", &err), PLIM_OK);
    assert_true(a.dtype == PLIM_BOOL && a.source.offset == start + 28);
    plim__safetensors_free(&f);
    assert_true(!f.tensor && !f.path && f.n_tensors == 0);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        plim_dtype dtype;
    } all[] = {{"F64", PLIM_F64}, {"F32", PLIM_F32}, {"F16", PLIM_F16}, {"BF16", PLIM_BF16}, {"I64", PLIM_I64}, {"I32", PLIM_I32}, {"I16", PLIM_I16},
               {"I8", PLIM_I8}, {"U8", PLIM_U8}, {"BOOL", PLIM_BOOL}, {"U16", PLIM_U16}, {"U32", PLIM_U32}, {"U64", PLIM_U64}};
    assert_int_equal(COUNT_OF(all), PLIM_DTYPE_COUNT);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        char header[128];
        plim__safetensors f;
        plim__array_file a;
        plim_error err;
        const size_t bytes = 7 * plim_dtype_bytes(all[i].dtype);
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[7],\"data_offsets\":[0,%zu]}}", all[i].name, bytes);
        write_file(header, 0, bytes);
        if (open_file(&f, &err) != PLIM_OK) fail_msg("%s", err.message);
        assert_int_equal(plim__safetensors_find(&a, &f, "x", &err), PLIM_OK);
        assert_int_equal(a.dtype, all[i].dtype);
        plim__safetensors_free(&f);
    }
}

/* Files without tensors are files. */
static void test_empty(void **state)
{
    (void)state;
    static const char *const headers[] = {"{}", "{ }", "{\"__metadata__\":{}}"};
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        plim__safetensors f;
        plim__array_file a;
        plim_error err;
        write_file(headers[i], 0, 0);
        assert_int_equal(open_file(&f, &err), PLIM_OK);
        assert_int_equal(plim__safetensors_find(&a, &f, "x", &err), PLIM_E_INVALID);
        assert_non_null(strstr(err.message, "/t: no tensor 'x': there are none"));
        plim__safetensors_free(&f);
    }
}

static void test_missing_name(void **state)
{
    (void)state;
    plim__safetensors f;
    plim__array_file a;
    plim_error err;
    write_file(good, 0, GOOD_BYTES);
    assert_int_equal(open_file(&f, &err), PLIM_OK);
    assert_int_equal(plim__safetensors_find(&a, &f, "layer.\n", &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "/t: no tensor 'layer.?'; there are b, layer.weight, m??sk, none"));
    plim__safetensors_free(&f);

    char header[4096] = "{";
    for (int i = 0; i < 60; i++)
        sprintf(header + strlen(header), "%s\"tensor%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i);
    strcat(header, "}");
    write_file(header, 0, 0);
    assert_int_equal(open_file(&f, &err), PLIM_OK);
    assert_int_equal(plim__safetensors_find(&a, &f, "", &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "there are tensor0, tensor1, tensor10"));
    assert_non_null(strstr(err.message, " more"));
    plim__safetensors_free(&f);
}

#define TENSOR(fields) "{\"x\":{" fields "}}"
#define PLACED(dtype, shape, place) TENSOR("\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" place)
#define TWO(a, b) "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" a "},\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" b "}}"

static const struct {
    const char *header;
    size_t bytes;
    plim_status code;
    const char *says;
} refused[] = {
    /* the text */
    {"[]", 0, PLIM_E_FORMAT, "the header is not a JSON object"},
    {" {}", 0, PLIM_E_FORMAT, "the header is not a JSON object"},
    {"{", 0, PLIM_E_FORMAT, "not JSON"},
    {"{} {}", 0, PLIM_E_FORMAT, "not JSON"},
    {"{\"x\":\"\xff\"}", 0, PLIM_E_FORMAT, "not JSON"},
    {"{\"x\\u0000\":{}}", 0, PLIM_E_FORMAT, "not JSON"},
    {"{\"x\":1,\"x\":1}", 0, PLIM_E_FORMAT, "duplicate object key"},
    {TENSOR("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]"), 1, PLIM_E_FORMAT, "duplicate object key"},
    /* the metadata */
    {"{\"__metadata__\":3}", 0, PLIM_E_FORMAT, "__metadata__: not an object"},
    {"{\"__metadata__\":{\"a\":{}}}", 0, PLIM_E_FORMAT, "__metadata__.a: expected a string, found an object"},
    /* members */
    {"{\"x\":3}", 0, PLIM_E_FORMAT, "x: expected an object, found an integer"},
    {"{\"x\\n\":null}", 0, PLIM_E_FORMAT, "x?: expected an object, found null"},
    {TENSOR("\"shape\":[],\"data_offsets\":[0,1]"), 1, PLIM_E_FORMAT, "x: 'dtype' is missing"},
    {TENSOR("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, PLIM_E_FORMAT, "x: 'shape' is missing"},
    {TENSOR("\"dtype\":\"U8\",\"shape\":[]"), 1, PLIM_E_FORMAT, "x: 'data_offsets' is missing"},
    {TENSOR("\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"more\":1"), 1, PLIM_E_FORMAT, "x: more than dtype, shape and data_offsets"},
    /* dtype */
    {PLACED("8", "[]", "[0,1]"), 1, PLIM_E_FORMAT, "x.dtype: expected a string, found an integer"},
    {PLACED("\"F8_E4M3\"", "[]", "[0,1]"), 1, PLIM_E_UNSUPPORTED, "x.dtype: 'F8_E4M3' is not supported"},
    {PLACED("\"f32\"", "[]", "[0,4]"), 4, PLIM_E_UNSUPPORTED, "x.dtype: 'f32' is not supported"},
    {PLACED("\"\\u001b[2J\"", "[]", "[0,1]"), 1, PLIM_E_UNSUPPORTED, "x.dtype: '?[2J' is not supported"},
    /* shape */
    {PLACED("\"U8\"", "4", "[0,4]"), 4, PLIM_E_FORMAT, "x.shape: not a list"},
    {PLACED("\"U8\"", "{}", "[0,1]"), 1, PLIM_E_FORMAT, "x.shape: not a list"},
    {PLACED("\"U8\"", "[\"4\"]", "[0,4]"), 4, PLIM_E_FORMAT, "x.shape: expected 1 number"},
    {PLACED("\"U8\"", "[4.0]", "[0,4]"), 4, PLIM_E_FORMAT, "x.shape: expected 1 number"},
    {PLACED("\"U8\"", "[2,-2]", "[0,4]"), 4, PLIM_E_FORMAT, "x.shape: an extent of -2"},
    {PLACED("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, PLIM_E_UNSUPPORTED, "x.shape: 13 dimensions; 12 are supported"},
    {PLACED("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0, PLIM_E_OVERFLOW, "x: "},
    {PLACED("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, PLIM_E_OVERFLOW, "x: "},
    {PLACED("\"U8\"", "[99999999999999999999]", "[0,0]"), 0, PLIM_E_FORMAT, "not JSON"},
    /* data_offsets */
    {PLACED("\"U8\"", "[4]", "4"), 4, PLIM_E_FORMAT, "x.data_offsets: expected 2 numbers"},
    {PLACED("\"U8\"", "[4]", "[0]"), 4, PLIM_E_FORMAT, "x.data_offsets: expected 2 numbers"},
    {PLACED("\"U8\"", "[4]", "[0,4,4]"), 4, PLIM_E_FORMAT, "x.data_offsets: expected 2 numbers"},
    {PLACED("\"U8\"", "[4]", "[0,4.5]"), 4, PLIM_E_FORMAT, "x.data_offsets: expected 2 numbers"},
    {PLACED("\"U8\"", "[4]", "[-4,0]"), 4, PLIM_E_FORMAT, "x.data_offsets: [-4, 0) is not inside the 4 bytes behind the header"},
    {PLACED("\"U8\"", "[4]", "[4,0]"), 4, PLIM_E_FORMAT, "x.data_offsets: [4, 0) is not inside"},
    {PLACED("\"U8\"", "[5]", "[0,5]"), 4, PLIM_E_FORMAT, "x.data_offsets: [0, 5) is not inside"},
    {PLACED("\"U8\"", "[4]", "[9223372036854775803,9223372036854775807]"), 4, PLIM_E_FORMAT, "is not inside"},
    {PLACED("\"U8\"", "[4]", "[0,3]"), 4, PLIM_E_FORMAT, "x.data_offsets: 3 bytes; the shape needs 4"},
    {PLACED("\"U16\"", "[2]", "[0,2]"), 4, PLIM_E_FORMAT, "x.data_offsets: 2 bytes; the shape needs 4"},
    {PLACED("\"U16\"", "[0,2]", "[0,4]"), 4, PLIM_E_FORMAT, "x.data_offsets: 4 bytes; the shape needs 0"},
    /* places */
    {TWO("[0,4]", "[0,4]"), 8, PLIM_E_FORMAT, "shares bytes with another one"},
    {TWO("[3,7]", "[0,4]"), 7, PLIM_E_FORMAT, "tensor 'x' shares bytes with another one"},
    {TWO("[0,4]", "[5,9]"), 9, PLIM_E_FORMAT, "belongs to no tensor"},
    {TWO("[1,5]", "[5,9]"), 9, PLIM_E_FORMAT, "belongs to no tensor"},
    {TWO("[0,4]", "[4,8]"), 9, PLIM_E_FORMAT, "belongs to no tensor"},
    {"{}", 1, PLIM_E_FORMAT, "byte 10 belongs to no tensor"},
};

static void expect_refusal(plim_status code, const char *says, const char *what)
{
    plim__safetensors f;
    plim_error err;
    const plim_status got = open_file(&f, &err);
    if (got != code || err.code != code || !strstr(err.message, says) || !strstr(err.message, files_path("t")))
        fail_msg("%s: %s: %s", what, plim_status_name(got), err.message);
    assert_true(!f.path && !f.tensor);
}

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        write_file(refused[i].header, 0, refused[i].bytes);
        expect_refusal(refused[i].code, refused[i].says, refused[i].header);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {3, 11, UINT32_MAX, (uint64_t)INT64_MAX, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        write_file("{}", lengths[i], 0);
        expect_refusal(PLIM_E_FORMAT, "in a file of 10", "length");
    }
    files_write("t", "\0\0\0\0\0\0\0\0", 8);
    expect_refusal(PLIM_E_FORMAT, "the header is not a JSON object", "no header");
    write_file("{}", UINT64_C(40) << 20, 0);
    assert_int_equal(truncate(files_path("t"), 50 << 20), 0);
    expect_refusal(PLIM_E_UNSUPPORTED, "a header of 41943040 bytes is too large", "large");
}

static void test_no_file(void **state)
{
    (void)state;
    plim__safetensors f;
    plim_error err = {0};
    assert_int_equal(plim__safetensors_open(&f, &plim__os_linux, files_path("none"), (plim__alloc){0}, &err), PLIM_E_IO);
    assert_non_null(strstr(err.message, "none"));
    err = (plim_error){0};
    assert_int_equal(plim__safetensors_open(&f, &plim__os_linux, files_dir, (plim__alloc){0}, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "not a regular file"));
}

static void test_truncated(void **state)
{
    (void)state;
    size_t n;
    write_file(good, 0, GOOD_BYTES);
    uint8_t *all = files_read("t", &n);
    for (size_t i = 0; i < n; i++) {
        files_write("t", all, i);
        expect_refusal(PLIM_E_FORMAT, "/t", "cut");
    }
    free(all);
}

/* Whatever is still accepted lies inside the file. */
static void test_every_byte_changed(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0x01, 0x04, 0x10, 0x80};
    size_t n;
    write_file(good, 0, GOOD_BYTES);
    uint8_t *all = files_read("t", &n);
    for (size_t i = 0; i < n - GOOD_BYTES; i++)
        for (size_t k = 0; k < COUNT_OF(flips); k++) {
            plim__safetensors f;
            plim_error err;
            all[i] ^= flips[k];
            files_write("t", all, n);
            all[i] ^= flips[k];
            if (open_file(&f, &err) != PLIM_OK) {
                assert_true(err.message[0] && strstr(err.message, files_path("t")));
                continue;
            }
            for (uint32_t t = 0; t < f.n_tensors; t++) {
                plim__array_file a;
                uint64_t bytes;
                assert_int_equal(plim__safetensors_find(&a, &f, f.tensor[t].name, &err), PLIM_OK);
                assert_int_equal(plim_shape_bytes(&bytes, &a.shape, a.dtype, &err), PLIM_OK);
                assert_true(a.source.offset <= n && bytes <= n - a.source.offset);
            }
            plim__safetensors_free(&f);
        }
    free(all);
}

static void test_failures(void **state)
{
    (void)state;
    write_file(good, 0, GOOD_BYTES);
    plim__safetensors f;
    plim_status status = PLIM_E_NOMEM;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        countdown c = {.left = n};
        plim_error err = {0};
        status = plim__safetensors_open(&f, &plim__os_linux, files_path("t"), countdown_of(&c), &err);
        if (status == PLIM_OK) plim__safetensors_free(&f);
        else assert_true(status == PLIM_E_NOMEM && err.code == PLIM_E_NOMEM);
        assert_int_equal(c.live, 0);
        assert_true(n < 100);
    }
    status = PLIM_E_IO;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        failing_os os;
        plim_error err = {0};
        failing_os_init(&os);
        os.reads_left = n;
        os.short_counts = n > 1;
        status = plim__safetensors_open(&f, &os.table, files_path("t"), (plim__alloc){0}, &err);
        if (status == PLIM_OK) plim__safetensors_free(&f);
        else assert_true(status == PLIM_E_IO && strstr(err.message, "/t"));
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good), cmocka_unit_test(test_dtypes), cmocka_unit_test(test_empty), cmocka_unit_test(test_missing_name),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_lengths), cmocka_unit_test(test_no_file), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_every_byte_changed), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("safetensors", tests, files_begin, files_end);
}
