/* .npy headers: hand-made ones, NumPy's, damaged ones; and ours as NumPy sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/size.h"
#include "files.h"
#include "formats/array_file.h"

/* A file in memory: magic, version, a header of `literal` (padded to `length` if that is longer), `data` zero bytes. */
typedef struct made {
    uint8_t bytes[8192];
    uint64_t n;
} made;

static made make(unsigned major, const char *literal, uint64_t data)
{
    made m = {.n = 0};
    const uint64_t length = strlen(literal), prefix = major == 1 ? 10 : 12;
    memcpy(m.bytes, "\x93NUMPY", 6);
    m.bytes[6] = (uint8_t)major;
    m.bytes[8] = (uint8_t)length;
    m.bytes[9] = (uint8_t)(length >> 8);
    memcpy(m.bytes + prefix, literal, length);
    m.n = prefix + length + data;
    assert_true(m.n <= sizeof m.bytes);
    return m;
}

static plim_status parse(plim__array_file *f, const made *m, plim_error *err)
{
    *f = (plim__array_file){0};
    *err = (plim_error){0};
    /* An exact copy, so that the sanitizers see a read past the end. */
    uint8_t *exact = malloc(m->n ? m->n : 1);
    memcpy(exact, m->bytes, m->n);
    const plim_status status = plim__npy_parse(f, exact, m->n, 0, m->n, "t.npy", err);
    free(exact);
    return status;
}

static void accepts_spellings(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (3, 4)}",
        "{'shape': (3L, 4L), 'fortran_order': False, 'descr': '<f4'}   \n",
        "  {'fortran_order':False,'descr':'<f4','shape':(3,4,),}",
        "{ 'descr' : '=f4' ,\n 'fortran_order'\t: False , 'shape' : ( 3 , 4 , ) , }",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (3, 4), }",
        "{'descr': '|f4', 'fortran_order': False, 'shape': (3, 4), }",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        for (unsigned major = 1; major <= 3; major++) {
            plim__array_file f;
            plim_error err;
            const made m = make(major, same[i], 48);
            assert_int_equal(parse(&f, &m, &err), PLIM_OK);
            assert_int_equal(f.dtype, PLIM_F32);
            assert_int_equal(f.shape.rank, 2);
            assert_int_equal(f.shape.dim[0], 3);
            assert_int_equal(f.shape.dim[1], 4);
            assert_int_equal(f.source.stride[0], 4);
            assert_int_equal(f.source.stride[1], 1);
            assert_false(f.fortran_order || f.source.swap || f.compressed);
            assert_int_equal(f.source.offset, m.n - 48);
        }
}

static void reads_ranks_and_orders(void **state)
{
    (void)state;
    plim__array_file f;
    plim_error err;
    made m = make(1, "{'descr': '>f8', 'fortran_order': True, 'shape': (), }", 8);
    assert_int_equal(parse(&f, &m, &err), PLIM_OK);
    assert_int_equal(f.shape.rank, 0);
    assert_true(f.source.swap);

    m = make(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3, 5), }", 60);
    assert_int_equal(parse(&f, &m, &err), PLIM_OK);
    assert_true(f.fortran_order && f.source.swap);
    assert_int_equal(f.source.stride[0], 1);
    assert_int_equal(f.source.stride[1], 2);
    assert_int_equal(f.source.stride[2], 6);

    m = make(1, "{'descr': '>u1', 'fortran_order': False, 'shape': (7,), }", 9); /* longer than needed is allowed */
    assert_int_equal(parse(&f, &m, &err), PLIM_OK);
    assert_false(f.source.swap);

    m = make(1, "{'descr': '?', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1), }", 1);
    assert_int_equal(parse(&f, &m, &err), PLIM_OK);
    assert_int_equal(f.dtype, PLIM_BOOL);
    assert_int_equal(f.shape.rank, 8);

    m = make(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (4,), }", 8);
    assert_int_equal(parse(&f, &m, &err), PLIM_OK);
    assert_int_equal(f.dtype, PLIM_BF16);

    /* no elements: nothing to multiply, so nothing overflows */
    m = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807, 0), }", 0);
    assert_int_equal(parse(&f, &m, &err), PLIM_OK);
    assert_int_equal(f.source.stride[0], 0);
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *literal;
        plim_status code;
        const char *says;
    } bad[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'|O': Python objects"},
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'<U5': text"},
        {"{'descr': '|S3', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'|S3': text"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'<c8': complex"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'<M8[ns]': dates"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'<f16'"},
        {"{'descr': '|V16', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'|V16': raw records"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "''"},
        {"{'descr': 'float32', 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "'float32'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", PLIM_E_UNSUPPORTED, "[('a', '<f4')]"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", PLIM_E_FORMAT, "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", PLIM_E_FORMAT, "only dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", PLIM_E_FORMAT, "a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", PLIM_E_FORMAT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", PLIM_E_FORMAT, "dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", PLIM_E_FORMAT, "','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1)}", PLIM_E_UNSUPPORTED, "more than 12 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", PLIM_E_OVERFLOW, "[4294967296,4294967296]"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", PLIM_E_OVERFLOW, "[4611686018427387904]"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", PLIM_E_OVERFLOW, "(99999999999999999999,)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000,)}", PLIM_E_FORMAT, "f32[1000]"},
        {"{'descr': '<f4', 'fortran_order': False}", PLIM_E_FORMAT, "'shape' is missing"},
        {"{'descr': '<f4', 'shape': (1,)}", PLIM_E_FORMAT, "'fortran_order' is missing"},
        {"{}", PLIM_E_FORMAT, "'descr' is missing"},
        {"", PLIM_E_FORMAT, "'{'"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", PLIM_E_FORMAT, "a second key 'descr'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", PLIM_E_FORMAT, "unknown key 'x'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + {}", PLIM_E_FORMAT, "nothing more"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", PLIM_E_FORMAT, "','"},
        {"{'descr: <f4", PLIM_E_FORMAT, "closing quote"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", PLIM_E_FORMAT, "where the header ends"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plim__array_file f;
        plim_error err;
        const made m = make(1, bad[i].literal, 16);
        const plim_status status = parse(&f, &m, &err);
        if (status != bad[i].code || !strstr(err.message, bad[i].says) || strncmp(err.message, "t.npy: ", 7) != 0)
            fail_msg("%s gave %s: %s", bad[i].literal, plim_status_name(status), err.message);
        assert_string_equal(err.where, "t.npy");
    }
}

static void refuses_versions_and_lengths(void **state)
{
    (void)state;
    plim__array_file f;
    plim_error err;
    made m = make(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4);
    assert_int_equal(parse(&f, &m, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "4.0"));
    m = make(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4);
    memset(m.bytes + 8, 0xff, 4);
    assert_int_equal(parse(&f, &m, &err), PLIM_E_UNSUPPORTED);
    m = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4);
    m.bytes[0] = 'X';
    assert_int_equal(parse(&f, &m, &err), PLIM_E_FORMAT);
    assert_non_null(strstr(err.message, "not an .npy file"));
    m = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 11);
    assert_int_equal(parse(&f, &m, &err), PLIM_E_FORMAT);
    assert_int_equal(err.offset, m.n);
    assert_int_equal(err.need, 12);
    assert_int_equal(err.have, 11);
    /* an offset that cannot be added to */
    m = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693951,)}", 0);
    assert_int_equal(parse(&f, &m, &err), PLIM_E_FORMAT);
}

static void survives_truncation_and_flips(void **state)
{
    (void)state;
    plim__array_file f;
    plim_error err;
    const made whole = make(2, "{'descr': '>f4', 'fortran_order': True, 'shape': (3L, 4), }  \n", 48);
    for (uint64_t n = 0; n <= whole.n; n++) {
        made cut = whole;
        cut.n = n;
        assert_int_equal(parse(&f, &cut, &err), n == whole.n ? PLIM_OK : PLIM_E_FORMAT);
    }
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        made hurt = whole;
        const int flips = 1 + (int)(files_random(&seed) % 3);
        for (int k = 0; k < flips; k++) {
            const uint64_t r = files_random(&seed);
            hurt.bytes[r % (whole.n - 48)] ^= (uint8_t)(1u << (r >> 32) % 8);
        }
        if (parse(&f, &hurt, &err) != PLIM_OK) {
            assert_true(err.message[0] != 0);
            continue;
        }
        uint64_t bytes;
        assert_int_equal(plim_shape_bytes(&bytes, &f.shape, f.dtype, NULL), PLIM_OK);
        assert_true(f.source.offset + bytes <= hurt.n);
    }
}

/* ------------------------------------------------------------------------------------------------------- files */

static void opens_files(void **state)
{
    (void)state;
    char path[256];
    plim__array_file f;
    plim_error err = {0};
    const made m = make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24);
    files_write("a:b.npy", m.bytes, m.n);
    assert_int_equal(plim__array_open(&f, &plim__os_linux, files_path("a:b.npy"), NULL, path, sizeof path, &err), PLIM_OK);
    assert_string_equal(f.source.path, files_path("a:b.npy"));
    assert_int_equal(f.source.file_bytes, m.n);
    assert_true(f.source.inode != 0 && f.source.mtime_ns != 0);

    plim_array_info info;
    assert_int_equal(plim_array_info_read(&info, files_path("a:b.npy"), &err), PLIM_OK);
    assert_int_equal(info.dtype, PLIM_I32);
    assert_int_equal(info.bytes, 24);
    assert_int_equal(info.data_offset, m.n - 24);

    assert_int_equal(plim_array_info_read(&info, files_path("none.npy"), &err), PLIM_E_IO);
    assert_non_null(strstr(err.message, "none.npy"));
    err = (plim_error){0};
    assert_int_equal(plim_array_info_read(&info, files_dir, &err), PLIM_E_INVALID);
    err = (plim_error){0};
    char small[8];
    assert_int_equal(plim__array_open(&f, &plim__os_linux, files_path("a:b.npy"), NULL, small, sizeof small, &err), PLIM_E_INVALID);
    files_write("empty.npy", "", 0);
    err = (plim_error){0};
    assert_int_equal(plim_array_info_read(&info, files_path("empty.npy"), &err), PLIM_E_FORMAT);
}

static void opens_raw_files(void **state)
{
    (void)state;
    char path[256];
    plim__array_file f;
    plim_error err = {0};
    files_write("raw.npz:x", "0123456789", 10); /* a colon means nothing in a raw file's path */
    plim_binding raw = {.raw = true, .dtype = PLIM_U16, .shape = {.rank = 2, .dim = {2, 2}}, .raw_offset = 2};
    assert_int_equal(plim__array_open(&f, &plim__os_linux, files_path("raw.npz:x"), &raw, path, sizeof path, &err), PLIM_OK);
    assert_int_equal(f.source.offset, 2);
    assert_int_equal(f.source.stride[0], 2);
    raw.raw_offset = 3;
    assert_int_equal(plim__array_open(&f, &plim__os_linux, files_path("raw.npz:x"), &raw, path, sizeof path, &err), PLIM_E_FORMAT);
    err = (plim_error){0};
    raw.raw_offset = UINT64_MAX;
    assert_int_equal(plim__array_open(&f, &plim__os_linux, files_path("raw.npz:x"), &raw, path, sizeof path, &err), PLIM_E_FORMAT);
    err = (plim_error){0};
    raw.shape = (plim_shape){.rank = 2, .dim = {INT64_MAX, 2}};
    assert_int_equal(plim__array_open(&f, &plim__os_linux, files_path("raw.npz:x"), &raw, path, sizeof path, &err), PLIM_E_OVERFLOW);
}

static void survives_failing_reads(void **state)
{
    (void)state;
    char path[256];
    plim__array_file f;
    failing_os os;
    const made m = make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24);
    files_write("f.npy", m.bytes, m.n);
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        plim_error err = {0};
        failing_os_init(&os);
        os.reads_left = n;
        done = plim__array_open(&f, &os.table, files_path("f.npy"), NULL, path, sizeof path, &err) == PLIM_OK;
        assert_int_equal(err.code, done ? PLIM_OK : PLIM_E_IO);
        assert_true(n < 10);
    }
    failing_os_init(&os);
    os.short_counts = true;
    assert_int_equal(plim__array_open(&f, &os.table, files_path("f.npy"), NULL, path, sizeof path, NULL), PLIM_OK);
    failing_os_init(&os);
    os.reads_left = 1;
    os.error = 0; /* the file shrank meanwhile */
    assert_int_equal(plim__array_open(&f, &os.table, files_path("f.npy"), NULL, path, sizeof path, NULL), PLIM_E_FORMAT);
}

/* --------------------------------------------------------------------------------------------------- with NumPy */

/* Reads element by element through the strides and compares with the dense little-endian bytes that NumPy wrote beside it. */
static void check_against_dense(const char *name)
{
    char path[256], dense_name[64];
    plim__array_file f;
    plim_error err = {0};
    if (plim__array_open(&f, &plim__os_linux, files_path(name), NULL, path, sizeof path, &err) != PLIM_OK) fail_msg("%s", err.message);
    size_t n_file, n_dense;
    snprintf(dense_name, sizeof dense_name, "%s.dense", name);
    uint8_t *file = files_read(name, &n_file), *dense = files_read(dense_name, &n_dense);
    uint64_t count;
    const uint64_t element = plim_dtype_bytes(f.dtype);
    assert_int_equal(plim_shape_count(&count, &f.shape, NULL), PLIM_OK);
    assert_int_equal(count * element, n_dense);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0, rest = i;
        for (uint32_t d = f.shape.rank; d-- > 0;) {
            at += rest % (uint64_t)f.shape.dim[d] * (uint64_t)f.source.stride[d];
            rest /= (uint64_t)f.shape.dim[d];
        }
        for (uint64_t b = 0; b < element; b++)
            if (file[f.source.offset + at * element + (f.source.swap ? element - 1 - b : b)] != dense[i * element + b])
                fail_msg("%s: element %llu differs", name, (unsigned long long)i);
    }
    free(file);
    free(dense);
}

static void reads_what_numpy_writes(void **state)
{
    (void)state;
    if (!files_have_numpy()) skip();
    assert_true(files_python("import numpy as np, warnings\n"
                             "warnings.simplefilter('ignore')\n"
                             "names = []\n"
                             "for t in 'b1 u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8'.split():\n"
                             "  for end in '<>':\n"
                             "    for order in 'CF':\n"
                             "      for shape in ((), (0,), (5,), (2, 3), (4, 1, 3), (2, 0, 3)):\n"
                             "        for version in ((1, 0), (2, 0), (3, 0)):\n"
                             "          n = int(np.prod(shape))\n"
                             "          x = (np.arange(n) * 37 % 101).reshape(shape).astype(end + t)\n"
                             "          x = np.asarray(x, order=order)\n"
                             "          name = 'numpy%d.npy' % len(names)\n"
                             "          with open(name, 'wb') as f: np.lib.format.write_array(f, x, version)\n"
                             "          with open(name + '.dense', 'wb') as f: f.write(x.astype('<' + t).tobytes('C'))\n"
                             "          names.append(name)\n"
                             "open('count', 'w').write('%d' % len(names))\n"));
    size_t n;
    uint8_t *text = files_read("count", &n);
    text[n] = 0;
    const int count = atoi((char *)text);
    free(text);
    assert_int_equal(count, 12 * 2 * 2 * 6 * 3);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "numpy%d.npy", i);
        check_against_dense(name);
    }
}

static void writes_what_numpy_reads(void **state)
{
    (void)state;
    static const plim_shape shapes[] = {
        {.rank = 0}, {.rank = 1, .dim = {3}}, {.rank = 1, .dim = {0}}, {.rank = 3, .dim = {2, 1, 4}}, {.rank = 8, .dim = {1, 2, 1, 2, 1, 1, 1, 3}}};
    char buf[PLIM__NPY_HEADER + 1024];
    for (int t = 0; t < PLIM_DTYPE_COUNT; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            char name[48];
            uint64_t bytes;
            plim__array_file f = {0};
            assert_int_equal(plim__npy_header(buf, (plim_dtype)t, &shapes[s], NULL), PLIM_OK);
            assert_int_equal(buf[PLIM__NPY_HEADER - 1], '\n');
            assert_int_equal(plim_shape_bytes(&bytes, &shapes[s], (plim_dtype)t, NULL), PLIM_OK);
            for (uint64_t i = 0; i < bytes; i++) buf[PLIM__NPY_HEADER + i] = (char)(t == PLIM_BOOL ? i % 2 : i % 60);
            const uint64_t n = PLIM__NPY_HEADER + bytes;
            assert_int_equal(plim__npy_parse(&f, (uint8_t *)buf, n, 0, n, "ours", NULL), PLIM_OK);
            assert_int_equal(f.dtype, t);
            assert_int_equal(f.source.offset, PLIM__NPY_HEADER);
            assert_memory_equal(&f.shape, &shapes[s], sizeof f.shape);
            snprintf(name, sizeof name, "ours-%s-%zu.npy", plim_dtype_name((plim_dtype)t), s);
            files_write(name, buf, n);
        }
    plim_shape huge = {.rank = 2, .dim = {INT64_MAX, INT64_MAX}};
    assert_int_equal(plim__npy_header(buf, PLIM_F32, &huge, NULL), PLIM_E_OVERFLOW);
    assert_int_equal(plim__npy_header(buf, PLIM_DTYPE_COUNT, &shapes[0], NULL), PLIM_E_INVALID);
    if (!files_have_numpy()) skip();
    assert_true(files_python("import numpy as np\n"
                             "shapes = [(), (3,), (0,), (2, 1, 4), (1, 2, 1, 2, 1, 1, 1, 3)]\n"
                             "names = {'bool': '?', 'u8': 'u1', 'u16': 'u2', 'u32': 'u4', 'u64': 'u8', 'i8': 'i1', 'i16': 'i2', 'i32': 'i4',\n"
                             "         'i64': 'i8', 'f16': 'f2', 'bf16': 'V2', 'f32': 'f4', 'f64': 'f8'}\n"
                             "for ours, theirs in names.items():\n"
                             "  for i, shape in enumerate(shapes):\n"
                             "    x = np.load('ours-%s-%d.npy' % (ours, i))\n"
                             "    assert x.shape == shape and x.dtype == np.dtype(theirs), (ours, shape)\n"
                             "    n = x.dtype.itemsize * x.size\n"
                             "    want = bytes(k % (2 if ours == 'bool' else 60) for k in range(n))\n"
                             "    assert x.tobytes() == want, (ours, shape)\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_spellings),
        cmocka_unit_test(reads_ranks_and_orders),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_versions_and_lengths),
        cmocka_unit_test(survives_truncation_and_flips),
        cmocka_unit_test(opens_files),
        cmocka_unit_test(opens_raw_files),
        cmocka_unit_test(survives_failing_reads),
        cmocka_unit_test(reads_what_numpy_writes),
        cmocka_unit_test(writes_what_numpy_reads),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
