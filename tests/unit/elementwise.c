/* Elementwise kernels: NumPy's results for every function, in both instruction sets, over views of any shape. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise_loops.h"

#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ helpers */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static plim__view line(void *data, plim_dtype dtype, int64_t n)
{
    const plim__region r = {.rank = 1, .dim = {{0, n}}};
    return plim__view_dense(data, dtype, &r);
}

/* Both instruction sets, where there are two. */
static plim__ew_loop loop_of(int isa, plim__ew fn, plim_dtype compute)
{
#if defined(PLIM_KERNELS_V3)
    if (isa == 1) return plim__cpu_has_v3() ? plim__ew_loop_v3(fn, compute) : NULL;
#endif
    return isa == 0 ? plim__ew_loop_base(fn, compute) : NULL;
}

static void run1(plim__ew fn, plim_dtype t, void *out, plim_dtype to, const void *a, int64_t n)
{
    const plim__view o = line(out, to, n), in = line((void *)a, t, n);
    plim__ew_run(fn, plim__dtype_compute(t), &o, &in, 1);
}

static void run2(plim__ew fn, plim_dtype t, void *out, plim_dtype to, const void *a, const void *b, int64_t n)
{
    const plim__view o = line(out, to, n), in[2] = {line((void *)a, t, n), line((void *)b, t, n)};
    plim__ew_run(fn, plim__dtype_compute(t), &o, in, 2);
}

/* Distance in units of the last place of `want`; infinities, zeros and NaN must agree exactly (the zeros' sign as well). */
static double ulps_f32(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    const float w = (float)want;
    if (isinf(w) || isinf(got)) return got == w ? 0 : INFINITY;
    if (got == 0 && w == 0) return signbit(got) == signbit(w) ? 0 : INFINITY;
    const float unit = nextafterf(fabsf(w), INFINITY) - fabsf(w);
    return fabs((double)got - want) / (double)unit;
}

static double ulps_f64(double got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf(want) || isinf(got)) return got == want ? 0 : INFINITY;
    if (got == 0 && want == 0) return signbit(got) == signbit(want) ? 0 : INFINITY;
    return fabs(got - want) / (nextafter(fabs(want), INFINITY) - fabs(want));
}

/* --------------------------------------------------------------------------------------- the math library */

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double reciprocal(double x) { return 1 / x; }
static double log_add_exp(double a, double b)
{
    if (a == b) return a + log(2);
    return isnan(a) || isnan(b) ? NAN : fmax(a, b) + log1p(exp(-fabs(a - b)));
}

static const struct math1 {
    plim__ew fn;
    double (*f)(double);
} math1[] = {
    {PLIM__EW_RECIPROCAL, reciprocal}, {PLIM__EW_SQRT, sqrt}, {PLIM__EW_CBRT, cbrt}, {PLIM__EW_EXP, exp}, {PLIM__EW_EXP2, exp2},
    {PLIM__EW_EXPM1, expm1}, {PLIM__EW_LOG, log}, {PLIM__EW_LOG2, log2}, {PLIM__EW_LOG10, log10}, {PLIM__EW_LOG1P, log1p},
    {PLIM__EW_SIN, sin}, {PLIM__EW_COS, cos}, {PLIM__EW_TAN, tan}, {PLIM__EW_ASIN, asin}, {PLIM__EW_ACOS, acos}, {PLIM__EW_ATAN, atan},
    {PLIM__EW_SINH, sinh}, {PLIM__EW_COSH, cosh}, {PLIM__EW_TANH, tanh}, {PLIM__EW_ASINH, asinh}, {PLIM__EW_ACOSH, acosh},
    {PLIM__EW_ATANH, atanh}, {PLIM__EW_ERF, erf}, {PLIM__EW_SIGMOID, sigmoid}, {PLIM__EW_FLOOR, floor}, {PLIM__EW_CEIL, ceil},
    {PLIM__EW_TRUNC, trunc}, {PLIM__EW_ROUND, rint}, {PLIM__EW_ABS, fabs},
};

static const struct math2 {
    plim__ew fn;
    double (*f)(double, double);
} math2[] = {
    {PLIM__EW_POW, pow}, {PLIM__EW_ATAN2, atan2}, {PLIM__EW_HYPOT, hypot}, {PLIM__EW_COPYSIGN, copysign}, {PLIM__EW_LOGADDEXP, log_add_exp},
};

static const double special[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 2, 3, -3, 10, 100, -100, 1e-3, 1e-30, -1e-30, 1e30, -1e30, 88.5, -88.5, 89,
                                 -104, 150, 700, -745, 710, 1e-44, -1e-44, 1e-320, 4e38, 3.4e38, 0x1p-126, 0x1p-1022, 1e300, 1e16, 0x1p24, 0x1p53, INFINITY,
                                 -INFINITY, NAN};
#define N_SPECIAL (sizeof special / sizeof *special)
#define N_SAMPLES 4001 /* odd: the last vector is incomplete */

/* Special values, then magnitudes over many powers of ten of either sign. */
static double sample(uint64_t *state, size_t i)
{
    if (i < N_SPECIAL) return special[i];
    const double unit = (double)next_random(state) / 0x1p31, power = (double)(next_random(state) % 12) - 7;
    return (next_random(state) & 1 ? -1 : 1) * unit * pow(10, power);
}

static void test_math1(void **unused)
{
    (void)unused;
    static float x32[N_SAMPLES], r32[N_SAMPLES];
    static double x64[N_SAMPLES], r64[N_SAMPLES];
    uint64_t state = 1;
    for (size_t i = 0; i < N_SAMPLES; i++) x32[i] = (float)(x64[i] = sample(&state, i));
    for (size_t k = 0; k < sizeof math1 / sizeof *math1; k++) {
        for (int isa = 0; isa < 2; isa++) {
            const plim__ew_loop f32 = loop_of(isa, math1[k].fn, PLIM_F32), f64 = loop_of(isa, math1[k].fn, PLIM_F64);
            if (!f32) continue;
            f32(r32, (const void *const[]){x32}, N_SAMPLES);
            f64(r64, (const void *const[]){x64}, N_SAMPLES);
            for (size_t i = 0; i < N_SAMPLES; i++) {
                const double u32 = ulps_f32(r32[i], math1[k].f((double)x32[i])), u64 = ulps_f64(r64[i], math1[k].f(x64[i]));
                if (u32 > 4.5) fail_msg("%s f32 isa %d of %a: %a, off by %g", plim__ew_name(math1[k].fn), isa, x32[i], r32[i], u32);
                if (u64 > 4.5) fail_msg("%s f64 isa %d of %a: %a, off by %g", plim__ew_name(math1[k].fn), isa, x64[i], r64[i], u64);
            }
        }
    }
}

static void test_math2(void **unused)
{
    (void)unused;
    enum { N = N_SPECIAL * N_SPECIAL + 2003 };
    static float a32[N], b32[N], r32[N];
    static double a64[N], b64[N], r64[N];
    uint64_t state = 2;
    for (size_t i = 0; i < N; i++) {
        const bool pairs = i < N_SPECIAL * N_SPECIAL;
        a32[i] = (float)(a64[i] = pairs ? special[i / N_SPECIAL] : sample(&state, N_SPECIAL));
        b32[i] = (float)(b64[i] = pairs ? special[i % N_SPECIAL] : sample(&state, N_SPECIAL));
    }
    for (size_t k = 0; k < sizeof math2 / sizeof *math2; k++) {
        for (int isa = 0; isa < 2; isa++) {
            const plim__ew_loop f32 = loop_of(isa, math2[k].fn, PLIM_F32), f64 = loop_of(isa, math2[k].fn, PLIM_F64);
            if (!f32) continue;
            f32(r32, (const void *const[]){a32, b32}, N);
            f64(r64, (const void *const[]){a64, b64}, N);
            for (size_t i = 0; i < N; i++) {
                /* log-add-exp cancels near its zero: an error relative to the larger operand is all that can be asked */
                const double slack = math2[k].fn == PLIM__EW_LOGADDEXP ? 1e-6 : 0;
                const double w32 = math2[k].f((double)a32[i], (double)b32[i]), w64 = math2[k].f(a64[i], b64[i]);
                if (ulps_f32(r32[i], w32) > 4.5 && !(fabs((double)r32[i] - w32) <= slack))
                    fail_msg("%s f32 isa %d of %a, %a: %a, not %a", plim__ew_name(math2[k].fn), isa, a32[i], b32[i], r32[i], w32);
                if (ulps_f64(r64[i], w64) > 4.5 && !(fabs(r64[i] - w64) <= slack * 1e-8))
                    fail_msg("%s f64 isa %d of %a, %a: %a, not %a", plim__ew_name(math2[k].fn), isa, a64[i], b64[i], r64[i], w64);
            }
        }
    }
}

/* f(x) has the same bits wherever x stands: a plan may cut anywhere. */
static void test_position_does_not_matter(void **unused)
{
    (void)unused;
    enum { N = 37 };
    uint64_t state = 3;
    for (int fn = 0; fn < PLIM__EW_COUNT; fn++) {
        for (int wide = 0; wide < 2; wide++) {
            const plim_dtype t = wide ? PLIM_F64 : PLIM_F32;
            if (plim__ew_class_of((plim__ew)fn) == PLIM__EW_INTS) continue;
            char x[3][N * 8], whole[N * 8] = {0}, part[N * 8] = {0};
            for (int k = 0; k < 3; k++)
                for (int i = 0; i < N; i++) {
                    const double v = (double)next_random(&state) / 0x1p31;
                    plim__convert(x[k] + (size_t)i * (wide ? 8 : 4), t, &v, PLIM_F64, 1);
                }
            const uint32_t arity = plim__ew_arity((plim__ew)fn);
            plim__view in[3], o = line(whole, t, N);
            for (int k = 0; k < 3; k++) in[k] = line(x[k], t, N);
            plim__ew_run((plim__ew)fn, t, &o, in, arity);
            for (int64_t lo = 0; lo < N; lo += 1 + lo % 7) {
                const plim__region r = {.rank = 1, .dim = {{lo, plim__min(lo + 1 + lo % 7, N)}}};
                plim__view all = line(part, t, N), cut[3], to = plim__view_part(&all, &r);
                for (int k = 0; k < 3; k++) cut[k] = plim__view_part(&in[k], &r);
                plim__ew_run((plim__ew)fn, t, &to, cut, arity);
            }
            if (memcmp(whole, part, sizeof whole)) fail_msg("%s in %s depends on position", plim__ew_name((plim__ew)fn), plim_dtype_name(t));
        }
    }
}

/* ------------------------------------------------------------------------------------------ NumPy's rules */

#define SAME_BITS(got, want) ((isnan(want) && isnan(got)) || ((got) == (want) && !signbit(got) == !signbit(want)))

static void test_python_division(void **unused)
{
    (void)unused;
    /* a, b, a // b, a % b as numpy gives them */
    static const double row[][4] = {
        {7, 3, 2, 1}, {-7, 3, -3, 2}, {7, -3, -3, -2}, {-7, -3, 2, -1}, {6, 3, 2, 0.0}, {-6, 3, -2, 0.0}, {6, -3, -2, -0.0},
        {0.0, 3, 0.0, 0.0}, {-0.0, 3, -0.0, 0.0}, {0.0, -3, -0.0, -0.0}, {1, 0.0, INFINITY, NAN}, {-1, 0.0, -INFINITY, NAN}, {1, -0.0, -INFINITY, NAN},
        {0.0, 0.0, NAN, NAN}, {INFINITY, 2, NAN, NAN}, {-INFINITY, 2, NAN, NAN}, {2, INFINITY, 0.0, 2}, {-2, INFINITY, -1, INFINITY},
        {2, -INFINITY, -1, -INFINITY}, {NAN, 1, NAN, NAN}, {1, NAN, NAN, NAN}, {5.5, 0.5, 11, 0.0}, {0.25, 1, 0.0, 0.25}, {-0.25, 1, -1, 0.75},
        {1e30, 7, 0, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double q, r;
        float a = (float)row[i][0], b = (float)row[i][1], qf, rf;
        run2(PLIM__EW_FLOOR_DIV, PLIM_F64, &q, PLIM_F64, &row[i][0], &row[i][1], 1);
        run2(PLIM__EW_MOD, PLIM_F64, &r, PLIM_F64, &row[i][0], &row[i][1], 1);
        run2(PLIM__EW_FLOOR_DIV, PLIM_F32, &qf, PLIM_F32, &a, &b, 1);
        run2(PLIM__EW_MOD, PLIM_F32, &rf, PLIM_F32, &a, &b, 1);
        if (row[i][0] == 1e30) { /* far apart: the remainder is still exact */
            assert_true(r == fmod(1e30, 7));
            assert_true(rf == fmodf(1e30f, 7));
            continue;
        }
        if (!SAME_BITS(q, row[i][2]) || !SAME_BITS(r, row[i][3])) fail_msg("f64 %g, %g: // %g %% %g", row[i][0], row[i][1], q, r);
        if (!SAME_BITS(qf, row[i][2]) || !SAME_BITS(rf, row[i][3])) fail_msg("f32 %g, %g: // %g %% %g", row[i][0], row[i][1], (double)qf, (double)rf);
    }
}

/* Against the definition, over many magnitudes. */
static void test_python_division_random(void **unused)
{
    (void)unused;
    enum { N = 5000 };
    static float a[N], b[N], q[N], r[N];
    uint64_t state = 4;
    for (int i = 0; i < N; i++) {
        a[i] = (float)sample(&state, N_SPECIAL);
        b[i] = i % 5 ? (float)sample(&state, N_SPECIAL) : (float)(1 + i % 9);
        if (i % 7 == 0) a[i] = b[i] * (float)(i % 300); /* nearly or exactly a multiple */
    }
    for (int i = 0; i < N; i++) { /* one by one: an operand that needs the slow way does not take its neighbours along */
        run2(PLIM__EW_FLOOR_DIV, PLIM_F32, &q[i], PLIM_F32, &a[i], &b[i], 1);
        run2(PLIM__EW_MOD, PLIM_F32, &r[i], PLIM_F32, &a[i], &b[i], 1);
    }
    for (int i = 0; i < N; i++) {
        if (b[i] == 0) continue;
        double a64 = (double)a[i] * 1.1, b64 = (double)b[i], r64, m64 = fmod(a64, b64);
        run2(PLIM__EW_MOD, PLIM_F64, &r64, PLIM_F64, &a64, &b64, 1);
        m64 = m64 == 0 ? copysign(0, b64) : (m64 < 0) != (b64 < 0) ? m64 + b64 : m64;
        if (!SAME_BITS(r64, m64)) fail_msg("%a %% %a is %a not %a", a64, b64, r64, m64);
        float m = fmodf(a[i], b[i]), d = (a[i] - m) / b[i];
        if (m != 0 && (b[i] < 0) != (m < 0)) {
            m += b[i];
            d -= 1;
        } else if (m == 0) {
            m = copysignf(0, b[i]);
        }
        float w = d != 0 ? floorf(d) : copysignf(0, a[i] / b[i]);
        if (d != 0 && d - w > 0.5f) w += 1;
        if (!SAME_BITS(r[i], m) || !SAME_BITS(q[i], w)) fail_msg("%a, %a: // %a not %a, %% %a not %a", a[i], b[i], q[i], w, r[i], m);
    }
}

static void test_integers(void **unused)
{
    (void)unused;
    static const struct {
        plim__ew fn;
        int64_t a, b, want;
    } row[] = {
        {PLIM__EW_ADD, INT64_MAX, 1, INT64_MIN}, {PLIM__EW_SUB, INT64_MIN, 1, INT64_MAX}, {PLIM__EW_MUL, INT64_MAX, 2, -2},
        {PLIM__EW_FLOOR_DIV, 7, 3, 2}, {PLIM__EW_FLOOR_DIV, -7, 3, -3}, {PLIM__EW_FLOOR_DIV, 7, -3, -3}, {PLIM__EW_FLOOR_DIV, -7, -3, 2},
        {PLIM__EW_FLOOR_DIV, -6, 3, -2}, {PLIM__EW_FLOOR_DIV, 5, 0, 0}, {PLIM__EW_FLOOR_DIV, INT64_MIN, -1, INT64_MIN},
        {PLIM__EW_MOD, 7, 3, 1}, {PLIM__EW_MOD, -7, 3, 2}, {PLIM__EW_MOD, 7, -3, -2}, {PLIM__EW_MOD, -7, -3, -1}, {PLIM__EW_MOD, 5, 0, 0},
        {PLIM__EW_MOD, INT64_MIN, -1, 0}, {PLIM__EW_MOD, -6, 3, 0},
        {PLIM__EW_POW, 3, 4, 81}, {PLIM__EW_POW, -2, 5, -32}, {PLIM__EW_POW, 7, 0, 1}, {PLIM__EW_POW, 2, 64, 0}, {PLIM__EW_POW, 2, -1, 0},
        {PLIM__EW_POW, 1, -3, 1}, {PLIM__EW_POW, -1, -3, -1}, {PLIM__EW_POW, -1, -4, 1}, {PLIM__EW_POW, 5, 3, 125}, {PLIM__EW_POW, 5, 2, 25},
        {PLIM__EW_MINIMUM, -1, 1, -1}, {PLIM__EW_MAXIMUM, -1, 1, 1}, {PLIM__EW_BIT_AND, 6, 3, 2}, {PLIM__EW_BIT_OR, 6, 3, 7},
        {PLIM__EW_BIT_XOR, 6, 3, 5}, {PLIM__EW_SHIFT_LEFT, 1, 62, 1ll << 62}, {PLIM__EW_SHIFT_LEFT, 1, 64, 0}, {PLIM__EW_SHIFT_LEFT, -1, 100, 0},
        {PLIM__EW_SHIFT_LEFT, -1, 4, -16}, {PLIM__EW_SHIFT_LEFT, 1, -1, 0}, {PLIM__EW_SHIFT_RIGHT, -16, 2, -4}, {PLIM__EW_SHIFT_RIGHT, -16, 64, -1},
        {PLIM__EW_SHIFT_RIGHT, 16, 64, 0}, {PLIM__EW_SHIFT_RIGHT, 16, -1, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t a[4] = {row[i].a, row[i].a, row[i].a, row[i].a}, b[4] = {row[i].b, row[i].b, row[i].b, row[i].b}, r[4];
        run2(row[i].fn, PLIM_I64, r, PLIM_I64, a, b, 4);
        for (int k = 0; k < 4; k++)
            if (r[k] != row[i].want)
                fail_msg("%s(%lld, %lld) is %lld", plim__ew_name(row[i].fn), (long long)row[i].a, (long long)row[i].b, (long long)r[k]);
    }
    int64_t x[3] = {INT64_MIN, -5, 5}, r[3];
    run1(PLIM__EW_ABS, PLIM_I64, r, PLIM_I64, x, 3);
    assert_true(r[0] == INT64_MIN && r[1] == 5 && r[2] == 5);
    run1(PLIM__EW_SIGN, PLIM_I64, r, PLIM_I64, x, 3);
    assert_true(r[0] == -1 && r[1] == -1 && r[2] == 1);
    run1(PLIM__EW_BIT_NOT, PLIM_I64, r, PLIM_I64, x, 3);
    assert_true(r[0] == INT64_MAX && r[1] == 4);
}

static void test_unsigned_and_narrow(void **unused)
{
    (void)unused;
    const uint64_t a[3] = {UINT64_MAX, 1, 1ull << 63}, b[3] = {1, UINT64_MAX, 3};
    uint64_t r[3];
    bool t[3];
    run2(PLIM__EW_LESS, PLIM_U64, t, PLIM_BOOL, a, b, 3);
    assert_true(!t[0] && t[1] && !t[2]);
    run2(PLIM__EW_FLOOR_DIV, PLIM_U64, r, PLIM_U64, a, b, 3);
    assert_true(r[0] == UINT64_MAX && r[1] == 0 && r[2] == (1ull << 63) / 3);
    run2(PLIM__EW_SHIFT_RIGHT, PLIM_U64, r, PLIM_U64, a, b, 3);
    assert_true(r[0] == UINT64_MAX >> 1 && r[1] == 0 && r[2] == 1ull << 60);

    const int8_t x[4] = {127, -128, -128, 100}, y[4] = {1, -1, -1, 3};
    int8_t s[4];
    run2(PLIM__EW_ADD, PLIM_I8, s, PLIM_I8, x, y, 4);
    assert_true(s[0] == -128 && s[1] == 127 && s[3] == 103);
    run2(PLIM__EW_FLOOR_DIV, PLIM_I8, s, PLIM_I8, x, y, 4);
    assert_true(s[0] == 127 && s[1] == -128 && s[3] == 33);
    run1(PLIM__EW_ABS, PLIM_I8, s, PLIM_I8, x, 4);
    assert_true(s[0] == 127 && s[1] == -128);
    const uint8_t u[2] = {0, 200}, w[2] = {1, 100};
    uint8_t q[2];
    run2(PLIM__EW_SUB, PLIM_U8, q, PLIM_U8, u, w, 2);
    assert_true(q[0] == 255 && q[1] == 100);
    run2(PLIM__EW_ADD, PLIM_U8, q, PLIM_U8, u, w, 2);
    assert_true(q[0] == 1 && q[1] == 44);
    const int32_t i32[2] = {-8, 1}, by[2] = {40, 40};
    int32_t z[2];
    run2(PLIM__EW_SHIFT_RIGHT, PLIM_I32, z, PLIM_I32, i32, by, 2);
    assert_true(z[0] == -1 && z[1] == 0);
    run2(PLIM__EW_SHIFT_LEFT, PLIM_I32, z, PLIM_I32, i32, by, 2);
    assert_true(z[0] == 0 && z[1] == 0);
}

static void test_nan_rules(void **unused)
{
    (void)unused;
    const float a[6] = {NAN, 1, -0.0f, 2, -3, NAN}, b[6] = {1, NAN, 0, 1, 5, NAN};
    float r[6];
    bool t[6];
    run2(PLIM__EW_MINIMUM, PLIM_F32, r, PLIM_F32, a, b, 6);
    assert_true(isnan(r[0]) && isnan(r[1]) && r[3] == 1 && r[4] == -3 && isnan(r[5]));
    run2(PLIM__EW_MAXIMUM, PLIM_F32, r, PLIM_F32, a, b, 6);
    assert_true(isnan(r[0]) && isnan(r[1]) && r[3] == 2 && r[4] == 5 && isnan(r[5]));
    run1(PLIM__EW_SIGN, PLIM_F32, r, PLIM_F32, a, 6);
    assert_true(isnan(r[0]) && r[1] == 1 && r[2] == 0 && r[3] == 1 && r[4] == -1);
    run2(PLIM__EW_NOT_EQUAL, PLIM_F32, t, PLIM_BOOL, a, b, 6);
    assert_true(t[0] && t[1] && !t[2] && t[3] && t[5]);
    run2(PLIM__EW_LESS_EQUAL, PLIM_F32, t, PLIM_BOOL, a, b, 6);
    assert_true(!t[0] && !t[1] && t[2] && !t[3] && t[4] && !t[5]);
    run2(PLIM__EW_AND, PLIM_F32, t, PLIM_BOOL, a, b, 6);
    assert_true(t[0] && t[1] && !t[2] && t[5]);
    run1(PLIM__EW_ISNAN, PLIM_F32, t, PLIM_BOOL, a, 6);
    assert_true(t[0] && !t[1]);
    const float e[5] = {INFINITY, -INFINITY, NAN, -0.0f, 1};
    run1(PLIM__EW_ISINF, PLIM_F32, t, PLIM_BOOL, e, 5);
    assert_true(t[0] && t[1] && !t[2] && !t[3]);
    run1(PLIM__EW_ISFINITE, PLIM_F32, t, PLIM_BOOL, e, 5);
    assert_true(!t[0] && !t[1] && !t[2] && t[3] && t[4]);
    run1(PLIM__EW_SIGNBIT, PLIM_F32, t, PLIM_BOOL, e, 5);
    assert_true(!t[0] && t[1] && t[3] && !t[4]);
    const float half[5] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
    run1(PLIM__EW_ROUND, PLIM_F32, r, PLIM_F32, half, 5);
    assert_true(r[0] == 0 && r[1] == 2 && r[2] == 2 && r[3] == 0 && signbit(r[3]) && r[4] == -2);
}

static void test_power_with_a_constant(void **unused)
{
    (void)unused;
    enum { N = 1500 };
    static float x[N], r[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - 700) / 7;
    static const double exponent[] = {2, 3, 0.5, -1, 1, 0, 1.7};
    for (size_t k = 0; k < sizeof exponent / sizeof *exponent; k++) {
        double e = exponent[k];
        plim__view in[2] = {line(x, PLIM_F32, N), line(&e, PLIM_F64, N)}, o = line(r, PLIM_F32, N);
        in[1].stride[0] = 0;
        plim__ew_run(PLIM__EW_POW, PLIM_F32, &o, in, 2);
        for (int i = 0; i < N; i++) {
            const float v = x[i], exact[] = {v * v, v * v * v, sqrtf(v), 1 / v, v, 1};
            if (k < 6 && !SAME_BITS(r[i], exact[k])) fail_msg("%a ** %g is %a", v, e, r[i]);
            if (k == 6 && ulps_f32(r[i], pow((double)v, (double)(float)e)) > 4.5) fail_msg("%a ** %g is %a", v, e, r[i]);
        }
    }
    int64_t base[3] = {-3, 0, 7}, two = 2, out[3];
    plim__view in[2] = {line(base, PLIM_I64, 3), line(&two, PLIM_I64, 3)}, o = line(out, PLIM_I64, 3);
    in[1].stride[0] = 0;
    plim__ew_run(PLIM__EW_POW, PLIM_I64, &o, in, 2);
    assert_true(out[0] == 9 && out[1] == 0 && out[2] == 49);
}

/* -------------------------------------------------------------------------------------------------- views */

/* A view of these extents with its dimensions in any order in memory, backwards or with gaps; inputs may repeat. */
static plim__view random_view(uint64_t *state, char *memory, plim_dtype t, uint32_t rank, const int64_t *n, bool repeats)
{
    plim__view v = {.dtype = t, .rank = rank};
    uint32_t order[4] = {0, 1, 2, 3};
    const bool shuffle = next_random(state) % 3 == 0, gaps = next_random(state) % 3 == 0, backwards = next_random(state) % 4 == 0;
    for (uint32_t d = rank; d-- > 1 && shuffle;) {
        const uint32_t e = (uint32_t)(next_random(state) % (d + 1)), swap = order[d];
        order[d] = order[e];
        order[e] = swap;
    }
    int64_t step = 1, first = 0;
    for (uint32_t k = rank; k-- > 0;) {
        const uint32_t d = order[k];
        v.n[d] = n[d];
        v.stride[d] = step;
        if (repeats && next_random(state) % 3 == 0) {
            v.stride[d] = 0;
            continue;
        }
        step *= n[d] + (gaps ? 1 : 0);
        if (backwards && next_random(state) & 1) {
            first += v.stride[d] * (n[d] - 1);
            v.stride[d] = -v.stride[d];
        }
    }
    v.data = memory + first * (int64_t)plim_dtype_bytes(t);
    return v;
}

/* fn of one element, by itself: the reference for what a walk over views must give. */
static void one_element(plim__ew fn, plim_dtype compute, char *out, plim_dtype to, const plim__view *in, uint32_t arity, const int64_t *at)
{
    plim__view one[3], o = line(out, to, 1);
    for (uint32_t k = 0; k < arity; k++) one[k] = line(plim__view_at(&in[k], at), in[k].dtype, 1);
    plim__ew_run(fn, compute, &o, one, arity);
}

static void test_views(void **unused)
{
    (void)unused;
    static const plim__ew fns[] = {PLIM__EW_ADD, PLIM__EW_COPY, PLIM__EW_LESS, PLIM__EW_WHERE, PLIM__EW_CLIP, PLIM__EW_NEG, PLIM__EW_AND, PLIM__EW_POW};
    static const plim_dtype computes[] = {PLIM_F32, PLIM_F64, PLIM_I64, PLIM_U64};
    uint64_t state = 5;
    const size_t room = 8 * 40000;
    char *memory[3], *target = malloc(room);
    for (int k = 0; k < 3; k++) memory[k] = malloc(room);
    for (int trial = 0; trial < 1500; trial++) {
        const plim__ew fn = fns[next_random(&state) % 8];
        const plim_dtype compute = computes[next_random(&state) % 4];
        const uint32_t arity = plim__ew_arity(fn), rank = (uint32_t)(next_random(&state) % 5);
        int64_t n[4] = {1, 1, 1, 1};
        const int64_t most = rank == 1 ? 3000 : rank == 2 ? 140 : rank == 3 ? 20 : 6;
        for (uint32_t d = 0; d < rank; d++) n[d] = 1 + (int64_t)next_random(&state) % most;
        plim__view in[3];
        for (uint32_t k = 0; k < arity; k++) {
            const plim_dtype t = next_random(&state) & 1 ? compute : (plim_dtype)(next_random(&state) % PLIM_DTYPE_COUNT);
            for (size_t i = 0; i < room / 8; i++) {
                const double v = (double)(next_random(&state) % 9);
                plim__convert(memory[k] + i * plim_dtype_bytes(t), t, &v, PLIM_F64, 1);
            }
            in[k] = random_view(&state, memory[k], t, rank, n, true);
        }
        const plim_dtype to = next_random(&state) & 1 ? compute : (plim_dtype)(next_random(&state) % PLIM_DTYPE_COUNT);
        memset(target, 0x5a, room);
        const plim__view out = random_view(&state, target, to, rank, n, false);
        plim__ew_run(fn, compute, &out, in, arity);
        int64_t at[4] = {0};
        for (bool more = true; more;) {
            char want[8];
            one_element(fn, compute, want, to, in, arity, at);
            if (memcmp(want, plim__view_at(&out, at), plim_dtype_bytes(to)))
                fail_msg("trial %d: %s in %s at %lld,%lld,%lld,%lld", trial, plim__ew_name(fn), plim_dtype_name(compute), (long long)at[0],
                         (long long)at[1], (long long)at[2], (long long)at[3]);
            more = false;
            for (uint32_t d = rank; d-- > 0 && !more;) {
                more = ++at[d] < n[d];
                if (!more) at[d] = 0;
            }
        }
    }
    for (int k = 0; k < 3; k++) free(memory[k]);
    free(target);
}

static void test_in_place(void **unused)
{
    (void)unused;
    enum { N = 3001 };
    static float x[N], y[N];
    static uint16_t h[N], want[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)i / 8;
        y[i] = (float)(i % 50);
    }
    plim__convert(h, PLIM_F16, x, PLIM_F32, N);
    run2(PLIM__EW_ADD, PLIM_F16, want, PLIM_F16, h, h, N);
    run2(PLIM__EW_ADD, PLIM_F16, h, PLIM_F16, h, h, N);
    assert_memory_equal(h, want, sizeof h);
    run2(PLIM__EW_MUL, PLIM_F32, x, PLIM_F32, x, y, N);
    for (int i = 0; i < N; i++) assert_true(x[i] == (float)i / 8 * (float)(i % 50));
    int32_t *as_int = (int32_t *)(void *)y; /* another dtype of the same size */
    run1(PLIM__EW_NEG, PLIM_F32, as_int, PLIM_I32, y, N);
    for (int i = 0; i < N; i++) assert_int_equal(as_int[i], -(i % 50));
}

static void test_table(void **unused)
{
    (void)unused;
    static const plim_dtype computes[] = {PLIM_F32, PLIM_F64, PLIM_I64, PLIM_U64};
    for (int fn = 0; fn < PLIM__EW_COUNT; fn++) {
        const plim__ew_class cls = plim__ew_class_of((plim__ew)fn);
        assert_non_null(plim__ew_name((plim__ew)fn));
        assert_in_range(plim__ew_arity((plim__ew)fn), 1, 3);
        for (int k = 0; k < 4; k++) {
            const bool expected = !(cls == PLIM__EW_FLOAT && k >= 2) && !(cls == PLIM__EW_INTS && k < 2);
            for (int isa = 0; isa < 2; isa++) {
                if (isa == 1 && !loop_of(1, PLIM__EW_ADD, PLIM_F32)) continue;
                assert_int_equal(loop_of(isa, (plim__ew)fn, computes[k]) != NULL, expected);
            }
            assert_true(plim__ew_evaluations((plim__ew)fn, computes[k]) >= 0 && plim__ew_weight((plim__ew)fn) >= 1);
        }
    }
}

/* All numbers of a float of 16 bits in a row: each one's neighbour is the next in the row, not the next f32. */
static void test_nextafter_narrow(void **unused)
{
    (void)unused;
    static const struct { plim_dtype t; uint16_t infinity; } types[] = {{PLIM_F16, 0x7c00}, {PLIM_BF16, 0x7f80}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const plim_dtype t = types[k].t;
        for (uint32_t magnitude = 0; magnitude <= types[k].infinity; magnitude++) {
            const uint16_t a[4] = {(uint16_t)magnitude, (uint16_t)(magnitude | 0x8000), (uint16_t)magnitude, (uint16_t)(magnitude | 0x8000)};
            const uint16_t away[4] = {types[k].infinity, types[k].infinity | 0x8000, 0, 0x8000};
            const uint16_t up = (uint16_t)(magnitude + (magnitude < types[k].infinity)), down = (uint16_t)(magnitude - (magnitude > 0));
            const uint16_t want[4] = {up, up | 0x8000, down, down | 0x8000};
            uint16_t got[4];
            run2(PLIM__EW_NEXTAFTER, t, got, t, a, away, 4);
            if (memcmp(got, want, sizeof got)) fail_msg("nextafter of %s %#x: %#x %#x %#x %#x", plim_dtype_name(t), magnitude, got[0], got[1], got[2], got[3]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_math1),
        cmocka_unit_test(test_math2),
        cmocka_unit_test(test_position_does_not_matter),
        cmocka_unit_test(test_python_division),
        cmocka_unit_test(test_python_division_random),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_unsigned_and_narrow),
        cmocka_unit_test(test_nan_rules),
        cmocka_unit_test(test_power_with_a_constant),
        cmocka_unit_test(test_nextafter_narrow),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
