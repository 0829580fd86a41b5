/* What parameters begin with: the same bits however they are cut, other bits for another seed, the distributions that were asked for; data from files
 * as it lies there. */
#include "keras_net.h"

#include "faulty_os.h"
#include "formats/array_file.h"
#include "models/param_init.h"

#define MANY (1 << 18)

/* A model of one parameter. */
static plim__model *one_param(plim_dtype dtype, plim_shape shape, plim__init init, double scale, const plim__source *source)
{
    plim__model *m;
    plim__param p = {.name = "p", .init = init, .init_scale = scale};
    uint32_t v;
    assert_int_equal(plim__model_new(&m, NULL, (plim__alloc){0}, NULL), PLIM_OK);
    assert_int_equal(plim__model_param(m, &p, dtype, &shape, source, &v, NULL), PLIM_OK);
    return m;
}

static void *fill_whole(const plim__model *m, uint32_t param, uint64_t seed)
{
    plim__param_filler f;
    plim_error err = {0};
    const plim__value *v = &m->graph->value[m->param[param].value];
    void *out = malloc(v->bytes + 1);
    plim__param_filler_open(&f, m, &plim__os_linux, seed);
    if (plim__param_fill(&f, param, 0, out, v->bytes / plim_dtype_bytes(v->dtype), &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(plim__param_filler_close(&f, &err), PLIM_OK);
    return out;
}

static double number(const void *data, plim_dtype dtype, uint64_t i) { return parts_get(data, dtype, i); }

static void test_pieces(void **state)
{
    (void)state;
    char path[256];
    plim__model *m;
    plim_error err = {0};
    static const uint64_t pieces[] = {1, 7, 512, 1000, 4096, 99999};
    snprintf(path, sizeof path, "%s/tests/models/slim.json", PLIM_SOURCE_DIR);
    const plim__model_options o = {.batch = 2, .training = true};
    if (plim__keras_read(&m, path, &o, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(m->form, PLIM__MODEL_JSON);
    bool random = false;
    for (uint32_t p = 0; p < m->n_params; p++) {
        const plim__value *v = &m->graph->value[m->param[p].value];
        const uint64_t size = plim_dtype_bytes(v->dtype), n = v->bytes / size;
        uint8_t *want = fill_whole(m, p, 5), *other = fill_whole(m, p, 6), *got = malloc(v->bytes);
        const bool made = m->param[p].init > PLIM__INIT_ONES;
        assert_true((memcmp(want, other, v->bytes) != 0) == made);
        random = random || made;
        for (size_t k = 0; k < COUNT_OF(pieces); k++) {
            plim__param_filler f;
            plim__param_filler_open(&f, m, &plim__os_linux, 5);
            memset(got, 0xAA, v->bytes);
            for (uint64_t at = n / pieces[k] * pieces[k];; at -= pieces[k]) { /* from the back: order does not matter either */
                const uint64_t count = n - at < pieces[k] ? n - at : pieces[k];
                assert_int_equal(plim__param_fill(&f, p, at, got + at * size, count, &err), PLIM_OK);
                if (at == 0) break;
            }
            assert_memory_equal(got, want, v->bytes);
            assert_int_equal(plim__param_filler_close(&f, &err), PLIM_OK);
        }
        free(want), free(other), free(got);
    }
    assert_true(random);
    plim__model_free(&m);
}

/* Parameters of one shape and one initializer are not the same numbers. */
static void test_parameters_differ(void **state)
{
    (void)state;
    plim__model *m = one_param(PLIM_F32, (plim_shape){1, {64}}, PLIM__INIT_NORMAL, 1, NULL);
    plim__param p = {.name = "q", .init = PLIM__INIT_NORMAL, .init_scale = 1};
    uint32_t v;
    assert_int_equal(plim__model_param(m, &p, PLIM_F32, &(plim_shape){1, {64}}, NULL, &v, NULL), PLIM_OK);
    float *a = fill_whole(m, 0, 1), *b = fill_whole(m, 1, 1);
    for (int i = 0; i < 64; i++) assert_true(a[i] != b[i]);
    free(a), free(b);
    plim__model_free(&m);
}

typedef struct moments {
    double mean, deviation, least, most, beyond; /* beyond: the share outside two deviations */
} moments;

static moments measure(const void *data, plim_dtype dtype, uint64_t n, double deviation)
{
    moments m = {.least = INFINITY, .most = -INFINITY};
    for (uint64_t i = 0; i < n; i++) {
        const double x = number(data, dtype, i);
        m.mean += x / (double)n;
        m.deviation += x * x / (double)n;
        m.least = fmin(m.least, x);
        m.most = fmax(m.most, x);
        m.beyond += (fabs(x) > 2 * deviation) / (double)n;
    }
    m.deviation = sqrt(m.deviation - m.mean * m.mean);
    return m;
}

static void test_distributions(void **state)
{
    (void)state;
    static const plim_dtype dtypes[] = {PLIM_F64, PLIM_F32, PLIM_F16, PLIM_BF16};
    for (size_t k = 0; k < COUNT_OF(dtypes); k++) {
        const plim_dtype t = dtypes[k];
        const double coarse = t == PLIM_BF16 ? 0x1p-8 : t == PLIM_F16 ? 0x1p-10 : 0;
        plim__model *m = one_param(t, (plim_shape){2, {MANY / 64, 64}}, PLIM__INIT_GLOROT_UNIFORM, 0.25, NULL);
        void *x = fill_whole(m, 0, 11);
        moments s = measure(x, t, MANY, 1);
        assert_true(fabs(s.mean) < 0.25 * 0.005 && fabs(s.deviation / 0.25 * sqrt(3) - 1) < 0.005);
        assert_true(s.least >= -0.25 && s.least < -0.2499 && s.most > 0.2499 && s.most <= 0.25 * (1 + coarse) && (coarse > 0 || s.most < 0.25));
        free(x);
        plim__model_free(&m);

        m = one_param(t, (plim_shape){1, {MANY}}, PLIM__INIT_NORMAL, 0.05, NULL);
        x = fill_whole(m, 0, 12);
        s = measure(x, t, MANY, 0.05);
        assert_true(fabs(s.mean) < 0.05 * 0.01 && fabs(s.deviation / 0.05 - 1) < 0.01);
        assert_true(fabs(s.beyond - 0.0455) < 0.003 && s.most > 0.05 * 3.8 && s.most < 0.05 * 8.2 && s.least < -0.05 * 3.8);
        free(x);
        plim__model_free(&m);
    }
}

static void test_constants(void **state)
{
    (void)state;
    for (int t = 0; t < PLIM_DTYPE_COUNT; t++)
        for (int one = 0; one < 2; one++) {
            plim__model *m = one_param((plim_dtype)t, (plim_shape){1, {1037}}, one ? PLIM__INIT_ONES : PLIM__INIT_ZEROS, 0, NULL);
            void *x = fill_whole(m, 0, 3);
            for (uint64_t i = 0; i < 1037; i++) assert_true(number(x, (plim_dtype)t, i) == one);
            free(x);
            plim__model_free(&m);
        }
}

static void expect_refusal(const plim__model *m, uint32_t param, uint64_t first, uint64_t n, plim_status code, const char *says)
{
    plim__param_filler f;
    plim_error err = {0};
    double out[8];
    plim__param_filler_open(&f, m, &plim__os_linux, 0);
    const plim_status status = plim__param_fill(&f, param, first, out, n, &err);
    if (status != code || !strstr(err.message, says)) fail_msg("%s: %s", plim_status_name(status), err.message);
    assert_int_equal(f.fd, -1);
    plim__param_filler_close(&f, NULL);
}

static void test_refusals(void **state)
{
    (void)state;
    plim__model *m = one_param(PLIM_I32, (plim_shape){1, {4}}, PLIM__INIT_NORMAL, 1, NULL);
    expect_refusal(m, 0, 0, 4, PLIM_E_TYPE, "parameter 'p' is i32: random numbers are floats");
    expect_refusal(m, 0, 2, 3, PLIM_E_INVALID, "elements 2 to 5 of parameter 'p', which has 4");
    expect_refusal(m, 0, UINT64_MAX, 2, PLIM_E_INVALID, "parameter 'p', which has 4");
    expect_refusal(m, 1, 0, 1, PLIM_E_INVALID, "parameter 1 of a model that has 1");
    plim__model_free(&m);
    m = one_param(PLIM_F32, (plim_shape){1, {4}}, PLIM__INIT_FILE, 1, NULL);
    expect_refusal(m, 0, 0, 4, PLIM_E_INVALID, "is in no file");
    plim__model_free(&m);
}

/* ------------------------------------------------------------------------------------------------------------ from files */

static plim__source file_source(const char *name, uint64_t offset, bool swap)
{
    plim__stat st;
    int fd;
    plim__source s = {.path = (char *)(uintptr_t)files_path(name), .offset = offset, .swap = swap, .stride = {1}};
    assert_int_equal(plim__file_open(&fd, &st, &plim__os_linux, s.path, NULL), PLIM_OK);
    close(fd);
    plim__source_identify(&s, &st);
    return s;
}

static void test_files(void **state)
{
    (void)state;
    uint8_t raw[1003];
    for (size_t i = 0; i < sizeof raw; i++) raw[i] = (uint8_t)(i * 7 + i / 256);
    files_write("raw", raw, sizeof raw);
    static const plim_dtype dtypes[] = {PLIM_U8, PLIM_F16, PLIM_F32, PLIM_F64};
    for (size_t k = 0; k < COUNT_OF(dtypes); k++)
        for (int swap = 0; swap < 2; swap++) {
            const uint64_t size = plim_dtype_bytes(dtypes[k]);
            const plim__source s = file_source("raw", 3, swap);
            plim__model *m = one_param(dtypes[k], (plim_shape){1, {100}}, PLIM__INIT_ZEROS, 0, &s);
            assert_int_equal(m->param[0].init, PLIM__INIT_FILE);
            uint8_t *got = fill_whole(m, 0, 0), part[8];
            for (uint64_t i = 0; i < 100 * size; i++) assert_int_equal(got[i], raw[3 + (swap ? i / size * size + size - 1 - i % size : i)]);
            plim__param_filler f;
            plim__param_filler_open(&f, m, &plim__os_linux, 0);
            plim__tensor_reader r = plim__param_filler_reader(&f);
            for (uint64_t i = 100; i-- > 0;) {
                assert_int_equal(r.read(r.ctx, 0, i * size, part, size, NULL), PLIM_OK);
                assert_memory_equal(part, got + i * size, size);
            }
            assert_int_equal(plim__param_filler_close(&f, NULL), PLIM_OK);
            free(got);
            plim__model_free(&m);
        }
}

static void test_changed_files(void **state)
{
    (void)state;
    plim_error err = {0};
    float out[4];
    plim__param_filler f;
    files_write("data", "0123456789abcdef", 16);
    const plim__source s = file_source("data", 0, false);
    plim__model *m = one_param(PLIM_F32, (plim_shape){1, {4}}, PLIM__INIT_FILE, 0, &s);
    plim__param_filler_open(&f, m, &plim__os_linux, 0);
    assert_int_equal(plim__param_fill(&f, 0, 0, out, 2, &err), PLIM_OK);
    assert_int_equal(truncate(files_path("data"), 20), 0);
    assert_int_equal(plim__param_fill(&f, 0, 2, out, 2, &err), PLIM_OK); /* seen at the end */
    assert_int_equal(plim__param_filler_close(&f, &err), PLIM_E_CHANGED);
    assert_non_null(strstr(err.message, "changed while it was read (it had 16 bytes, now 20)"));
    expect_refusal(m, 0, 0, 4, PLIM_E_CHANGED, "changed since the model was read");
    unlink(files_path("data"));
    expect_refusal(m, 0, 0, 4, PLIM_E_IO, "/data");
    plim__model_free(&m);
}

static void test_failures(void **state)
{
    (void)state;
    static const faulty_call calls[] = {FAULTY_open, FAULTY_pread, FAULTY_stat};
    files_write("a", "0123456789abcdef", 16);
    files_write("b", "0123456789ABCDEF", 16);
    const plim__source a = file_source("a", 0, false), b = file_source("b", 0, false);
    plim__model *m = one_param(PLIM_F32, (plim_shape){1, {4}}, PLIM__INIT_FILE, 0, &a);
    plim__param p = {.name = "q"};
    uint32_t v;
    assert_int_equal(plim__model_param(m, &p, PLIM_F32, &(plim_shape){1, {4}}, &b, &v, NULL), PLIM_OK);
    for (size_t k = 0; k < COUNT_OF(calls); k++) {
        bool hit = true;
        for (int64_t n = 0; hit; n++) {
            plim__param_filler f;
            plim_error err = {0};
            char out[16];
            faulty_os os;
            faulty_init(&os);
            os.call = calls[k];
            os.error = -EIO;
            os.left = n;
            plim__param_filler_open(&f, m, &os.table, 0);
            plim_status status = PLIM_OK;
            for (uint32_t i = 0; i < 4 && status == PLIM_OK; i++) status = plim__param_fill(&f, i % 2, 0, out, 4, &err);
            const plim_status closed = plim__param_filler_close(&f, &err);
            hit = os.hits > 0;
            assert_true(hit == (status != PLIM_OK || closed != PLIM_OK) && hit == (err.code != PLIM_OK));
            if (!hit) assert_memory_equal(out, "0123456789ABCDEF", 16);
            assert_int_equal(os.open, 0);
            assert_true(n < 100);
        }
    }
    plim__model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),    cmocka_unit_test(test_parameters_differ), cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_constants), cmocka_unit_test(test_refusals),          cmocka_unit_test(test_files),
        cmocka_unit_test(test_changed_files), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("param_init", tests, files_begin, files_end);
}
