/* Matrix products against the definition: small ones, thin ones and large ones, on every layout of the operands, one thread and two. */
#include "unit.h"

#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/gemm_panels.h"
#include "kernels/gemm_small.h"
#include "parts.h"

typedef struct size {
    int64_t m, n, k;
} size;

static const size sizes[] = {
    {1, 1, 1}, {1, 16, 8}, {2, 3, 5}, {3, 17, 4}, {4, 15, 300}, {5, 33, 257}, {32, 10, 64}, {64, 10, 32}, {1, 40, 513}, {40, 1, 70}, {17, 2, 600},
    {6, 64, 1}, {33, 47, 20}, {90, 80, 75}, {130, 1, 1000}, {1, 300, 900}, {3, 700, 1100}, {70, 300, 200}, {300, 70, 200}, {5, 1600, 100},
    {3100, 24, 40}, {29, 300, 700}, {600, 530, 33}, {200, 13, 7}, {129, 7, 64}, {57, 15, 5}, {130, 8, 3}, {1000, 10, 2},
    {0, 3, 3}, {3, 0, 3}, {3, 3, 0},
};

/* A matrix of `rows` x `cols`: dense, turned, with gaps between its rows, or every other element. */
static plim__matrix matrix_new(plim_dtype t, int64_t rows, int64_t cols, uint32_t layout, uint64_t *n, parts_rng *rng)
{
    const int64_t r = plim__max(rows, 1), c = plim__max(cols, 1);
    plim__matrix m = {.row = layout == 1 ? 1 : layout == 2 ? c + 3 : layout == 3 ? 2 * c : c, .col = layout == 1 ? r : layout == 3 ? 2 : 1};
    *n = (uint64_t)((r - 1) * m.row + (c - 1) * m.col + 1);
    m.data = malloc(*n * 8);
    parts_fill(m.data, t, *n, rng);
    return m;
}

static double element(plim__matrix m, plim_dtype t, int64_t i, int64_t j) { return parts_get(m.data, t, (uint64_t)(i * m.row + j * m.col)); }

/* What c should be, every byte of it: the gaps stay. */
static double *define(plim_dtype t, bool more, plim__matrix c, uint64_t n_c, plim__matrix a, plim__matrix b, size s)
{
    double *want = malloc((n_c + 1) * sizeof *want);
    for (uint64_t i = 0; i < n_c; i++) want[i] = parts_get(c.data, t, i);
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) want[i * c.row + j * c.col] *= more;
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++)
            for (int64_t p = 0; p < s.k; p++) want[i * c.row + j * c.col] += element(a, t, i, p) * element(b, t, p, j);
    return want;
}

static void check(plim_dtype t, uint32_t threads, bool more, size s, uint32_t layouts, parts_rng *rng)
{
    uint64_t n_a, n_b, n_c;
    plim__matrix a = matrix_new(t, s.m, s.k, layouts % 4, &n_a, rng), b = matrix_new(t, s.k, s.n, layouts / 4 % 4, &n_b, rng);
    plim__matrix c = matrix_new(t, s.m, s.n, layouts / 16, &n_c, rng);
    double *want = define(t, more, c, n_c, a, b, s);
    const uint64_t bytes = plim__gemm_scratch(t, threads, s.m, s.n, s.k);
    unsigned char *scratch = aligned_alloc(64, bytes + 64);
    memset(scratch, 0xFF, bytes + 64);
    plim__gemm(t, threads, more, c, a, b, s.m, s.n, s.k, scratch);
    for (uint64_t i = bytes; i < bytes + 64; i++) assert_int_equal(scratch[i], 0xFF);
    const double eps = t == PLIM_F32 ? 2e-6 : t == PLIM_F64 ? 1e-14 : 0, room = 2500 * eps * (double)(s.k + 1);
    for (uint64_t i = 0; i < n_c; i++)
        if (!parts_close(parts_get(c.data, t, i), want[i], room, eps))
            fail_msg("%s, %lld x %lld x %lld, layouts %u, %u threads: element %llu is %.9g, not %.9g", plim_dtype_name(t), (long long)s.m,
                     (long long)s.n, (long long)s.k, layouts, threads, (unsigned long long)i, parts_get(c.data, t, i), want[i]);
    free(a.data), free(b.data), free(c.data), free(want), free(scratch);
}

static void test_against_definition(void **state)
{
    (void)state;
    static const plim_dtype types[] = {PLIM_F32, PLIM_F64, PLIM_I64};
    parts_rng rng = {11};
    for (size_t k = 0; k < COUNT_OF(sizes); k++)
        for (uint32_t layouts = 0; layouts < 64; layouts++) {
            const bool large = sizes[k].m * sizes[k].n * sizes[k].k > 50000;
            if (large && layouts % 13 != 0) continue;
            for (size_t t = 0; t < (layouts % 7 == 0 ? COUNT_OF(types) : 1); t++) check(types[t], 1 + layouts % 2, layouts % 3 > 0, sizes[k], layouts, &rng);
        }
}

/* Thin and small products are not packed; a square one is. */
static void test_choice(void **state)
{
    (void)state;
    assert_true(plim__gemm_is_small(1, 4096, 4096));
    assert_true(plim__gemm_is_small(4096, 1, 4096));
    assert_true(plim__gemm_is_small(32, 10, 64));
    assert_false(plim__gemm_is_small(512, 512, 512));
}

/* A dense result of few columns and few terms, every instruction set: to the bit the same however its rows are cut, and as the sum in order is. */
static void check_outer(plim__gemm_outer *outer, int64_t n, int64_t k)
{
    enum { M = 83 };
    parts_rng rng = {13};
    uint64_t n_a, n_b, n_c;
    plim__matrix a = matrix_new(PLIM_F32, M, k, 1, &n_a, &rng), b = matrix_new(PLIM_F32, k, n, 2, &n_b, &rng), c = matrix_new(PLIM_F32, M, n, 0, &n_c, &rng);
    assert_true(plim__gemm_is_outer(c, a, M, n, k));
    double *want = define(PLIM_F32, true, c, n_c, a, b, (size){M, n, k});
    float *whole = c.data, *parts = malloc(n_c * sizeof *parts);
    memcpy(parts, whole, n_c * sizeof *parts);
    outer(whole, a, b, M, n, k);
    for (int64_t i = 0, rows = 1; i < M; i += rows, rows += 3)
        outer(parts + i * n, (plim__matrix){(float *)a.data + i, a.row, a.col}, b, plim__min(rows, M - i), n, k);
    assert_memory_equal(parts, whole, n_c * sizeof *parts);
    for (uint64_t i = 0; i < n_c; i++) assert_true(parts_close((double)whole[i], want[i], 5e-3 * (double)(k + 1), 2e-6));
    free(a.data), free(b.data), free(c.data), free(want), free(parts);
}

static void test_outer(void **state)
{
    (void)state;
    for (int64_t n = 2; n < PLIM__GEMM_COLS; n++)
        for (int64_t k = 1; k <= PLIM__GEMM_OUTER_MAX; k += 9) {
            check_outer(plim__gemm_outer_base, n, k);
            check_outer(PLIM__BEST(plim__gemm_outer), n, k);
        }
}

/* Every instruction set of this machine; to the bit the same however rows and columns are cut, and by whatever number of threads. */
static void check_panels(plim_dtype dtype, const plim__panel_lanes *lanes, double tolerance)
{
    enum { M = 61, N = 283, K = 515 };
    parts_rng rng = {12};
    uint64_t n_a, n_b, n_c;
    const uint64_t bytes = plim_dtype_bytes(dtype);
    plim__matrix a = matrix_new(dtype, M, K, 0, &n_a, &rng), b = matrix_new(dtype, K, N, 1, &n_b, &rng), c = matrix_new(dtype, M, N, 0, &n_c, &rng);
    plim__matrix other = c;
    double *want = define(dtype, true, c, n_c, a, b, (size){M, N, K});
    char *first = malloc(n_c * bytes), *made = malloc(n_c * bytes);
    void *scratch = aligned_alloc(64, plim__gemm_panels_scratch(dtype, 3, M, N, K));
    memcpy(first, c.data, n_c * bytes);
    memcpy(made, c.data, n_c * bytes);
    other.data = first;
    plim__gemm_panels_by(lanes, 1, true, other, a, b, M, N, K, scratch);
    for (uint64_t i = 0; i < n_c; i++)
        assert_true(parts_close(dtype == PLIM_F32 ? (double)((float *)first)[i] : ((double *)first)[i], want[i], 2.5, tolerance));
    for (int64_t i = 0, rows = 1; i < M; i += rows, rows += 9)
        for (int64_t j = 0, cols = 5; j < N; j += cols, cols += 50) {
            const plim__matrix pa = {(char *)a.data + i * a.row * (int64_t)bytes, a.row, a.col}, pb = {(char *)b.data + j * b.col * (int64_t)bytes, b.row, b.col};
            plim__gemm_panels_by(lanes, 3, true, (plim__matrix){made + (i * c.row + j) * (int64_t)bytes, c.row, 1}, pa, pb, plim__min(rows, M - i),
                                 plim__min(cols, N - j), K, scratch);
        }
    assert_memory_equal(made, first, n_c * bytes);
    free(a.data), free(b.data), free(c.data), free(want), free(first), free(made), free(scratch);
}

static void test_panels(void **state)
{
    (void)state;
    check_panels(PLIM_F32, &plim__panel_lanes_float_base, 2e-6);
    check_panels(PLIM_F64, &plim__panel_lanes_double_base, 1e-14);
#ifdef PLIM_KERNELS_V3
    if (plim__cpu_has_v3()) check_panels(PLIM_F32, &plim__panel_lanes_float_v3, 2e-6);
    if (plim__cpu_has_v3()) check_panels(PLIM_F64, &plim__panel_lanes_double_v3, 1e-14);
#endif
#ifdef PLIM_KERNELS_V4
    if (plim__cpu_has_v4()) check_panels(PLIM_F32, &plim__panel_lanes_float_v4, 2e-6);
    if (plim__cpu_has_v4()) check_panels(PLIM_F64, &plim__panel_lanes_double_v4, 1e-14);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_definition), cmocka_unit_test(test_choice), cmocka_unit_test(test_outer), cmocka_unit_test(test_panels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
