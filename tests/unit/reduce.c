/* Reductions, scans, histograms: against loops in long double, whole and cut, in every layout. */
#include "unit.h"

#include "kernels/reduce.h"
#include "parts.h"

#include <float.h>

static parts_lab lab_new(plim_dtype t, const plim_shape *s, uint64_t seed)
{
    parts_lab f = parts_lab_new(seed);
    f.x = parts_lab_input(&f, t, s);
    return f;
}

static const struct {
    plim_shape shape;
    uint32_t mask;
} cases[] = {
    {{1, {1}}, 1}, {{1, {1000}}, 1}, {{1, {9001}}, 1}, {{2, {37, 300}}, 1}, {{2, {37, 300}}, 2}, {{2, {300, 700}}, 1}, {{2, {37, 300}}, 3},
    {{2, {900, 3}}, 2}, {{2, {900, 3}}, 1}, {{3, {7, 20, 70}}, 5}, {{3, {7, 20, 70}}, 2}, {{3, {7, 20, 70}}, 3}, {{3, {7, 20, 70}}, 6},
    {{3, {7, 20, 70}}, 0}, {{4, {3, 4, 5, 66}}, 10}, {{0, {0}}, 0}, {{2, {0, 5}}, 1}, {{2, {5, 0}}, 1},
};

/* C-order index in the reduced shape of element i. */
static uint64_t reduced_index(const plim_shape *s, uint32_t mask, uint64_t i)
{
    uint64_t at = 0, stride = 1;
    for (uint32_t d = s->rank; d-- > 0;) {
        const uint64_t k = i % (uint64_t)s->dim[d];
        i /= (uint64_t)s->dim[d];
        if (mask >> d & 1) continue;
        at += k * stride;
        stride *= (uint64_t)s->dim[d];
    }
    return at;
}

static void check_close(double got, double want, double atol, double rtol, const char *what, uint64_t i)
{
    if (!parts_close(got, want, atol, rtol)) fail_msg("%s: element %llu is %.17g, not %.17g", what, (unsigned long long)i, got, want);
}

static long double fold(plim__reduction how, long double a, long double b)
{
    switch (how) {
    case PLIM__REDUCE_SUM: return a + b;
    case PLIM__REDUCE_PROD: return a * b;
    case PLIM__REDUCE_MIN: return isnan(a) || isnan(b) ? (long double)NAN : a < b ? a : b;
    default: return isnan(a) || isnan(b) ? (long double)NAN : a > b ? a : b;
    }
}

static void check_reduce(plim__reduction how, plim_dtype t, plim_dtype out, const plim_shape *s, uint32_t mask, bool keepdims, uint64_t seed)
{
    parts_lab f = lab_new(t, s, seed);
    const uint64_t n = parts_count(s);
    void *x = f.data[f.x];
    const bool picks = how == PLIM__REDUCE_MIN || how == PLIM__REDUCE_MAX;
    if (how == PLIM__REDUCE_PROD) for (uint64_t i = 0; i < n; i++) parts_set(x, t, i, 1 + (i % 97 == 5)); /* stays in range */
    if (picks && plim__dtype_is_float(t) && n > 3) parts_set(x, t, n / 3, NAN);
    uint32_t v;
    plim_error err = {0};
    assert_int_equal(plim__op_reduce(f.g, how, f.x, mask, keepdims, out, &v, &err), PLIM_OK);
    const uint64_t m = f.g->value[v].bytes / plim_dtype_bytes(out);
    long double *want = malloc((m + 1) * sizeof *want), *size = calloc(m + 1, sizeof *size);
    for (uint64_t i = 0; i < m; i++) want[i] = how == PLIM__REDUCE_SUM ? 0 : how == PLIM__REDUCE_PROD ? 1 : how == PLIM__REDUCE_MIN ? INFINITY : -INFINITY;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = reduced_index(s, mask, i);
        want[at] = fold(how, want[at], parts_get(x, t, i));
        size[at] += fabs(parts_get(x, t, i));
    }
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        bool nonzero = m == 0 || n == 0;
        for (uint64_t i = 0; i < m; i++) {
            const double got = parts_get(f.data[v], out, i);
            nonzero = nonzero || got != 0;
            const double eps = out == PLIM_F32 ? 1e-6 : 1e-14;
            check_close(got, (double)want[i], how == PLIM__REDUCE_SUM && plim__dtype_is_float(out) ? eps * (double)size[i] : 0, picks ? 0 : eps, "reduce", i);
        }
        assert_true(nonzero || t == PLIM_BOOL || n < 10);
    }
    free(want);
    free(size);
    parts_lab_free(&f);
}

static void test_reduce(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const bool filled = parts_count(&cases[k].shape) > 0;
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++) {
            const plim_dtype in = (plim_dtype)t;
            const bool is_float = plim__dtype_is_float(in);
            const plim_dtype wide = is_float ? PLIM_F64 : plim__dtype_kind(in) == PLIM__KIND_UINT ? PLIM_U64 : PLIM_I64;
            check_reduce(PLIM__REDUCE_SUM, in, wide, &cases[k].shape, cases[k].mask, k & 1, k);
            check_reduce(PLIM__REDUCE_SUM, in, PLIM_F64, &cases[k].shape, cases[k].mask, false, k);
            check_reduce(PLIM__REDUCE_SUM, in, PLIM_F32, &cases[k].shape, cases[k].mask, false, k);
            if (in != PLIM_BOOL && filled) check_reduce(PLIM__REDUCE_PROD, in, PLIM_F64, &cases[k].shape, cases[k].mask, true, k);
            if (filled) check_reduce(PLIM__REDUCE_MIN, in, in, &cases[k].shape, cases[k].mask, k & 1, k);
            if (filled) check_reduce(PLIM__REDUCE_MAX, in, in, &cases[k].shape, cases[k].mask, true, k);
        }
    }
}

static void test_wrap(void **state)
{
    (void)state;
    const plim_shape s = {1, {3}};
    parts_lab f = lab_new(PLIM_I64, &s, 1);
    ((int64_t *)f.data[f.x])[0] = INT64_MAX;
    ((int64_t *)f.data[f.x])[1] = 5;
    ((int64_t *)f.data[f.x])[2] = 7;
    uint32_t sum, prod;
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_SUM, f.x, 1, false, PLIM_I64, &sum, NULL), PLIM_OK);
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_PROD, f.x, 1, false, PLIM_I64, &prod, NULL), PLIM_OK);
    parts_run(f.g, f.data, PARTS_WHOLE, &f.rng);
    assert_true(*(uint64_t *)f.data[sum] == (uint64_t)INT64_MAX + 12);
    assert_true(*(uint64_t *)f.data[prod] == (uint64_t)INT64_MAX * 35);
    parts_lab_free(&f);
}

static void test_refusals(void **state)
{
    (void)state;
    const plim_shape s = {2, {4, 0}};
    parts_lab f = lab_new(PLIM_F32, &s, 1);
    uint32_t v, w;
    plim_error err = {0};
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_MIN, f.x, 2, false, PLIM_F32, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "empty"));
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_SUM, f.x, 4, false, PLIM_F64, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_SUM, f.x, 1, false, PLIM_I64, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_SUM, f.x, 1, false, PLIM_I8, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_argreduce(f.g, false, f.x, 2, false, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_topk(f.g, f.x, 5, 0, true, &v, &w, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_topk(f.g, f.x, 1, 2, true, &v, &w, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_scan(f.g, PLIM__REDUCE_MIN, f.x, 0, PLIM_F32, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_histogram(f.g, f.x, f.x, f.x, 3, &v, NULL), PLIM_E_TYPE);
    parts_lab_free(&f);
}

/* ------------------------------------------------------------------------------------------------ moments */

static void check_moments(plim_dtype t, const plim_shape *s, uint32_t mask, double mean, double spread, double rtol, uint64_t seed)
{
    parts_lab f = lab_new(t, s, seed);
    const uint64_t n = parts_count(s);
    void *x = f.data[f.x];
    if (spread > 0) for (uint64_t i = 0; i < n; i++) parts_set(x, t, i, mean + spread * (parts_get(x, t, i) / 50));
    uint32_t v;
    assert_int_equal(plim__op_moments(f.g, f.x, mask, seed & 1, &v, NULL), PLIM_OK);
    const uint64_t m = f.g->value[v].bytes / 24;
    long double *sum = calloc(3 * (m + 1), sizeof *sum), *squares = sum + m + 1, *count = squares + m + 1;
    for (uint64_t i = 0; i < n; i++) {
        sum[reduced_index(s, mask, i)] += parts_get(x, t, i);
        count[reduced_index(s, mask, i)] += 1;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = reduced_index(s, mask, i);
        const long double d = parts_get(x, t, i) - sum[at] / count[at];
        squares[at] += d * d;
    }
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        const double *got = f.data[v];
        for (uint64_t i = 0; i < m; i++) {
            check_close(got[i], (double)count[i], 0, 0, "count", i);
            if (count[i] == 0) continue;
            check_close(got[m + i], (double)(sum[i] / count[i]), rtol, rtol, "mean", i);
            check_close(got[2 * m + i], (double)squares[i], 1e-12, rtol, "m2", i);
        }
    }
    free(sum);
    parts_lab_free(&f);
}

static void test_moments(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++) check_moments((plim_dtype)t, &cases[k].shape, cases[k].mask, 0, 0, 1e-13, k);
    /* a mean 1e8 times the spread: squares minus square of sums would have no digit right; the rounding of the means leaves 1e-8 */
    check_moments(PLIM_F64, &(plim_shape){1, {20000}}, 1, 1e6, 1e-2, 3e-8, 3);
    check_moments(PLIM_F64, &(plim_shape){2, {700, 90}}, 1, 1e6, 1e-2, 3e-8, 4);
    check_moments(PLIM_F32, &(plim_shape){2, {700, 90}}, 1, 1e3, 1, 1e-12, 5);
}

static void test_long_sum(void **state)
{
    (void)state;
    const plim_shape s = {1, {3000000}};
    parts_lab f = lab_new(PLIM_F32, &s, 9);
    float *x = f.data[f.x];
    long double want = 0, squares = 0;
    for (int64_t i = 0; i < s.dim[0]; i++) want += x[i] = 0.1f + x[i] * 1e-4f;
    for (int64_t i = 0; i < s.dim[0]; i++) squares += (x[i] - want / s.dim[0]) * (x[i] - want / s.dim[0]);
    uint32_t sum, moments;
    assert_int_equal(plim__op_reduce(f.g, PLIM__REDUCE_SUM, f.x, 1, false, PLIM_F64, &sum, NULL), PLIM_OK);
    assert_int_equal(plim__op_moments(f.g, f.x, 1, false, &moments, NULL), PLIM_OK);
    parts_run(f.g, f.data, PARTS_CUT, &f.rng);
    check_close(*(double *)f.data[sum], (double)want, 0, 2e-15, "sum", 0);
    check_close(((double *)f.data[moments])[1], (double)(want / s.dim[0]), 0, 4e-15, "mean", 0);
    check_close(((double *)f.data[moments])[2], (double)squares, 0, 4e-15, "m2", 0);
    parts_lab_free(&f);
}

/* ---------------------------------------------------------------------------------------------- argreduce */

static void check_arg(bool largest, plim_dtype t, const plim_shape *s, uint32_t mask, uint64_t seed)
{
    parts_lab f = lab_new(t, s, seed);
    const uint64_t n = parts_count(s);
    void *x = f.data[f.x];
    const uint32_t all = (1u << s->rank) - 1;
    if (plim__dtype_is_float(t) && seed % 3 == 0) {
        parts_set(x, t, n / 2, NAN);
        parts_set(x, t, n - 1, NAN);
    }
    uint32_t v;
    assert_int_equal(plim__op_argreduce(f.g, largest, f.x, mask, false, &v, NULL), PLIM_OK);
    const uint64_t m = f.g->value[v].bytes / 8;
    int64_t *want = malloc(m * 8);
    double *best = malloc(m * sizeof *best);
    memset(want, 0xFF, m * 8);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = reduced_index(s, mask, i);
        const double e = parts_get(x, t, i);
        const bool better = want[at] < 0 || (isnan(e) && !isnan(best[at])) || (!isnan(best[at]) && (largest ? e > best[at] : e < best[at]));
        if (!better) continue;
        best[at] = e;
        want[at] = mask == all ? (int64_t)i : 0;
        if (mask != all) {
            uint64_t rest = i;
            for (uint32_t d = s->rank; d-- > 0; rest /= (uint64_t)s->dim[d])
                if (mask >> d & 1) want[at] = (int64_t)(rest % (uint64_t)s->dim[d]);
        }
    }
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        const uint32_t val = f.g->node[f.g->value[v].node].out[1];
        for (uint64_t i = 0; i < m; i++) {
            if (((int64_t *)f.data[v])[i] != want[i])
                fail_msg("arg: element %llu is %lld, not %lld", (unsigned long long)i, (long long)((int64_t *)f.data[v])[i], (long long)want[i]);
            check_close(parts_get(f.data[val], t, i), best[i], 0, 0, "arg's element", i);
        }
    }
    free(want);
    free(best);
    parts_lab_free(&f);
}

static void test_argreduce(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const uint32_t mask = cases[k].mask, all = (1u << cases[k].shape.rank) - 1;
        if (parts_count(&cases[k].shape) == 0 || (mask != all && __builtin_popcount(mask) != 1)) continue;
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++)
            for (uint64_t seed = 0; seed < 4; seed++) check_arg(seed & 1, (plim_dtype)t, &cases[k].shape, mask, seed + k);
    }
}

/* ---------------------------------------------------------------------------------------------- histogram */

static void check_histogram(plim_dtype t, const plim_shape *s, int64_t bins, double lo, double hi, uint64_t seed)
{
    parts_lab f = lab_new(t, s, seed);
    const uint64_t n = parts_count(s);
    void *x = f.data[f.x];
    const plim_shape scalar = {0};
    uint32_t vlo, vhi, v;
    assert_int_equal(plim__graph_const(f.g, PLIM_F64, &scalar, &lo, &vlo, NULL), PLIM_OK);
    assert_int_equal(plim__graph_const(f.g, PLIM_F64, &scalar, &hi, &vhi, NULL), PLIM_OK);
    assert_int_equal(plim__op_histogram(f.g, f.x, vlo, vhi, bins, &v, NULL), PLIM_OK);
    double *edge = malloc((uint64_t)(bins + 1) * sizeof *edge);
    int64_t *want = calloc((uint64_t)bins, sizeof *want), total = 0;
    for (int64_t b = 0; b <= bins; b++) {
        const double e = b == bins ? hi : (double)b * ((hi - lo) / (double)bins) + lo;
        if (plim__dtype_is_float(t)) {
            char narrow[8];
            parts_set(narrow, t, 0, e);
            edge[b] = parts_get(narrow, t, 0);
        } else edge[b] = e;
    }
    for (uint64_t i = 0; i < n; i++) {
        const double e = parts_get(x, t, i);
        if (!(e >= edge[0] && e <= edge[bins])) continue;
        int64_t b = 0;
        while (b < bins - 1 && e >= edge[b + 1]) b++;
        want[b]++;
        total++;
    }
    assert_true(total > 0);
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        for (int64_t b = 0; b < bins; b++)
            if (((int64_t *)f.data[v])[b] != want[b])
                fail_msg("histogram of %s: bin %lld holds %lld, not %lld", plim_dtype_name(t), (long long)b, (long long)((int64_t *)f.data[v])[b], (long long)want[b]);
    }
    free(edge);
    free(want);
    parts_lab_free(&f);
}

static void test_histogram(void **state)
{
    (void)state;
    for (int t = PLIM_U8; t < PLIM_DTYPE_COUNT; t++) {
        check_histogram((plim_dtype)t, &(plim_shape){1, {5000}}, 10, 0, 49, (uint64_t)t);
        check_histogram((plim_dtype)t, &(plim_shape){2, {90, 30}}, 7, 3.1, 41.7, (uint64_t)t);
        check_histogram((plim_dtype)t, &(plim_shape){3, {9, 30, 7}}, 1, 10, 30, (uint64_t)t);
    }
    check_histogram(PLIM_F32, &(plim_shape){1, {20000}}, 1000, -50, 50, 3);
    check_histogram(PLIM_F64, &(plim_shape){1, {20000}}, 10000, -20, 51, 3);
}

/* From the least f32 to the largest: their difference is no f32. */
static void test_histogram_wide(void **state)
{
    (void)state;
    const plim_shape s = {1, {4}}, scalar = {0};
    const double lo = -FLT_MAX, hi = FLT_MAX;
    parts_lab f = lab_new(PLIM_F32, &s, 1);
    uint32_t vlo, vhi, v;
    memcpy(f.data[f.x], (float[]){-FLT_MAX, 1, FLT_MAX / 2, FLT_MAX}, 16);
    assert_int_equal(plim__graph_const(f.g, PLIM_F64, &scalar, &lo, &vlo, NULL), PLIM_OK);
    assert_int_equal(plim__graph_const(f.g, PLIM_F64, &scalar, &hi, &vhi, NULL), PLIM_OK);
    assert_int_equal(plim__op_histogram(f.g, f.x, vlo, vhi, 4, &v, NULL), PLIM_OK);
    parts_run(f.g, f.data, PARTS_WHOLE, &f.rng);
    assert_memory_equal(f.data[v], ((int64_t[]){1, 0, 1, 2}), 32);
    parts_lab_free(&f);
}

/* ------------------------------------------------------------------------------------------------- cumsum */

static void check_scan(plim__reduction how, plim_dtype t, plim_dtype out, const plim_shape *s, uint32_t axis, uint64_t seed)
{
    parts_lab f = lab_new(t, s, seed);
    const uint64_t n = parts_count(s);
    void *x = f.data[f.x];
    if (how == PLIM__REDUCE_PROD) for (uint64_t i = 0; i < n; i++) parts_set(x, t, i, 1 + (i % 97 == 5));
    uint32_t v;
    assert_int_equal(plim__op_scan(f.g, how, f.x, axis, out, &v, NULL), PLIM_OK);
    const uint64_t m = n / (uint64_t)s->dim[axis];
    long double *run = malloc(m * sizeof *run), *want = malloc(n * sizeof *want);
    for (uint64_t c = 0; c < m; c++) run[c] = how == PLIM__REDUCE_PROD;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t c = reduced_index(s, 1u << axis, i);
        want[i] = run[c] = fold(how, run[c], parts_get(x, t, i));
    }
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        for (uint64_t i = 0; i < n; i++) check_close(parts_get(f.data[v], out, i), (double)want[i], out == PLIM_F64 ? 1e-9 : 5e-4, 1e-6, "scan", i);
        const uint32_t carry = f.g->node[f.g->value[v].node].out[1];
        for (uint64_t c = 0; c < m; c++)
            check_close(parts_get(f.data[carry], f.g->value[carry].dtype, c), (double)run[c], 1e-9, 1e-12, "carry", c);
    }
    free(run);
    free(want);
    parts_lab_free(&f);
}

static void test_scan(void **state)
{
    (void)state;
    static const struct { plim_shape shape; uint32_t axis; } scans[] = {
        {{1, {3000}}, 0}, {{2, {40, 700}}, 0}, {{2, {40, 700}}, 1}, {{3, {5, 30, 20}}, 1}, {{3, {5, 30, 20}}, 0}, {{3, {5, 30, 20}}, 2},
    };
    for (size_t k = 0; k < COUNT_OF(scans); k++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++) {
            const bool is_float = plim__dtype_is_float((plim_dtype)t);
            const plim_dtype wide = is_float ? PLIM_F32 : t == PLIM_U64 ? PLIM_U64 : PLIM_I64;
            check_scan(PLIM__REDUCE_SUM, (plim_dtype)t, wide, &scans[k].shape, scans[k].axis, k);
            check_scan(PLIM__REDUCE_SUM, (plim_dtype)t, PLIM_F64, &scans[k].shape, scans[k].axis, k);
            if (t != PLIM_BOOL) check_scan(PLIM__REDUCE_PROD, (plim_dtype)t, PLIM_F64, &scans[k].shape, scans[k].axis, k);
        }
}

/* Both instruction sets give the same numbers up to the rounding of fused operations. */
static void test_lanes(void **state)
{
    (void)state;
    const plim__lanes *best = plim__lanes_get();
    float x[1000];
    double a[100] = {0}, b[100] = {0}, mean[100];
    parts_rng rng = {4};
    parts_fill(x, PLIM_F32, 1000, &rng);
    for (int j = 0; j < 100; j++) mean[j] = x[j];
    best->fold[PLIM__FOLD_SUM][PLIM__LANE_F32](a, x, 99, 10, 99);
    plim__lanes_base.fold[PLIM__FOLD_SUM][PLIM__LANE_F32](b, x, 99, 10, 99);
    assert_memory_equal(a, b, sizeof a);
    assert_true(a[0] != 0 && a[99] == 0);
    best->squares[0](a, mean, x, 99, 10, 99);
    plim__lanes_base.squares[0](b, mean, x, 99, 10, 99);
    for (uint64_t j = 0; j < 99; j++) check_close(a[j], b[j], 0, 1e-14, "squares", j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce), cmocka_unit_test(test_wrap), cmocka_unit_test(test_refusals), cmocka_unit_test(test_moments),
        cmocka_unit_test(test_long_sum), cmocka_unit_test(test_argreduce), cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_histogram_wide), cmocka_unit_test(test_scan),
        cmocka_unit_test(test_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
