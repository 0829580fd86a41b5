/* Local response normalisation and its gradient: against the formulas, whole and cut. */
#include "unit.h"

#include "grads.h"
#include "kernels/lrn.h"
#include "lanes.h"

static const struct {
    plim_shape shape;
    int64_t size;
} cases[] = {
    {{4, {2, 9, 5, 7}}, 5}, {{4, {2, 9, 5, 7}}, 4}, {{4, {1, 6, 3, 300}}, 1}, {{3, {3, 4, 11}}, 3}, {{2, {5, 12}}, 5}, {{2, {300, 4}}, 2},
    {{4, {2, 3, 4, 5}}, 50}, {{5, {1, 7, 2, 3, 4}}, 7}, {{4, {2, 1, 3, 3}}, 3}, {{3, {0, 4, 3}}, 3},
};
static const double alpha = 0.3, beta = 0.75, bias = 1.5;

/* Element i moved by `by` channels: its index, or -1 outside. */
static int64_t neighbour(const plim_shape *s, uint64_t i, int64_t by)
{
    int64_t inner = 1;
    for (uint32_t d = 2; d < s->rank; d++) inner *= s->dim[d];
    const int64_t c = (int64_t)i / inner % s->dim[1];
    return c + by < 0 || c + by >= s->dim[1] ? -1 : (int64_t)i + by * inner;
}

static double norm_at(const plim_shape *s, const double *x, uint64_t i, int64_t size)
{
    double sum = 0;
    for (int64_t by = -((size - 1) / 2); by <= size / 2; by++) { /* ceil((size - 1) / 2) above */
        const int64_t at = neighbour(s, i, by);
        sum += at < 0 ? 0 : x[at] * x[at];
    }
    return bias + alpha / (double)size * sum;
}

static void check_values(size_t k, plim_dtype t)
{
    const plim_shape *s = &cases[k].shape;
    const int64_t size = cases[k].size;
    parts_lab lab = parts_lab_new(k * 31 + 7);
    const uint32_t in = parts_lab_input(&lab, t, s), dy = parts_lab_input(&lab, t, s);
    parts_scale(lab.g, lab.data, in, 20);
    uint32_t y, dx;
    assert_int_equal(plim__op_lrn(lab.g, in, size, alpha, beta, bias, &y, NULL), PLIM_OK);
    assert_int_equal(plim__op_lrn_back(lab.g, in, dy, size, alpha, beta, bias, &dx, NULL), PLIM_OK);
    const uint64_t n = parts_count(s);
    double *x = malloc((n + 1) * sizeof *x);
    for (uint64_t i = 0; i < n; i++) x[i] = parts_get(lab.data[in], t, i);
    const double eps = t == PLIM_F32 ? 4e-6 : 1e-13;
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(lab.g, lab.data, mode, &lab.rng);
        for (uint64_t i = 0; i < n; i++) {
            const double p = pow(norm_at(s, x, i, size), -beta), got = parts_get(lab.data[y], t, i), back = parts_get(lab.data[dx], t, i);
            if (!parts_close(got, x[i] * p, 0, eps)) fail_msg("lrn %zu: element %llu is %.9g, not %.9g", k, (unsigned long long)i, got, x[i] * p);
            double sum = 0, large = 0;
            for (int64_t by = -(size / 2); by <= (size - 1) / 2; by++) {
                const int64_t at = neighbour(s, i, by);
                if (at < 0) continue;
                const double term = parts_get(lab.data[dy], t, (uint64_t)at) * x[at] * pow(norm_at(s, x, (uint64_t)at, size), -beta - 1);
                sum += term;
                large += fabs(term);
            }
            const double scale = 2 * alpha * beta / (double)size * x[i], want = parts_get(lab.data[dy], t, i) * p - scale * sum;
            if (!parts_close(back, want, eps * (fabs(scale) * large + fabs(p) * 50), 0))
                fail_msg("lrn back %zu: element %llu is %.9g, not %.9g", k, (unsigned long long)i, back, want);
        }
    }
    free(x);
    parts_lab_free(&lab);
}

static void test_values(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        check_values(k, PLIM_F32);
        check_values(k, PLIM_F64);
    }
}

static void test_gradients(void **state)
{
    (void)state;
    static const struct { plim_shape shape; int64_t size; } small[] = {{{3, {2, 5, 3}}, 3}, {{3, {1, 6, 2}}, 4}, {{2, {2, 4}}, 9}};
    for (size_t k = 0; k < COUNT_OF(small); k++) {
        parts_lab lab = parts_lab_new(k + 7);
        const uint32_t x = parts_lab_input(&lab, PLIM_F64, &small[k].shape);
        parts_scale(lab.g, lab.data, x, 25);
        uint32_t y;
        assert_int_equal(plim__op_lrn(lab.g, x, small[k].size, alpha, beta, bias, &y, NULL), PLIM_OK);
        const char *wrong = grads_check(lab.g, lab.data, y, &(grads_how){.h = 1e-5, .atol = 1e-6, .rtol = 1e-6}, &lab.rng);
        if (wrong) fail_msg("lrn %zu: %s", k, wrong);
        parts_lab_free(&lab);
    }
}

static void run_lanes(const void *lanes, lanes_try *t)
{
    const plim__lrn_lanes *l = lanes;
    l->squares(t->acc, t->x, 1, 101);
    l->squares(t->acc, t->x, 2, 40);
    l->sum(t->acc, t->x, 101);
    l->affine(t->to, t->acc, 0.3, 0.1, 101);
    l->times(t->to + 50, 1, t->x, 1, t->x, 20);
    l->over(t->to + 70, t->x, t->x, 2, t->x, 11);
    l->finish(t->to + 81, 2, t->x, t->x, 1, t->acc, 0.3, 10);
}

static void test_lanes(void **state)
{
    (void)state;
    lanes_compare(run_lanes, plim__lrn_lanes_base, LANES_V3(plim__lrn_lanes_v3));
}

static void test_refusals(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(7);
    uint32_t v;
    const plim_shape s = {2, {3, 4}}, flat = {1, {4}};
    const uint32_t x = parts_lab_input(&lab, PLIM_F64, &s), f = parts_lab_input(&lab, PLIM_F64, &flat);
    const uint32_t i = parts_lab_input(&lab, PLIM_I8, &s);
    assert_int_equal(plim__op_lrn(lab.g, x, 0, 1, 1, 1, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_lrn(lab.g, x, 3, NAN, 1, 1, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_lrn(lab.g, f, 3, 1, 1, 1, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_lrn(lab.g, i, 3, 1, 1, 1, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_lrn_back(lab.g, x, f, 3, 1, 1, 1, &v, NULL), PLIM_E_SHAPE);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_gradients), cmocka_unit_test(test_lanes), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
