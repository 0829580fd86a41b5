/* Exact quantiles by streaming passes: against sorting, whole and cut, and against plim__op_select. */
#include "unit.h"

#include "kernels/order.h"
#include "parts.h"

#define VALUES 128

static int ascending(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static double quantile(const double *sorted, int64_t n, double q)
{
    const double at = q * (double)(n - 1), t = at - floor(at);
    const double a = sorted[(int64_t)floor(at)], b = sorted[(int64_t)ceil(at)];
    return a == b ? a : t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

/* Elements of column c (C order among the kept dimensions), sorted. @return how many; 0 when there is a NaN */
static int64_t column_sorted(double *to, const void *x, plim_dtype t, const plim_shape *s, uint32_t mask, uint64_t c)
{
    uint64_t n = 1;
    int64_t m = 0;
    for (uint32_t d = 0; d < s->rank; d++) n *= (uint64_t)s->dim[d];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i, at = 0, stride = 1;
        for (uint32_t d = s->rank; d-- > 0;) {
            const uint64_t k = rest % (uint64_t)s->dim[d];
            rest /= (uint64_t)s->dim[d];
            if (mask >> d & 1) continue;
            at += k * stride;
            stride *= (uint64_t)s->dim[d];
        }
        if (at == c) to[m++] = parts_get(x, t, i);
    }
    for (int64_t i = 0; i < m; i++)
        if (isnan(to[i])) return 0;
    qsort(to, (size_t)m, sizeof *to, ascending);
    return m;
}

static void check_quantile(plim_dtype t, const plim_shape *s, uint32_t mask, const double *q, uint32_t n_q, bool scalar, uint64_t seed)
{
    parts_lab lab = parts_lab_new(seed * 41 + 3);
    const uint32_t x = parts_lab_input(&lab, t, s);
    uint64_t n;
    assert_int_equal(plim_shape_count(&n, s, NULL), PLIM_OK);
    if (plim__dtype_is_float(t) && seed % 2 && n > 20) {
        parts_set(lab.data[x], t, n / 2, NAN);
        parts_set(lab.data[x], t, 3, -INFINITY);
        parts_set(lab.data[x], t, 4, -0.0);
    }
    uint32_t v;
    plim_error err = {0};
    if (plim__op_radix_quantile(lab.g, x, q, n_q, scalar, mask, seed & 1, &v, &err) != PLIM_OK) fail_msg("%s", err.message);
    const plim_dtype out = lab.g->value[v].dtype;
    const uint64_t columns = lab.g->value[v].bytes / plim_dtype_bytes(out) / n_q;
    double *sorted = malloc(n * sizeof *sorted);
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(lab.g, lab.data, mode, &lab.rng);
        for (uint64_t c = 0; c < columns; c++) {
            const int64_t m = column_sorted(sorted, lab.data[x], t, s, mask, c);
            for (uint32_t k = 0; k < n_q; k++) {
                char rounded[8];
                parts_set(rounded, out, 0, m ? quantile(sorted, m, q[k]) : (double)NAN);
                const double want = parts_get(rounded, out, 0), got = parts_get(lab.data[v], out, k * columns + c);
                if (!parts_close(got, want, 0, 0))
                    fail_msg("quantile %g of %s: column %llu is %.17g, not %.17g", q[k], plim_dtype_name(t), (unsigned long long)c, got, want);
            }
        }
    }
    free(sorted);
    parts_lab_free(&lab);
}

static void test_quantile(void **state)
{
    (void)state;
    static const struct { plim_shape shape; uint32_t mask; } cases[] = {
        {{1, {1}}, 1}, {{1, {2}}, 1}, {{1, {9000}}, 1}, {{2, {60, 7}}, 1}, {{2, {9, 70}}, 2}, {{2, {61, 7}}, 3},
        {{3, {6, 50, 5}}, 5}, {{3, {3, 20, 5}}, 2}, {{2, {9, 600}}, 1},
    };
    static const double q[] = {0.5, 0.1, 1};
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++) {
            /* megabytes of counts each: every case with f32, and the other dtypes in turn */
            if (t != PLIM_F32 && k > 1 && (size_t)t % 4 != k % 4) continue;
            const uint64_t nan = plim__dtype_is_float((plim_dtype)t);
            check_quantile((plim_dtype)t, &cases[k].shape, cases[k].mask, q, 1, true, nan);
            if (cases[k].shape.rank == 1 || t == PLIM_F32) check_quantile((plim_dtype)t, &cases[k].shape, cases[k].mask, q, COUNT_OF(q), false, 0);
        }
}

/* 64-bit integers beyond 2^53 are told apart. */
static void test_wide_keys(void **state)
{
    (void)state;
    const plim_shape s = {1, {5}};
    parts_lab lab = parts_lab_new(3);
    const uint32_t x = parts_lab_input(&lab, PLIM_I64, &s);
    const int64_t v[] = {INT64_MIN, INT64_MAX, -1, (INT64_C(1) << 60) + 512, 3};
    memcpy(lab.data[x], v, sizeof v);
    const double q[] = {0, 0.25, 0.5, 0.75, 1}, want[] = {-0x1p63, -1, 3, 0x1p60 + 512, 0x1p63};
    uint32_t out;
    assert_int_equal(plim__op_radix_quantile(lab.g, x, q, 5, false, 1, false, &out, NULL), PLIM_OK);
    parts_run(lab.g, lab.data, PARTS_CUT, &lab.rng);
    for (int i = 0; i < 5; i++) assert_true(((double *)lab.data[out])[i] == want[i]);
    parts_lab_free(&lab);
}

/* The fewest passes whose counters stay small. */
static void test_passes(void **state)
{
    (void)state;
    static const struct { plim_dtype t; plim_shape shape; uint32_t passes; } cases[] = {
        {PLIM_F32, {1, {1000}}, 2}, {PLIM_F32, {2, {1000, 512}}, 3}, {PLIM_F32, {2, {1000, 100000}}, 4}, {PLIM_U8, {1, {9}}, 1}, {PLIM_F16, {1, {9}}, 1},
        {PLIM_F64, {1, {1000}}, 4},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g;
        void *data[VALUES] = {0};
        assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, NULL), PLIM_OK);
        plim__source source = {.path = (char[]){"x.npy"}};
        uint32_t x, v, passes = 0;
        const double q = 0.5;
        assert_int_equal(plim__graph_file(g, "x", cases[k].t, &cases[k].shape, &source, &x, NULL), PLIM_OK);
        assert_int_equal(plim__op_radix_quantile(g, x, &q, 1, true, 1, false, &v, NULL), PLIM_OK);
        for (uint32_t i = 0; i < g->n_nodes; i++) passes += g->node[i].op == PLIM__OP_RADIX_COUNT;
        assert_int_equal(passes, cases[k].passes);
        parts_free(g, data);
        plim__graph_free(&g);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    const plim_shape s = {2, {0, 4}}, wide = {PLIM_MAX_RANK, {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}};
    parts_lab lab = parts_lab_new(3);
    uint32_t v;
    const double half = 0.5, bad = NAN;
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &s), y = parts_lab_input(&lab, PLIM_F32, &wide);
    plim_error err = {0};
    assert_int_equal(plim__op_radix_quantile(lab.g, x, &half, 1, true, 1, false, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_radix_quantile(lab.g, x, &bad, 1, true, 2, false, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_radix_quantile(lab.g, x, &half, 1, true, 4, false, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_radix_quantile(lab.g, y, &half, 1, true, 1, false, &v, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "reshape"));
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantile), cmocka_unit_test(test_wide_keys), cmocka_unit_test(test_passes), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
