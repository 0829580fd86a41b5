/* resize and its gradient: against the definition, dimension by dimension, for every mode; whole and cut, so that what is read is enough. */
#include "unit.h"

#include "grads.h"
#include "kernels/resize.h"
#include "lanes.h"

static const struct {
    plim_shape shape;
    uint32_t space;
    int64_t size[3];
    double scale[3];
} cases[] = {
    {{1, {7}}, 1, {14}, {0}},
    {{1, {7}}, 1, {14}, {2}},
    {{2, {3, 10}}, 1, {4}, {0}},
    {{2, {2, 5}}, 1, {7}, {1.5}},
    {{2, {2, 9}}, 1, {4}, {0.45}},
    {{4, {2, 3, 5, 6}}, 2, {10, 12}, {0}},
    {{4, {1, 2, 8, 7}}, 2, {5, 17}, {0}},
    {{3, {2, 6, 4}}, 2, {15, 1}, {2.5, 0.25}},
    {{3, {1, 1, 3}}, 2, {4, 3}, {0}},
    {{4, {3, 4, 5, 3}}, 3, {6, 3, 7}, {0}},
    {{4, {2, 4, 1, 3}}, 3, {1, 1, 1}, {0}},
    {{1, {700}}, 1, {2100}, {0}},
    {{1, {2}}, 1, {1900}, {0}},
    {{1, {1900}}, 1, {13}, {0}},
    {{1, {10}}, 1, {30}, {1}}, /* coordinates far beyond the end */
    {{2, {2, 5}}, 1, {0}, {0}},
    {{2, {0, 5}}, 1, {3}, {0}},
};

typedef struct taps {
    int64_t at[2];
    double w[2];
} taps;

/* The coordinate as num/den where it is a fraction; den 0: *x. */
static void coordinate(int64_t i, int64_t in, int64_t out, double scale, plim__resize_where where, int64_t *num, int64_t *den, double *x)
{
    *den = 0;
    if (where == PLIM__RESIZE_ALIGN_CORNERS) {
        *num = out == 1 ? 0 : i * (in - 1);
        *den = out == 1 ? 1 : out - 1;
    } else if (scale != 0 && scale * (double)in != (double)out) {
        *x = where == PLIM__RESIZE_HALF_PIXEL ? ((double)i + 0.5) / scale - 0.5 : (double)i / scale;
    } else if (where == PLIM__RESIZE_HALF_PIXEL) {
        *num = (2 * i + 1) * in - out;
        *den = 2 * out;
    } else {
        *num = i * in;
        *den = out;
    }
}

/* The element that a fraction is rounded to, by looking at all that could be. */
static int64_t nearest_of(int64_t num, int64_t den, uint32_t round, int64_t in)
{
    int64_t best = -2;
    for (int64_t k = -1; k <= in; k++) {
        const int64_t off = num - k * den; /* x - k, times den */
        bool is = false;
        if (round == 0) is = 2 * off > -den && 2 * off <= den;
        if (round == 1) is = 2 * off >= -den && 2 * off < den;
        if (round == 2) is = off >= 0 && off < den;
        if (round == 3) is = off > -den && off <= 0;
        if (is) best = k;
    }
    assert_true(best >= -1);
    return best;
}

static taps taps_of(int64_t i, int64_t in, int64_t out, double scale, plim__resize_mode mode, plim__resize_where where, uint32_t round)
{
    int64_t num, den;
    double x = 0;
    coordinate(i, in, out, scale, where, &num, &den, &x);
    if (mode == PLIM__RESIZE_NEAREST) {
        int64_t k;
        if (den) k = nearest_of(num, den, round, in);
        else k = (int64_t)(round == 0 ? ceil(x - 0.5) : round == 1 ? floor(x + 0.5) : round == 2 ? floor(x) : ceil(x));
        k = plim__clamp(k, 0, in - 1);
        return (taps){{k, k}, {1, 0}};
    }
    int64_t k = (int64_t)floor(x);
    if (den) for (k = -1; (k + 1) * den <= num; k++) continue;
    const double w = den ? (double)(num - k * den) / (double)den : x - floor(x);
    return (taps){{plim__clamp(k, 0, in - 1), plim__clamp(k + 1, 0, in - 1)}, {1 - w, w}};
}

/* want (out's shape) from x, and back (x's shape) from dy. */
static void reference(size_t c, const plim__resize *r, const plim_shape *in, const plim_shape *out, const double *x, const double *dy, double *want,
                      double *back)
{
    const uint64_t n = parts_count(out);
    memset(back, 0, parts_count(in) * sizeof *back);
    for (uint64_t i = 0; i < n; i++) {
        int64_t at[PLIM_MAX_RANK], rest = (int64_t)i;
        for (uint32_t d = out->rank; d-- > 0; rest /= out->dim[d]) at[d] = rest % out->dim[d];
        want[i] = 0;
        for (uint32_t corner = 0; corner < 1u << r->space; corner++) {
            double weight = 1;
            uint64_t from = 0;
            for (uint32_t d = 0; d < out->rank; d++) {
                int64_t k = at[d];
                if (d >= out->rank - r->space) {
                    const uint32_t s = d + r->space - out->rank;
                    const taps t = taps_of(at[d], in->dim[d], out->dim[d], cases[c].scale[s], r->mode, r->where, r->round);
                    k = t.at[corner >> s & 1];
                    weight *= t.w[corner >> s & 1];
                }
                from = from * (uint64_t)in->dim[d] + (uint64_t)k;
            }
            want[i] += weight * x[from];
            back[from] += weight * dy[i];
        }
    }
}

static void compare(const char *what, size_t c, const void *got, plim_dtype t, const double *want, uint64_t n, double eps)
{
    for (uint64_t i = 0; i < n; i++)
        if (!parts_close(parts_get(got, t, i), want[i], eps, 0))
            fail_msg("%s %zu: element %llu is %.9g, not %.9g", what, c, (unsigned long long)i, parts_get(got, t, i), want[i]);
}

static void check_values(size_t c, plim_dtype t, plim__resize_mode mode, plim__resize_where where, uint32_t round, uint64_t seed)
{
    const plim_shape *in = &cases[c].shape;
    plim__resize r = {.mode = mode, .where = where, .round = round, .space = cases[c].space};
    memcpy(r.size, cases[c].size, sizeof r.size);
    memcpy(r.scale, cases[c].scale, sizeof r.scale);
    parts_lab lab = parts_lab_new(seed * 31 + c);
    const uint32_t x = parts_lab_input(&lab, t, in);
    uint32_t y, dx;
    plim_error err = {0};
    if (plim__op_resize(lab.g, x, &r, &y, &err) != PLIM_OK) fail_msg("%s", err.message);
    const plim_shape out = lab.g->value[y].shape;
    const uint32_t dy = parts_lab_input(&lab, t, &out);
    if (plim__op_resize_back(lab.g, dy, &r, in, &dx, &err) != PLIM_OK) fail_msg("%s", err.message);
    const uint64_t n = parts_count(in), m = parts_count(&out);
    double *d = calloc(2 * n + 2 * m + 1, sizeof *d), *xs = d, *back = d + n, *dys = d + 2 * n, *want = dys + m;
    for (uint64_t i = 0; i < n; i++) xs[i] = parts_get(lab.data[x], t, i);
    for (uint64_t i = 0; i < m; i++) dys[i] = parts_get(lab.data[dy], t, i);
    reference(c, &r, in, &out, xs, dys, want, back);
    const double sums = n ? 50 * (double)m / (double)n + 50 : 0;
    for (int parts = PARTS_WHOLE; parts <= PARTS_CUT; parts++) {
        parts_run(lab.g, lab.data, parts, &lab.rng);
        compare("resize", c, lab.data[y], t, want, m, t == PLIM_F32 ? 2e-5 : 1e-12);
        compare("resize back", c, lab.data[dx], t, back, n, (t == PLIM_F32 ? 1e-6 : 1e-14) * sums);
    }
    free(d);
    parts_lab_free(&lab);
}

static void test_values(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(cases); c++)
        for (int where = 0; where <= PLIM__RESIZE_ALIGN_CORNERS; where++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                const plim_dtype t = seed == 1 ? PLIM_F64 : PLIM_F32;
                check_values(c, t, PLIM__RESIZE_LINEAR, (plim__resize_where)where, 0, seed);
                for (uint32_t round = 0; round < 4; round++) check_values(c, t, PLIM__RESIZE_NEAREST, (plim__resize_where)where, round, seed);
            }
}

/* Doubling reads two elements (nearest: one) for one, and its gradient four (two), at most. */
static void test_windows(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(1);
    const plim_shape s = {2, {3, 10}}, o = {2, {3, 20}};
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &s), dy = parts_lab_input(&lab, PLIM_F32, &o);
    for (int linear = 0; linear < 2; linear++) {
        const plim__resize r = {.mode = linear ? PLIM__RESIZE_LINEAR : PLIM__RESIZE_NEAREST, .space = 1, .size = {20}, .scale = {2}};
        uint32_t y, dx;
        assert_int_equal(plim__op_resize(lab.g, x, &r, &y, NULL), PLIM_OK);
        assert_int_equal(plim__op_resize_back(lab.g, dy, &r, &s, &dx, NULL), PLIM_OK);
        plim__region read;
        plim__region_reads(lab.g, &lab.g->node[lab.g->value[y].node], 0, (plim__range[]){{1, 2}, {7, 8}}, &read);
        assert_int_equal(read.dim[0].lo, 1);
        assert_int_equal(read.dim[1].lo, 3);
        assert_int_equal(read.dim[1].hi, linear ? 5 : 4);
        plim__region_reads(lab.g, &lab.g->node[lab.g->value[dx].node], 0, (plim__range[]){{1, 2}, {4, 6}}, &read);
        assert_int_equal(read.dim[1].lo, linear ? 7 : 8);
        assert_int_equal(read.dim[1].hi, linear ? 13 : 12);
    }
    parts_lab_free(&lab);
}

static void test_gradients(void **state)
{
    (void)state;
    static const size_t small[] = {2, 3, 8, 9};
    for (size_t k = 0; k < COUNT_OF(small); k++)
        for (int mode = 0; mode <= PLIM__RESIZE_LINEAR; mode++) {
            plim__resize r = {.mode = (plim__resize_mode)mode, .space = cases[small[k]].space};
            memcpy(r.size, cases[small[k]].size, sizeof r.size);
            memcpy(r.scale, cases[small[k]].scale, sizeof r.scale);
            parts_lab lab = parts_lab_new(k + 7);
            const uint32_t x = parts_lab_input(&lab, PLIM_F64, &cases[small[k]].shape);
            uint32_t y;
            assert_int_equal(plim__op_resize(lab.g, x, &r, &y, NULL), PLIM_OK);
            const char *wrong = grads_check(lab.g, lab.data, y, &(grads_how){.h = 1e-5, .atol = 2e-6, .rtol = 2e-6}, &lab.rng);
            if (wrong) fail_msg("resize %zu: %s", small[k], wrong);
            parts_lab_free(&lab);
        }
}

/* A neighbour without weight does not spread its NaN. */
static void test_nan(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(7);
    const plim_shape s = {1, {4}};
    const plim__resize r = {.mode = PLIM__RESIZE_LINEAR, .where = PLIM__RESIZE_ALIGN_CORNERS, .space = 1, .size = {7}};
    uint32_t y;
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &s);
    memcpy(lab.data[x], (float[]){1, 2, NAN, 4}, 16);
    assert_int_equal(plim__op_resize(lab.g, x, &r, &y, NULL), PLIM_OK);
    parts_run(lab.g, lab.data, PARTS_WHOLE, &lab.rng);
    const float *got = lab.data[y];
    assert_true(got[0] == 1 && got[1] == 1.5f && got[2] == 2 && isnan(got[3]) && isnan(got[4]) && isnan(got[5]) && got[6] == 4);
    parts_lab_free(&lab);
}

static void run_lanes(const void *lanes, lanes_try *t)
{
    const plim__resize_lanes *l = lanes;
    l->pick(t->to, t->x, t->lo, 101);
    l->blend(t->to, t->x, t->lo, t->hi, t->x, 0.7, true, 60);
    l->blend(t->to + 60, t->x, t->lo, t->hi, t->x, 0.7, false, 20);
    l->collect(t->acc, t->x, 1, 0.3, 101);
    l->collect(t->acc, t->x, 3, 0.3, 30);
    l->store(t->to + 80, 2, t->acc, true, 10);
}

static void test_lanes(void **state)
{
    (void)state;
    lanes_compare(run_lanes, plim__resize_lanes_base, LANES_V3(plim__resize_lanes_v3));
}

static void test_refusals(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(7);
    uint32_t v;
    plim_error err = {0};
    const plim_shape s = {2, {3, 4}}, empty = {2, {3, 0}};
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &s), e = parts_lab_input(&lab, PLIM_F32, &empty);
    const uint32_t i = parts_lab_input(&lab, PLIM_I8, &s);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 0}, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 3, .size = {1, 1, 1}}, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 1, .size = {-1}}, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 1, .size = {INT64_C(1) << 40}}, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 1, .size = {5}, .scale = {NAN}}, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 1, .size = {5}, .scale = {-1}}, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_resize(lab.g, x, &(plim__resize){.space = 1, .size = {5}, .round = 4}, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_resize(lab.g, i, &(plim__resize){.space = 1, .size = {5}}, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_resize(lab.g, e, &(plim__resize){.space = 1, .size = {5}}, &v, &err), PLIM_E_SHAPE);
    assert_string_equal(err.message, "resize: a dimension without elements to 5");
    assert_int_equal(plim__op_resize_back(lab.g, x, &(plim__resize){.space = 1, .size = {5}}, &s, &v, NULL), PLIM_E_SHAPE);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_windows), cmocka_unit_test(test_gradients), cmocka_unit_test(test_nan),
        cmocka_unit_test(test_lanes), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
