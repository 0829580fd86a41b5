/* Conversions: every pair of dtypes against a definition by element, in both instruction sets; all 65536 halves. */
#include "core/dtype.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static plim__convert_loop loop_of(int isa, plim_dtype to, plim_dtype from)
{
#if defined(PLIM_KERNELS_V3)
    if (isa == 1) return plim__cpu_has_v3() ? plim__convert_find_v3(to, from) : NULL;
#endif
    return isa == 0 ? plim__convert_find_base(to, from) : NULL;
}

/* The value of a half by its definition: sign, exponent and fraction of the given widths. */
static double half_value(uint16_t h, int exponent_bits)
{
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int e = (h & 0x7fff) >> fraction_bits, f = h & ((1 << fraction_bits) - 1);
    const double sign = h & 0x8000 ? -1 : 1;
    if (e == (1 << exponent_bits) - 1) return f ? NAN : sign * INFINITY;
    return sign * (e ? ldexp(f + (1 << fraction_bits), e - bias - fraction_bits) : ldexp(f, 1 - bias - fraction_bits));
}

/* The nearest half by bisection over the positive ones, ties to even. */
static uint16_t half_nearest(long double x, int exponent_bits)
{
    const uint16_t infinite = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits)), sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return infinite | 1;
    const long double a = fabsl(x);
    uint16_t lo = 0, hi = infinite; /* value(lo) <= a < value(hi), the infinite one taken as the next power of two */
    const double beyond = 2 * half_value((uint16_t)(infinite - (1 << (15 - exponent_bits))), exponent_bits);
    if (a >= beyond) return infinite | sign;
    while (hi - lo > 1) {
        const uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (half_value(mid, exponent_bits) <= a)
            lo = mid;
        else
            hi = mid;
    }
    const long double below = a - half_value(lo, exponent_bits), above = (hi == infinite ? beyond : half_value(hi, exponent_bits)) - a;
    return (uint16_t)(sign | (below < above || (below == above && lo % 2 == 0) ? lo : hi));
}

static const struct half {
    plim_dtype dtype;
    int exponent_bits;
} halves[] = {{PLIM_F16, 5}, {PLIM_BF16, 8}};

static void test_all_halves(void **unused)
{
    (void)unused;
    static uint16_t h[65536], back[65536];
    static float f[65536];
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    for (size_t k = 0; k < COUNT_OF(halves); k++) {
        for (int isa = 0; isa < 2; isa++) {
            if (!loop_of(isa, PLIM_F32, PLIM_F16)) continue;
            loop_of(isa, PLIM_F32, halves[k].dtype)(f, h, 65535); /* odd: the tail too */
            loop_of(isa, halves[k].dtype, PLIM_F32)(back, f, 65535);
            for (int i = 0; i < 65535; i++) {
                const double want = half_value(h[i], halves[k].exponent_bits);
                if (isnan(want)) {
                    assert_true(isnan(f[i]) && isnan(half_value(back[i], halves[k].exponent_bits)));
                    continue;
                }
                if ((double)f[i] != want || !signbit(f[i]) != !signbit(want)) fail_msg("%s %04x is %a", plim_dtype_name(halves[k].dtype), i, f[i]);
                if (back[i] != h[i]) fail_msg("%s %04x comes back as %04x", plim_dtype_name(halves[k].dtype), i, back[i]);
            }
        }
    }
}

/* Around every half: the midpoint to the next one, and just beside it, from f64: rounded once. */
static void test_rounding_to_halves(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < COUNT_OF(halves); k++) {
        const int bits = halves[k].exponent_bits;
        const uint16_t infinite = (uint16_t)(((1 << bits) - 1) << (15 - bits));
        for (uint16_t h = 0; h < infinite; h = (uint16_t)(h + 1 + h / 97 % 5)) {
            const double lo = half_value(h, bits);
            const double hi = h + 1 == infinite ? 2 * half_value((uint16_t)(infinite - (1 << (15 - bits))), bits) : half_value((uint16_t)(h + 1), bits);
            const double mid = lo + (hi - lo) / 2;
            double x[] = {mid, nextafter(mid, 0), nextafter(mid, INFINITY), lo + (hi - lo) / 3, -mid, -nextafter(mid, INFINITY), mid * (1 + 1e-9),
                          mid * (1 - 1e-9)};
            for (int isa = 0; isa < 2; isa++) {
                if (!loop_of(isa, PLIM_F32, PLIM_F16)) continue;
                uint16_t got[COUNT_OF(x)];
                float narrow[COUNT_OF(x)];
                loop_of(isa, halves[k].dtype, PLIM_F64)(got, x, COUNT_OF(x));
                for (size_t i = 0; i < COUNT_OF(x); i++)
                    if (got[i] != half_nearest(x[i], bits))
                        fail_msg("%a in %s is %04x, not %04x", x[i], plim_dtype_name(halves[k].dtype), got[i], half_nearest(x[i], bits));
                for (size_t i = 0; i < COUNT_OF(x); i++) narrow[i] = (float)x[i];
                loop_of(isa, halves[k].dtype, PLIM_F32)(got, narrow, COUNT_OF(x));
                for (size_t i = 0; i < COUNT_OF(x); i++)
                    if (got[i] != half_nearest((double)narrow[i], bits)) fail_msg("f32 %a in %s is %04x", narrow[i], plim_dtype_name(halves[k].dtype), got[i]);
            }
        }
    }
}

/* --------------------------------------------------------------------------------------- every other pair */

static double as_double(plim_dtype t, const void *p)
{
    switch (t) {
    case PLIM_F32: return (double)*(const float *)p;
    case PLIM_F64: return *(const double *)p;
    case PLIM_F16: return half_value(*(const uint16_t *)p, 5);
    default: return half_value(*(const uint16_t *)p, 8);
    }
}

/* The integer value modulo 2^64 of an integer element. */
static uint64_t as_bits(plim_dtype t, const void *p)
{
    switch (t) {
    case PLIM_BOOL: return *(const uint8_t *)p != 0;
    case PLIM_U8: return *(const uint8_t *)p;
    case PLIM_U16: return *(const uint16_t *)p;
    case PLIM_U32: return *(const uint32_t *)p;
    case PLIM_I8: return (uint64_t)*(const int8_t *)p;
    case PLIM_I16: return (uint64_t)*(const int16_t *)p;
    case PLIM_I32: return (uint64_t)*(const int32_t *)p;
    default: return *(const uint64_t *)p;
    }
}

/* cvttsd2si with a 32- or 64-bit register. */
static uint64_t truncated(double x, plim_dtype to)
{
    const bool wide = to == PLIM_U32 || to == PLIM_I64 || to == PLIM_U64;
    if (to == PLIM_U64 && x >= 0x1p63) return x < 0x1p64 ? (uint64_t)x : 0;
    if (wide) return x >= -0x1p63 && x < 0x1p63 ? (uint64_t)(int64_t)x : 1ull << 63;
    return x > -0x1p31 - 1 && x < 0x1p31 ? (uint64_t)(int64_t)x : (uint64_t)INT32_MIN;
}

static void expect(plim_dtype to, void *want, plim_dtype from, const void *p)
{
    const bool from_float = plim__dtype_is_float(from);
    const double x = from_float ? as_double(from, p) : 0;
    const uint64_t u = from_float ? 0 : as_bits(from, p);
    const double value = from_float ? x : from == PLIM_U64 ? (double)u : (double)(int64_t)u;
    const long double exact = from_float ? (long double)x : from == PLIM_U64 ? (long double)u : (long double)(int64_t)u;
    const float value32 = from_float ? (float)x : from == PLIM_U64 ? (float)u : (float)(int64_t)u;
    switch (to) {
    case PLIM_BOOL: *(uint8_t *)want = from_float ? x != 0 : u != 0; return;
    case PLIM_F64: *(double *)want = value; return;
    case PLIM_F32: *(float *)want = value32; return;
    case PLIM_F16: *(uint16_t *)want = half_nearest(exact, 5); return;
    case PLIM_BF16: *(uint16_t *)want = half_nearest(exact, 8); return;
    default: break;
    }
    const uint64_t bits = from_float ? truncated(x, to) : u;
    memcpy(want, &bits, plim_dtype_bytes(to)); /* little-endian: the low bytes are the wrapped value */
}

static bool same(plim_dtype t, const void *a, const void *b)
{
    if (memcmp(a, b, plim_dtype_bytes(t)) == 0) return true;
    return plim__dtype_is_float(t) && isnan(as_double(t, a)) && isnan(as_double(t, b));
}

static void test_all_pairs(void **unused)
{
    (void)unused;
    static const double value[] = {0.0, -0.0, 1, -1, 0.5, -0.75, 2, 127, 128, -128, -129, 255, 256, 300, -300, 32767, 32768, 65504, 65520, 65535, 70000,
                                   -70000, 2147483647, 2147483648.0, -2147483648.0, -2147483649.0, 3e9, 4294967295.0, 4294967296.0, 1e10, -1e10, 9e18,
                                   9.3e18, -9.3e18, 1.5e19, 1.9e19, 1e30, -1e30, 1e300, 1e-30, 1e-310, 0.1, 1.0 / 3, 16777217, INFINITY, -INFINITY, NAN};
    enum { N = 777, TIES = 200 };
    for (plim_dtype from = 0; from < PLIM_DTYPE_COUNT; from++) {
        const uint64_t size = plim_dtype_bytes(from);
        _Alignas(8) char in[N * 8], out[N * 8];
        uint64_t state = 9;
        for (size_t i = 0; i < sizeof in; i++) in[i] = (char)((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 56);
        if (from == PLIM_BOOL)
            for (size_t i = 0; i < N; i++) in[i] &= 1;
        for (size_t i = 0; i < COUNT_OF(value); i++) expect(from, in + i * size, PLIM_F64, &value[i]);
        for (size_t i = 0; i < TIES && !plim__dtype_is_float(from); i++) { /* integers at, and one beside, the middle between two of bf16 */
            const uint64_t tie = (2 * (128 + i * 37 % 128) + 1) << (i * 13 % (8 * size)), beside = tie + i % 3 - 1;
            memcpy(in + (N - 1 - i) * size, &beside, size);
            if (from == PLIM_BOOL) in[N - 1 - i] &= 1;
        }
        for (plim_dtype to = 0; to < PLIM_DTYPE_COUNT; to++) {
            for (int isa = 0; isa < 2; isa++) {
                if (to == from || !loop_of(isa, to, from)) continue;
                loop_of(isa, to, from)(out, in, N);
                for (size_t i = 0; i < N; i++) {
                    _Alignas(8) char want[8];
                    expect(to, want, from, in + i * size);
                    if (!same(to, out + i * plim_dtype_bytes(to), want))
                        fail_msg("%s to %s, isa %d, element %zu", plim_dtype_name(from), plim_dtype_name(to), isa, i);
                }
            }
            memset(out, 0x77, sizeof out);
            plim__convert(out, to, in, from, N - 1);
            assert_int_equal(out[(N - 1) * plim_dtype_bytes(to)], 0x77);
            if (to == from) assert_memory_equal(out, in, (N - 1) * size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_halves),
        cmocka_unit_test(test_rounding_to_halves),
        cmocka_unit_test(test_all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
