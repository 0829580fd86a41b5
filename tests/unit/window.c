/* Boxes and convolutions: against loops over the window, every border, whole and cut. */
#include "unit.h"

#include "kernels/window.h"
#include "parts.h"

static int64_t border(plim__edge edge, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    switch (edge) {
    case PLIM__EDGE_EDGE: return i < 0 ? 0 : n - 1;
    case PLIM__EDGE_REFLECT: return i < 0 ? -i : 2 * (n - 1) - i;
    case PLIM__EDGE_SYMMETRIC: return i < 0 ? -i - 1 : 2 * n - 1 - i;
    default: return -1;
    }
}

/* Sum over the window at output index `at` of x times weight (1 without a kernel, which has the window's shape), in long double. */
static long double window_sum(const void *x, plim_dtype t, const plim_shape *s, const int64_t size[], plim__edge edge, const int64_t at[],
                              const void *kernel, plim_dtype kt, long double *magnitude)
{
    int64_t total = 1;
    for (uint32_t d = 0; d < s->rank; d++) total *= size[d];
    long double sum = 0;
    *magnitude = 0;
    for (int64_t o = 0; o < total; o++) {
        int64_t rest = o, linear = 0, stride = 1, flip = 0, flip_stride = 1;
        bool inside = true;
        for (uint32_t d = s->rank; d-- > 0;) {
            const int64_t off = rest % size[d], shift = edge == PLIM__EDGE_VALID ? 0 : edge == PLIM__EDGE_FULL ? size[d] - 1 : size[d] / 2;
            rest /= size[d];
            const int64_t i = border(edge, at[d] - shift + off, s->dim[d]);
            inside = inside && i >= 0;
            linear += i * stride;
            stride *= s->dim[d];
            flip += (size[d] - 1 - off) * flip_stride;
            flip_stride *= size[d];
        }
        if (!inside) continue;
        const long double v = (long double)parts_get(x, t, (uint64_t)linear) * (kernel ? parts_get(kernel, kt, (uint64_t)flip) : 1);
        sum += v;
        *magnitude += fabsl(v);
    }
    return sum;
}

typedef struct window_case {
    plim_shape shape;
    int64_t size[4];
} window_case;

static const window_case cases[] = {
    {{1, {50}}, {3}},          {{1, {50}}, {4}},         {{1, {5000}}, {37}},     {{1, {1}}, {1}},
    {{2, {30, 41}}, {3, 3}},   {{2, {30, 41}}, {1, 5}},  {{2, {30, 41}}, {6, 1}}, {{2, {40, 25}}, {11, 13}}, {{2, {40, 25}}, {12, 14}},
    {{3, {9, 8, 20}}, {3, 3, 3}}, {{3, {9, 8, 20}}, {2, 1, 4}}, {{3, {12, 8, 20}}, {5, 3, 1}}, {{4, {3, 4, 6, 7}}, {1, 3, 2, 3}},
};

static void compare(const void *got, plim_dtype t, const plim_shape *out, const void *x, plim_dtype xt, const plim_shape *s, const int64_t size[],
                    plim__edge edge, const void *kernel, plim_dtype kt)
{
    uint64_t n;
    double count = 1;
    bool nonzero = false;
    assert_int_equal(plim_shape_count(&n, out, NULL), PLIM_OK);
    for (uint32_t d = 0; d < s->rank && !kernel; d++) count *= (double)size[d];
    const double eps = t == PLIM_F64 && !(plim__dtype_compute(xt) == PLIM_F32) ? 1e-14 : t == PLIM_F16 ? 1e-3 : t == PLIM_BF16 ? 8e-3 : 1e-6;
    for (uint64_t i = 0; i < n; i++) {
        int64_t at[PLIM_MAX_RANK], rest = (int64_t)i;
        for (uint32_t d = s->rank; d-- > 0; rest /= out->dim[d]) at[d] = rest % out->dim[d];
        long double magnitude;
        const double want = (double)(window_sum(x, xt, s, size, edge, at, kernel, kt, &magnitude) / count), have = parts_get(got, t, i);
        nonzero = nonzero || have != 0;
        if (!parts_close(have, want, eps * (double)magnitude / count, eps)) fail_msg("window: element %llu is %.9g, not %.9g (edge %d)", (unsigned long long)i, have, want, edge);
    }
    assert_true(nonzero);
}

static void check_box(plim_dtype t, const window_case *c, plim__edge edge, uint64_t seed)
{
    parts_lab lab = parts_lab_new(seed * 31 + 7);
    const uint32_t x = parts_lab_input(&lab, t, &c->shape);
    uint32_t v;
    plim_error err = {0};
    const plim_status status = plim__op_box(lab.g, x, c->size, edge, &v, &err);
    if (status != PLIM_OK) fail_msg("%s", err.message);
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(lab.g, lab.data, mode, &lab.rng);
        compare(lab.data[v], lab.g->value[v].dtype, &lab.g->value[v].shape, lab.data[x], t, &c->shape, c->size, edge, NULL, PLIM_F64);
    }
    parts_lab_free(&lab);
}

static void test_box(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int edge = 0; edge <= PLIM__EDGE_VALID; edge++) {
            for (int t = PLIM_U8; t < PLIM_DTYPE_COUNT; t++) check_box((plim_dtype)t, &cases[k], (plim__edge)edge, k);
            for (uint64_t seed = 20; seed < 24; seed++) check_box(PLIM_F32, &cases[k], (plim__edge)edge, seed);
        }
}

static void check_convolve(plim_dtype t, plim_dtype kt, const plim_shape *s, const plim_shape *w, plim__edge edge, uint64_t seed)
{
    parts_lab lab = parts_lab_new(seed * 31 + 7);
    const uint32_t x = parts_lab_input(&lab, t, s), kernel = parts_lab_input(&lab, kt, w);
    uint32_t v;
    plim_error err = {0};
    const plim_status status = plim__op_convolve(lab.g, x, kernel, edge, &v, &err);
    if (status != PLIM_OK) fail_msg("%s", err.message);
    int64_t size[PLIM_MAX_RANK];
    for (uint32_t d = 0; d < s->rank; d++) size[d] = d + w->rank < s->rank ? 1 : w->dim[d + w->rank - s->rank];
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(lab.g, lab.data, mode, &lab.rng);
        compare(lab.data[v], lab.g->value[v].dtype, &lab.g->value[v].shape, lab.data[x], t, s, size, edge, lab.data[kernel], kt);
    }
    parts_lab_free(&lab);
}

static void test_convolve(void **state)
{
    (void)state;
    static const struct { plim_shape x, w; } pairs[] = {
        {{1, {60}}, {1, {3}}}, {{1, {60}}, {1, {8}}}, {{1, {4100}}, {1, {41}}}, {{2, {20, 30}}, {1, {5}}}, {{2, {20, 30}}, {2, {3, 4}}},
        {{2, {20, 30}}, {2, {9, 7}}}, {{3, {5, 12, 14}}, {2, {3, 3}}}, {{3, {6, 7, 9}}, {3, {2, 3, 5}}},
    };
    static const struct { plim_dtype x, w; } types[] = {{PLIM_F32, PLIM_F32}, {PLIM_F64, PLIM_F64}, {PLIM_F16, PLIM_F32}, {PLIM_I16, PLIM_I8}, {PLIM_F32, PLIM_F64},
        {PLIM_U8, PLIM_I32}, {PLIM_BOOL, PLIM_BOOL}, {PLIM_U64, PLIM_U8}, {PLIM_I8, PLIM_F32}};
    for (size_t k = 0; k < COUNT_OF(pairs); k++)
        for (size_t t = 0; t < COUNT_OF(types); t++)
            for (int edge = 0; edge <= PLIM__EDGE_FULL; edge++) check_convolve(types[t].x, types[t].w, &pairs[k].x, &pairs[k].w, (plim__edge)edge, k);
}

/* Integers are added in 64 bits and wrap, as NumPy's do. */
static void test_convolve_wraps(void **state)
{
    (void)state;
    const plim_shape s = {1, {3}}, k = {1, {2}};
    const uint64_t big = INT64_MAX;
    const int64_t want[4] = {-2, (int64_t)(3 * big + 10), 29, 21};
    parts_lab lab = parts_lab_new(3);
    const uint32_t x = parts_lab_input(&lab, PLIM_I64, &s), w = parts_lab_input(&lab, PLIM_I64, &k);
    uint32_t v;
    memcpy(lab.data[x], (int64_t[]){INT64_MAX, 5, 7}, 24);
    memcpy(lab.data[w], (int64_t[]){2, 3}, 16);
    assert_int_equal(plim__op_convolve(lab.g, x, w, PLIM__EDGE_FULL, &v, NULL), PLIM_OK);
    assert_int_equal(lab.g->value[v].dtype, PLIM_I64);
    parts_run(lab.g, lab.data, PARTS_CUT, &lab.rng);
    assert_memory_equal(lab.data[v], want, sizeof want);
    parts_lab_free(&lab);
}

/* What lies beyond the array takes no part: an infinite weight makes no NaN of it. */
static void test_convolve_infinite(void **state)
{
    (void)state;
    const plim_shape s = {2, {3, 70}}, k = {2, {2, 3}};
    for (int full = 0; full < 2; full++) {
        const plim__edge edge = full ? PLIM__EDGE_FULL : PLIM__EDGE_CONSTANT;
        parts_lab lab = parts_lab_new(3);
        const uint32_t x = parts_lab_input(&lab, PLIM_F64, &s), w = parts_lab_input(&lab, PLIM_F64, &k);
        uint32_t v;
        for (int i = 0; i < 3 * 70; i++) ((double *)lab.data[x])[i] = 1;
        for (int i = 0; i < 6; i++) ((double *)lab.data[w])[i] = i == 0 ? INFINITY : 1; /* flipped, the last of the window */
        assert_int_equal(plim__op_convolve(lab.g, x, w, edge, &v, NULL), PLIM_OK);
        for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
            parts_run(lab.g, lab.data, mode, &lab.rng);
            const plim_shape out = lab.g->value[v].shape;
            const int64_t reach = edge == PLIM__EDGE_FULL ? 0 : 1; /* of the window beyond its column */
            for (int64_t i = 0; i < out.dim[0]; i++)
                for (int64_t j = 0; j < out.dim[1]; j++) {
                    const double have = ((double *)lab.data[v])[i * out.dim[1] + j];
                    const bool holds = i < 3 && j + reach < 70;
                    if (isnan(have) || !!isinf(have) != holds) fail_msg("edge %d: element %d, %d is %g", (int)edge, (int)i, (int)j, have);
                }
        }
        parts_lab_free(&lab);
    }
}

/* A NaN and an infinity touch only the windows that hold them, however the sums are made. */
static void test_box_nan(void **state)
{
    (void)state;
    const plim_shape s = {2, {120, 64}};
    const int64_t size[2] = {15, 11};
    parts_lab lab = parts_lab_new(3);
    const uint32_t x = parts_lab_input(&lab, PLIM_F64, &s);
    ((double *)lab.data[x])[50 * 64 + 30] = NAN;
    uint32_t v;
    assert_int_equal(plim__op_box(lab.g, x, size, PLIM__EDGE_CONSTANT, &v, NULL), PLIM_OK);
    parts_run(lab.g, lab.data, PARTS_CUT, &lab.rng);
    for (int64_t i = 0; i < 120; i++)
        for (int64_t j = 0; j < 64; j++) {
            const bool holds = llabs(i - 50) <= 7 && llabs(j - 30) <= 5;
            assert_int_equal((int)!!isnan(((double *)lab.data[v])[i * 64 + j]), (int)holds);
        }
    parts_lab_free(&lab);
}

static void test_refusals(void **state)
{
    (void)state;
    const plim_shape s = {2, {5, 4}}, big = {3, {2, 2, 2}}, even = {1, {10}};
    parts_lab lab = parts_lab_new(3);
    uint32_t v;
    plim_error err = {0};
    const uint32_t x = parts_lab_input(&lab, PLIM_F64, &s), k3 = parts_lab_input(&lab, PLIM_F64, &big);
    const uint32_t k10 = parts_lab_input(&lab, PLIM_F64, &even);
    assert_int_equal(plim__op_box(lab.g, x, (int64_t[]){0, 1}, PLIM__EDGE_EDGE, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_box(lab.g, x, (int64_t[]){6, 1}, PLIM__EDGE_VALID, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_box(lab.g, x, (int64_t[]){1, 8}, PLIM__EDGE_REFLECT, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "reflect"));
    assert_int_equal(plim__op_convolve(lab.g, x, k3, PLIM__EDGE_EDGE, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_convolve(lab.g, x, k10, PLIM__EDGE_SYMMETRIC, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_box(lab.g, x, (int64_t[]){1, 3}, PLIM__EDGE_FULL, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_convolve(lab.g, x, k10, (plim__edge)(PLIM__EDGE_FULL + 1), &v, NULL), PLIM_E_INVALID);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_box), cmocka_unit_test(test_convolve), cmocka_unit_test(test_convolve_wraps),
        cmocka_unit_test(test_convolve_infinite), cmocka_unit_test(test_box_nan), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
