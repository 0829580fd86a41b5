/* Random numbers: the same bits however they are cut, and as uniform and independent as tests of a million can tell. */
#include "unit.h"

#include "parts.h"
#include "kernels/random.h"

#define VALUES 8
#define MANY (1 << 20)

static float *numbers(uint64_t seed, uint64_t stream, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    const plim_shape s = {1, {n}};
    const plim__region all = plim__region_whole(&s);
    const plim__view v = plim__view_dense(x, PLIM_F32, &all);
    plim__random_run(&v, &s, plim__random_key_of(seed, stream));
    return x;
}

static void run_node(const plim_shape *s, uint64_t seed, uint32_t stream, parts_mode mode, parts_rng *rng, float *to)
{
    plim_graph *g;
    void *data[VALUES] = {0};
    const plim_shape scalar = {0};
    uint32_t v;
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, NULL), PLIM_OK);
    const uint32_t from = parts_input(g, data, PLIM_U64, &scalar, rng);
    memcpy(data[from], &seed, sizeof seed);
    assert_int_equal(plim__op_random(g, s, from, stream, &v, NULL), PLIM_OK);
    parts_run(g, data, mode, rng);
    memcpy(to, data[v], g->value[v].bytes);
    parts_free(g, data);
    plim__graph_free(&g);
}

static void test_cuts(void **state)
{
    (void)state;
    static const plim_shape shapes[] = {
        {0, {0}}, {1, {1000}}, {1, {0}}, {2, {37, 41}}, {3, {5, 1, 77}}, {4, {3, 4, 5, 6}}, {2, {1, 2000}}, {3, {4, 600, 1}},
    };
    parts_rng rng = {5};
    for (size_t k = 0; k < COUNT_OF(shapes); k++) {
        const uint64_t n = parts_count(&shapes[k]);
        float *got = malloc((n + 1) * sizeof *got), *want = numbers(77, 3, (int64_t)n + 1);
        for (int try = 0; try < 6; try++) {
            run_node(&shapes[k], 77, 3, try ? PARTS_CUT : PARTS_WHOLE, &rng, got);
            assert_memory_equal(got, want, n * sizeof *got); /* the position in C order is all that counts */
        }
        free(got);
        free(want);
    }
}

static void test_lanes(void **state)
{
    (void)state;
#ifdef PLIM_KERNELS_V3
    if (!__builtin_cpu_supports("avx2")) skip();
    float a[1001], b[1001];
    for (int64_t n = 0; n < 1001; n += 77) {
        plim__random_lane_base(a, plim__random_key_of(1, 2), UINT64_C(1) << 40, n);
        plim__random_lane_v3(b, plim__random_key_of(1, 2), UINT64_C(1) << 40, n);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
    }
#else
    skip();
#endif
}

/* Chi-squared over `bins`: mean bins - 1, variance 2*(bins - 1); six deviations are what no honest source leaves. */
static void check_bins(const int64_t *count, int64_t bins, double expected, const char *what)
{
    double chi = 0;
    for (int64_t b = 0; b < bins; b++) chi += ((double)count[b] - expected) * ((double)count[b] - expected) / expected;
    if (fabs(chi - (double)(bins - 1)) > 6 * sqrt(2 * (double)(bins - 1)))
        fail_msg("%s: chi-squared is %g for %lld bins", what, chi, (long long)bins);
}

static void test_uniform(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {0, 1, 2, UINT64_MAX, UINT64_C(0x9E3779B97F4A7C15), 12345};
    for (size_t k = 0; k < COUNT_OF(seeds); k++) {
        float *x = numbers(seeds[k], k % 3, MANY);
        int64_t count[1024] = {0}, low[1024] = {0}, pairs[1024] = {0};
        double sum = 0, square = 0, product = 0;
        for (int64_t i = 0; i < MANY; i++) {
            assert_true(x[i] >= 0 && x[i] < 1);
            const uint32_t bits = (uint32_t)(x[i] * 0x1p24f);
            count[bits >> 14]++;
            low[bits & 1023]++;
            pairs[(bits >> 19) * 32 + ((uint32_t)(x[(i + 1) % MANY] * 0x1p24f) >> 19)]++;
            sum += x[i];
            square += (double)x[i] * x[i];
            product += (x[i] - 0.5) * (x[(i + 3) % MANY] - 0.5);
        }
        check_bins(count, 1024, MANY / 1024.0, "the upper bits");
        check_bins(low, 1024, MANY / 1024.0, "the lower bits");
        check_bins(pairs, 1024, MANY / 1024.0, "neighbours");
        const double root = sqrt((double)MANY);
        assert_true(fabs(sum / MANY - 0.5) < 6 * sqrt(1.0 / 12) / root);
        assert_true(fabs(square / MANY - 1.0 / 3) < 6 * sqrt(4.0 / 45) / root);
        assert_true(fabs(product / MANY) < 6.0 / 12 / root);
        free(x);
    }
}

static double correlation(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (a[i] - 0.5) * (b[i] - 0.5);
    return sum * 12 / (double)n * sqrt((double)n); /* in deviations */
}

/* Seeds and streams that differ in one bit give numbers that have nothing to do with each other. */
static void test_independent(void **state)
{
    (void)state;
    const int64_t n = 1 << 16;
    float *base = numbers(42, 7, n);
    for (int bit = 0; bit < 64; bit++) {
        float *seed = numbers(42 ^ UINT64_C(1) << bit, 7, n), *stream = bit < 32 ? numbers(42, 7 ^ UINT64_C(1) << bit, n) : NULL;
        assert_true(fabs(correlation(base, seed, n)) < 6);
        assert_true(memcmp(base, seed, 64) != 0);
        if (stream) assert_true(fabs(correlation(base, stream, n)) < 6);
        free(seed);
        free(stream);
    }
    free(base);
}

static void test_refusals(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(1);
    uint32_t v;
    const plim_shape scalar = {0}, one = {1, {1}}, bad = {2, {3, -1}}, huge = {2, {INT64_C(1) << 40, INT64_C(1) << 40}};
    const uint32_t seed = parts_lab_input(&lab, PLIM_U64, &scalar), list = parts_lab_input(&lab, PLIM_U64, &one);
    const uint32_t wrong = parts_lab_input(&lab, PLIM_F32, &scalar);
    assert_int_equal(plim__op_random(lab.g, &one, list, 0, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_random(lab.g, &one, wrong, 0, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_random(lab.g, &bad, seed, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_random(lab.g, &huge, seed, 0, &v, NULL), PLIM_E_OVERFLOW);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts), cmocka_unit_test(test_lanes), cmocka_unit_test(test_uniform), cmocka_unit_test(test_independent),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
