/* gather and scatter: against loops over the indices, every dtype, whole, cut and merged. */
#include "unit.h"

#include "grads.h"

#define VALUES 16

static const struct {
    plim_shape x, index;
    uint32_t axis;
} cases[] = {
    {{1, {9}}, {1, {30}}, 0},        {{1, {9}}, {0, {0}}, 0},          {{2, {11, 6}}, {1, {25}}, 0},      {{2, {11, 6}}, {1, {25}}, 1},
    {{2, {11, 6}}, {0, {0}}, 0},     {{2, {11, 6}}, {0, {0}}, 1},      {{2, {50, 64}}, {2, {7, 9}}, 0},   {{3, {4, 7, 5}}, {2, {3, 4}}, 1},
    {{3, {4, 7, 5}}, {2, {3, 4}}, 2}, {{4, {2, 3, 8, 5}}, {3, {2, 3, 2}}, 2}, {{2, {11, 6}}, {1, {0}}, 0}, {{2, {5, 0}}, {1, {4}}, 0},
    {{1, {0}}, {1, {4}}, 0},
};

typedef struct fixture {
    plim_graph *g;
    void *data[VALUES];
    parts_rng rng;
    uint32_t x, index;
} fixture;

/* Indices of x, some from the end, some repeated, and a few beyond. */
static fixture fixture_new(size_t k, plim_dtype t, plim_dtype it, bool beyond)
{
    fixture f = {.rng = {k * 977 + (uint64_t)t}};
    assert_int_equal(plim__graph_new(&f.g, (plim__alloc){0}, NULL), PLIM_OK);
    f.x = parts_input(f.g, f.data, t, &cases[k].x, &f.rng);
    f.index = parts_input(f.g, f.data, it, &cases[k].index, &f.rng);
    const int64_t extent = cases[k].x.dim[cases[k].axis];
    const uint64_t n = parts_count(&cases[k].index);
    for (uint64_t i = 0; i < n; i++) {
        const int64_t at = (int64_t)parts_random(&f.rng, (uint32_t)(2 * extent + 1)) - extent; /* in [-extent, extent] */
        parts_set(f.data[f.index], it, i, (double)(at == extent ? (beyond ? extent + 3 : 0) : at));
    }
    if (beyond && n > 2 && extent > 0) parts_set(f.data[f.index], it, n / 2, (double)(-extent - 1));
    return f;
}

static void fixture_free(fixture *f)
{
    parts_free(f->g, f->data);
    plim__graph_free(&f->g);
}

/* Which element of x does element i of the result stand for; -1: none. */
static int64_t source_of(size_t k, const fixture *f, uint64_t i)
{
    const plim_shape *x = &cases[k].x;
    uint64_t behind = 1;
    for (uint32_t d = cases[k].axis + 1; d < x->rank; d++) behind *= (uint64_t)x->dim[d];
    const uint64_t n = parts_count(&cases[k].index), j = i / behind % n, before = i / behind / n;
    const int64_t extent = x->dim[cases[k].axis];
    int64_t at = (int64_t)parts_get(f->data[f->index], f->g->value[f->index].dtype, j);
    if (at < 0) at += extent;
    return at < 0 || at >= extent ? -1 : (int64_t)((before * (uint64_t)extent + (uint64_t)at) * behind + i % behind);
}

static void check_gather(size_t k, plim_dtype t, plim_dtype it)
{
    fixture f = fixture_new(k, t, it, true);
    uint32_t v;
    assert_int_equal(plim__op_gather(f.g, f.x, f.index, cases[k].axis, &v, NULL), PLIM_OK);
    const plim_shape *out = &f.g->value[v].shape;
    assert_int_equal(out->rank, cases[k].x.rank - 1 + cases[k].index.rank);
    const uint64_t n = parts_count(out);
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        for (uint64_t i = 0; i < n; i++) {
            const int64_t from = source_of(k, &f, i);
            const double nothing = plim__dtype_is_float(t) ? NAN : 0, want = from < 0 ? nothing : parts_get(f.data[f.x], t, (uint64_t)from);
            const double got = parts_get(f.data[v], t, i);
            if (!parts_close(got, want, 0, 0))
                fail_msg("gather %zu of %s: element %llu is %g, not %g", k, plim_dtype_name(t), (unsigned long long)i, got, want);
        }
    }
    fixture_free(&f);
}

static void test_gather(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++) check_gather(k, (plim_dtype)t, t % 2 ? PLIM_I32 : PLIM_I64);
}

static double folded(plim__reduction how, double a, double b)
{
    const double both[] = {[PLIM__REDUCE_SUM] = a + b, [PLIM__REDUCE_PROD] = a * b, [PLIM__REDUCE_MIN] = fmin(a, b), [PLIM__REDUCE_MAX] = fmax(a, b)};
    return both[how];
}

static void check_scatter(size_t k, plim_dtype t, plim_dtype it, plim__reduction how)
{
    static const double neutral[] = {[PLIM__REDUCE_SUM] = 0, [PLIM__REDUCE_PROD] = 1, [PLIM__REDUCE_MIN] = INFINITY, [PLIM__REDUCE_MAX] = -INFINITY};
    fixture f = fixture_new(k, t, it, true);
    uint32_t y, v;
    assert_int_equal(plim__op_gather(f.g, f.x, f.index, cases[k].axis, &y, NULL), PLIM_OK);
    const plim_shape shape = f.g->value[y].shape;
    const uint32_t dy = parts_input(f.g, f.data, t, &shape, &f.rng);
    assert_int_equal(plim__op_scatter_by(f.g, how, dy, f.index, cases[k].axis, &cases[k].x, &v, NULL), PLIM_OK);
    assert_true(plim__shape_equal(&f.g->value[v].shape, &cases[k].x));
    const uint64_t n = parts_count(&shape), m = parts_count(&cases[k].x);
    double *want = calloc(m + 1, sizeof *want);
    for (uint64_t i = 0; i < m; i++) want[i] = neutral[how];
    for (uint64_t i = 0; i < n; i++) {
        const int64_t to = source_of(k, &f, i);
        if (to >= 0) want[to] = folded(how, want[to], parts_get(f.data[dy], t, i));
    }
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        for (uint64_t i = 0; i < m; i++) {
            const double got = parts_get(f.data[v], t, i), eps = t == PLIM_F32 ? 1e-4 : 1e-12;
            if (!parts_close(got, want[i], eps, how == PLIM__REDUCE_PROD ? eps : 0))
                fail_msg("scatter %zu: element %llu is %g, not %g", k, (unsigned long long)i, got, want[i]);
        }
    }
    free(want);
    fixture_free(&f);
}

static void test_scatter(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < 16; t++) check_scatter(k, t % 2 ? PLIM_F32 : PLIM_F64, t / 2 % 2 ? PLIM_I32 : PLIM_I64, (plim__reduction)(t / 4));
}

static void test_gradients(void **state)
{
    (void)state;
    static const size_t small[] = {0, 3, 5, 7};
    for (size_t s = 0; s < COUNT_OF(small); s++) {
        const size_t k = small[s];
        fixture f = fixture_new(k, PLIM_F64, PLIM_I64, false);
        uint32_t y, dx;
        assert_int_equal(plim__op_gather(f.g, f.x, f.index, cases[k].axis, &y, NULL), PLIM_OK);
        const char *wrong = grads_check(f.g, f.data, y, &(grads_how){.h = 1e-5, .atol = 1e-6, .rtol = 1e-6}, &f.rng);
        if (wrong) fail_msg("gather %zu: %s", k, wrong);
        const plim_shape shape = f.g->value[y].shape;
        const uint32_t dy = parts_input(f.g, f.data, PLIM_F64, &shape, &f.rng);
        assert_int_equal(plim__op_scatter(f.g, dy, f.index, cases[k].axis, &cases[k].x, &dx, NULL), PLIM_OK);
        wrong = grads_check(f.g, f.data, dx, &(grads_how){.h = 1e-5, .atol = 1e-6, .rtol = 1e-6}, &f.rng);
        if (wrong) fail_msg("scatter %zu: %s", k, wrong);
        fixture_free(&f);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(3);
    uint32_t v;
    plim_error err = {0};
    const plim_shape s = {2, {5, 4}}, big = {PLIM_MAX_RANK, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}, i = {1, {3}}, d = {2, {3, 4}}, wrong = {2, {5, 3}};
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &s), xb = parts_lab_input(&lab, PLIM_F32, &big);
    const uint32_t dy = parts_lab_input(&lab, PLIM_F32, &d);
    const uint32_t index = parts_lab_input(&lab, PLIM_I64, &i), pairs = parts_lab_input(&lab, PLIM_I64, &s);
    const uint32_t small = parts_lab_input(&lab, PLIM_U8, &i), whole = parts_lab_input(&lab, PLIM_I64, &d);
    assert_int_equal(plim__op_gather(lab.g, x, index, 2, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_gather(lab.g, xb, pairs, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_gather(lab.g, x, small, 0, &v, &err), PLIM_E_TYPE);
    assert_string_equal(err.message, "gather: indices of i32 or i64, not u8");
    assert_int_equal(plim__op_scatter(lab.g, dy, index, 0, &wrong, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_scatter(lab.g, dy, index, 1, &s, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_scatter(lab.g, whole, index, 0, &s, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_scatter(lab.g, dy, index, 0, &s, &v, NULL), PLIM_OK);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather), cmocka_unit_test(test_scatter), cmocka_unit_test(test_gradients), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
