/* softmax, its logarithm and their gradients: against loops in long double, whole and cut, in every layout. */
#include "unit.h"

#include "grads.h"
#include "kernels/softmax.h"
#include "lanes.h"

static const struct {
    plim_shape shape;
    uint32_t axis;
} cases[] = {
    {{1, {1}}, 0}, {{1, {10}}, 0}, {{1, {40000}}, 0}, {{2, {33, 10}}, 1}, {{2, {33, 10}}, 0}, {{2, {700, 3}}, 1}, {{2, {3, 700}}, 0},
    {{3, {5, 21, 130}}, 1}, {{3, {5, 21, 130}}, 2}, {{3, {5, 21, 130}}, 0}, {{4, {2, 3, 4, 50}}, 1}, {{2, {2, 20000}}, 1}, {{2, {20000, 2}}, 0}, 
    {{2, {0, 4}}, 1}, {{2, {4, 0}}, 1},
};

/* The column that element i is in, as its first element and the distance of neighbours. */
static void column_of(const plim_shape *s, uint32_t axis, uint64_t i, uint64_t *first, uint64_t *step)
{
    *step = 1;
    for (uint32_t d = axis + 1; d < s->rank; d++) *step *= (uint64_t)s->dim[d];
    *first = i - i / *step % (uint64_t)s->dim[axis] * *step;
}

/* The outputs and the gradients, in long double. */
static void reference(const plim_shape *s, uint32_t axis, const double *x, const double *dy, bool log, double *y, double *dx)
{
    const uint64_t n = parts_count(s), m = s->dim[axis] ? (uint64_t)s->dim[axis] : 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first, step;
        column_of(s, axis, i, &first, &step);
        if (first != i) continue;
        long double top = -INFINITY, sum = 0, inner = 0;
        for (uint64_t k = 0; k < m; k++) top = fmaxl(top, x[i + k * step]);
        for (uint64_t k = 0; k < m; k++) sum += expl((long double)x[i + k * step] - top);
        for (uint64_t k = 0; k < m; k++) {
            const uint64_t at = i + k * step;
            const long double shifted = (long double)x[at] - top;
            y[at] = (double)(log ? shifted - logl(sum) : expl(shifted) / sum);
            inner += log ? (long double)dy[at] : (long double)dy[at] * y[at];
        }
        for (uint64_t k = 0; k < m; k++) {
            const uint64_t at = i + k * step;
            dx[at] = (double)(log ? dy[at] - expl(y[at]) * inner : y[at] * (dy[at] - inner));
        }
    }
}

static void doubles(double *to, const void *from, plim_dtype t, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) to[i] = parts_get(from, t, i);
}

static void check_values(plim_dtype t, const plim_shape *s, uint32_t axis, bool log, uint64_t seed)
{
    parts_lab f = parts_lab_new(seed);
    const uint32_t x = parts_lab_input(&f, t, s), dy = parts_lab_input(&f, t, s);
    parts_scale(f.g, f.data, x, 5);
    const uint64_t n = parts_count(s);
    uint32_t y, dx;
    assert_int_equal(plim__op_softmax(f.g, x, axis, log, &y, NULL), PLIM_OK);
    assert_int_equal(plim__op_softmax_back(f.g, y, dy, axis, log, &dx, NULL), PLIM_OK);
    double *d = malloc((n + 1) * 4 * sizeof *d), *in = d, *din = d + n, *want = d + 2 * n, *want_dx = d + 3 * n;
    doubles(in, f.data[x], t, n);
    doubles(din, f.data[dy], t, n);
    reference(s, axis, in, din, log, want, want_dx);
    const double eps = t == PLIM_F32 ? 3e-6 : 1e-13;
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(f.g, f.data, mode, &f.rng);
        for (uint64_t i = 0; i < n; i++) {
            if (!parts_close(parts_get(f.data[y], t, i), want[i], log ? eps : 1e-30, eps))
                fail_msg("softmax: element %llu is %.9g, not %.9g", (unsigned long long)i, parts_get(f.data[y], t, i), want[i]);
            const double size = log ? 1e3 * eps : 50 * eps * want[i];
            if (!parts_close(parts_get(f.data[dx], t, i), want_dx[i], size, eps))
                fail_msg("softmax back: element %llu is %.9g, not %.9g", (unsigned long long)i, parts_get(f.data[dx], t, i), want_dx[i]);
        }
    }
    free(d);
    parts_lab_free(&f);
}

static void test_values(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int log = 0; log < 2; log++) {
            check_values(PLIM_F64, &cases[k].shape, cases[k].axis, log, k);
            for (uint64_t seed = 0; seed < 3; seed++) check_values(PLIM_F32, &cases[k].shape, cases[k].axis, log, k + seed * 31);
        }
}

static void test_gradients(void **state)
{
    (void)state;
    static const struct { plim_shape shape; uint32_t axis; } small[] = {{{1, {7}}, 0}, {{2, {4, 5}}, 0}, {{3, {2, 3, 4}}, 1}, {{2, {3, 6}}, 1}};
    for (size_t k = 0; k < COUNT_OF(small); k++)
        for (int log = 0; log < 2; log++) {
            parts_lab f = parts_lab_new(k);
            const uint32_t x = parts_lab_input(&f, PLIM_F64, &small[k].shape);
            parts_scale(f.g, f.data, x, 30);
            uint32_t y;
            assert_int_equal(plim__op_softmax(f.g, x, small[k].axis, log, &y, NULL), PLIM_OK);
            const char *wrong = grads_check(f.g, f.data, y, &(grads_how){.h = 1e-5, .atol = 1e-7, .rtol = 1e-7}, &f.rng);
            if (wrong) fail_msg("softmax %zu %d: %s", k, log, wrong);
            parts_lab_free(&f);
        }
}

/* Values far from 0, columns that a f32 sum would spoil, elements that are not numbers. */
static void test_extremes(void **state)
{
    (void)state;
    const plim_shape s = {2, {4, 3}}, wide = {1, {3000000}};
    parts_lab f = parts_lab_new(1);
    const uint32_t x = parts_lab_input(&f, PLIM_F32, &s), z = parts_lab_input(&f, PLIM_F32, &wide);
    const float rows[4][3] = {{1e4f, 1e4f + 1, 1e4f - 1}, {-1e30f, 0, 0}, {NAN, 1, 2}, {-INFINITY, 5, 5}};
    memcpy(f.data[x], rows, sizeof rows);
    for (int64_t i = 0; i < wide.dim[0]; i++) ((float *)f.data[z])[i] = (float)(i % 2);
    uint32_t y, l, t;
    assert_int_equal(plim__op_softmax(f.g, x, 1, false, &y, NULL), PLIM_OK);
    assert_int_equal(plim__op_softmax(f.g, x, 1, true, &l, NULL), PLIM_OK);
    assert_int_equal(plim__op_softmax(f.g, z, 0, false, &t, NULL), PLIM_OK);
    parts_run(f.g, f.data, PARTS_WHOLE, &f.rng);
    const float *got = f.data[y], *log = f.data[l];
    const double sum = 1 + exp(1) + exp(-1);
    assert_true(parts_close(got[0], 1 / sum, 0, 1e-6) && parts_close(got[1], exp(1) / sum, 0, 1e-6));
    assert_true(parts_close(log[2], -1 - log1p(sum - 1), 0, 1e-6));
    assert_true(got[3] == 0 && got[4] == 0.5f && log[3] == -1e30f);
    assert_true(isnan(got[6]) && isnan(got[7]) && isnan(log[8]));
    assert_true(got[9] == 0 && got[10] == 0.5f && log[9] == -INFINITY);
    const double each = 1 / (1.5e6 * (1 + exp(1)));
    assert_true(parts_close(((float *)f.data[t])[0], each, 0, 3e-7) && parts_close(((float *)f.data[t])[1], each * exp(1), 0, 3e-7));
    parts_lab_free(&f);
}

static void run_lanes(const void *lanes, lanes_try *t)
{
    const plim__softmax_lanes *l = lanes;
    t->result[0] = l->top(t->x, 101);
    t->result[1] = l->sum(t->x, 101);
    t->result[2] = l->dot(t->x, t->y, 101);
    l->shift(t->to, t->x, 0.3, 50);
    l->scale(t->to, 0.7, 50);
    l->lower(t->to + 50, t->x, 0.3, 0.1, 25);
    l->back(t->to + 75, t->x, t->y, 0.9, 26);
    l->back_log(t->to, t->y, 0.9, 30);
}

static void test_lanes(void **state)
{
    (void)state;
    lanes_compare(run_lanes, plim__softmax_lanes_base, LANES_V3(plim__softmax_lanes_v3));
}

static void test_refusals(void **state)
{
    (void)state;
    parts_lab f = parts_lab_new(1);
    const plim_shape s = {2, {4, 3}}, other = {2, {3, 4}};
    const uint32_t x = parts_lab_input(&f, PLIM_F32, &s), i = parts_lab_input(&f, PLIM_I32, &s);
    const uint32_t z = parts_lab_input(&f, PLIM_F32, &other);
    uint32_t v;
    plim_error err = {0};
    assert_int_equal(plim__op_softmax(f.g, x, 2, false, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_softmax(f.g, x, 40, false, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_softmax_back(f.g, x, z, 1, false, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_softmax(f.g, i, 0, true, &v, &err), PLIM_E_TYPE);
    assert_string_equal(err.message, "log softmax: of f32 or f64, not i32");
    parts_lab_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_gradients), cmocka_unit_test(test_extremes), cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
