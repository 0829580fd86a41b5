#include "kernels/order.h"

#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- keys */

/* A loop of its own for neighbours: with a stride that is only known at run time it would not be vectorised. */
#define KEYS_FN(name, T, K, KEY)                                                                      \
    static void name(K *restrict key, const void *xp, int64_t stride, int64_t n)                      \
    {                                                                                                 \
        const T *restrict x = xp;                                                                     \
        if (stride == 1)                                                                              \
            for (int64_t i = 0; i < n; i++) key[i] = KEY(T, x[i]);                                    \
        else                                                                                          \
            for (int64_t i = 0; i < n; i++) key[i] = KEY(T, x[i * stride]);                           \
    }

#define SIGN(T) ((T)((T)1 << (8 * sizeof(T) - 1)))
#define KEY_UNSIGNED(T, x) (x)
#define KEY_SIGNED(T, x) ((T)((x) ^ SIGN(T)))
/* `inf` is the bit pattern of infinity: what is above it without its sign is NaN. Negative ones are flipped whole, except -0. */
#define KEY_FLOAT(T, u, inf)                                                                                      \
    ((T)((u) & (T)~SIGN(T)) > (T)(inf) ? (T)~(T)0                                                                 \
     : (T)(u) > SIGN(T)                ? (T)~(u)                                                                  \
                                       : (T)((u) | SIGN(T)))
#define KEY_F16(T, x) KEY_FLOAT(T, x, 0x7C00)
#define KEY_BF16(T, x) KEY_FLOAT(T, x, 0x7F80)
#define KEY_F32(T, x) KEY_FLOAT(T, x, UINT32_C(0x7F800000))
#define KEY_F64(T, x) KEY_FLOAT(T, x, UINT64_C(0x7FF0000000000000))

KEYS_FN(keys_u8, uint8_t, uint32_t, KEY_UNSIGNED)
KEYS_FN(keys_u16, uint16_t, uint32_t, KEY_UNSIGNED)
KEYS_FN(keys_u32, uint32_t, uint32_t, KEY_UNSIGNED)
KEYS_FN(keys_u64, uint64_t, uint64_t, KEY_UNSIGNED)
KEYS_FN(keys_i8, uint8_t, uint32_t, KEY_SIGNED)
KEYS_FN(keys_i16, uint16_t, uint32_t, KEY_SIGNED)
KEYS_FN(keys_i32, uint32_t, uint32_t, KEY_SIGNED)
KEYS_FN(keys_i64, uint64_t, uint64_t, KEY_SIGNED)
KEYS_FN(keys_f16, uint16_t, uint32_t, KEY_F16)
KEYS_FN(keys_bf16, uint16_t, uint32_t, KEY_BF16)
KEYS_FN(keys_f32, uint32_t, uint32_t, KEY_F32)
KEYS_FN(keys_f64, uint64_t, uint64_t, KEY_F64)

void plim__keys32(uint32_t *key, const void *x, plim_dtype t, int64_t stride, int64_t n)
{
    switch (t) {
    case PLIM_BOOL: case PLIM_U8: keys_u8(key, x, stride, n); return;
    case PLIM_U16: keys_u16(key, x, stride, n); return;
    case PLIM_U32: keys_u32(key, x, stride, n); return;
    case PLIM_I8: keys_i8(key, x, stride, n); return;
    case PLIM_I16: keys_i16(key, x, stride, n); return;
    case PLIM_I32: keys_i32(key, x, stride, n); return;
    case PLIM_F16: keys_f16(key, x, stride, n); return;
    case PLIM_BF16: keys_bf16(key, x, stride, n); return;
    default: PLIM_ASSERT(t == PLIM_F32); keys_f32(key, x, stride, n); return;
    }
}

void plim__keys64(uint64_t *key, const void *x, plim_dtype t, int64_t stride, int64_t n)
{
    if (t == PLIM_U64) keys_u64(key, x, stride, n);
    else if (t == PLIM_I64) keys_i64(key, x, stride, n);
    else keys_f64(key, x, stride, n);
}

double plim__key_value(plim_dtype t, uint64_t key)
{
    const uint32_t bits = plim__key_bits(t);
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    double value;
    uint64_t raw = key;
    if (plim__dtype_kind(t) == PLIM__KIND_INT) raw = key ^ sign;
    if (plim__dtype_is_float(t)) {
        if (key == plim__key_max(t)) return NAN;
        raw = key & sign ? key ^ sign : ~key & plim__key_max(t);
    }
    plim__convert(&value, PLIM_F64, &raw, t, 1); /* the low bytes come first on every machine that this is built for */
    return value;
}

/* ----------------------------------------------------------------------------------------------- sorting */

#define MERGE_RUN 16     /* sorted by insertion */
#define MERGE_MAX 1024   /* below this a pass over 256 counters costs more than merging */

#define LESS_KEYED(a, b) ((a).key < (b).key)
#define LESS_PACKED(a, b) ((a) < (b)) /* the position below the key makes it stable */
#define DIGIT_KEYED(a, shift) ((a).key >> (shift) & 255)
#define DIGIT_PACKED(a, shift) ((a) >> (32 + (shift)) & 255)

#define SORT_FNS(T, LESS, DIGIT, insert, merge, by_merging, by_digits)                                                       \
    static void insert(T *a, int64_t n)                                                                                      \
    {                                                                                                                        \
        for (int64_t i = 1; i < n; i++) {                                                                                    \
            const T x = a[i];                                                                                                \
            int64_t j = i;                                                                                                   \
            for (; j > 0 && LESS(x, a[j - 1]); j--) a[j] = a[j - 1];                                                         \
            a[j] = x;                                                                                                        \
        }                                                                                                                    \
    }                                                                                                                        \
    static void merge(T *restrict out, const T *a, int64_t n, const T *b, int64_t m)                                         \
    {                                                                                                                        \
        while (n > 0 && m > 0) {                                                                                             \
            const bool take_b = LESS(*b, *a);                                                                                \
            *out++ = take_b ? *b : *a;                                                                                       \
            b += take_b;                                                                                                     \
            m -= take_b;                                                                                                     \
            a += !take_b;                                                                                                    \
            n -= !take_b;                                                                                                    \
        }                                                                                                                    \
        memcpy(out, n ? a : b, (size_t)(n + m) * sizeof *out);                                                               \
    }                                                                                                                        \
    static T *by_merging(T *a, T *tmp, int64_t n)                                                                            \
    {                                                                                                                        \
        for (int64_t i = 0; i < n; i += MERGE_RUN) insert(a + i, plim__min(MERGE_RUN, n - i));                               \
        for (int64_t w = MERGE_RUN; w < n; w *= 2) {                                                                         \
            for (int64_t i = 0; i < n; i += 2 * w) {                                                                         \
                const int64_t left = plim__min(w, n - i), right = plim__min(w, n - i - left);                                \
                merge(tmp + i, a + i, left, a + i + left, right);                                                            \
            }                                                                                                                \
            T *swap = a;                                                                                                     \
            a = tmp;                                                                                                         \
            tmp = swap;                                                                                                      \
        }                                                                                                                    \
        return a;                                                                                                            \
    }                                                                                                                        \
    static T *by_digits(T *a, T *tmp, int64_t n, uint32_t bits)                                                              \
    {                                                                                                                        \
        int64_t count[8][256];                                                                                               \
        const uint32_t digits = bits / 8;                                                                                    \
        memset(count, 0, digits * sizeof *count);                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                                      \
            for (uint32_t d = 0; d < digits; d++) count[d][DIGIT(a[i], 8 * d)]++;                                            \
        for (uint32_t d = 0; d < digits; d++) {                                                                              \
            if (count[d][DIGIT(a[0], 8 * d)] == n) continue;                                                                 \
            for (int64_t k = 0, sum = 0; k < 256; k++) {                                                                     \
                const int64_t here = count[d][k];                                                                            \
                count[d][k] = sum;                                                                                           \
                sum += here;                                                                                                 \
            }                                                                                                                \
            for (int64_t i = 0; i < n; i++) tmp[count[d][DIGIT(a[i], 8 * d)]++] = a[i];                                      \
            T *swap = a;                                                                                                     \
            a = tmp;                                                                                                         \
            tmp = swap;                                                                                                      \
        }                                                                                                                    \
        return a;                                                                                                            \
    }

SORT_FNS(plim__keyed, LESS_KEYED, DIGIT_KEYED, keyed_insert, keyed_merge, keyed_by_merging, keyed_by_digits)
SORT_FNS(uint64_t, LESS_PACKED, DIGIT_PACKED, packed_insert, packed_merge, packed_by_merging, packed_by_digits)

plim__keyed *plim__sort_keyed(plim__keyed *a, plim__keyed *tmp, int64_t n, uint32_t bits)
{
    return n <= MERGE_MAX ? keyed_by_merging(a, tmp, n) : keyed_by_digits(a, tmp, n, bits);
}

uint64_t *plim__sort_packed(uint64_t *a, uint64_t *tmp, int64_t n, uint32_t bits)
{
    return n <= MERGE_MAX ? packed_by_merging(a, tmp, n) : packed_by_digits(a, tmp, n, bits);
}

/* --------------------------------------------------------------------------------------------- selecting */

/* Hoare's partition stops at keys equal to the pivot: many equal keys are split evenly. After it every a[lo..j] <= pivot <= every a[i..hi], and
 * what lies between j and i equals the pivot. A halving pivot need not be an element; the scans stay inside because min <= pivot < max. */
#define SELECT_FNS(T, name, pivot_of)                                                                                        \
    static T pivot_of(const T *a, int64_t lo, int64_t hi, bool halve)                                                        \
    {                                                                                                                        \
        const T x = a[lo], y = a[lo + (hi - lo) / 2], z = a[hi];                                                             \
        if (!halve) return x < y ? (y < z ? y : x < z ? z : x) : (x < z ? x : y < z ? z : y);                                \
        T min = x, max = x;                                                                                                  \
        for (int64_t i = lo; i <= hi; i++) {                                                                                 \
            min = a[i] < min ? a[i] : min;                                                                                   \
            max = a[i] > max ? a[i] : max;                                                                                   \
        }                                                                                                                    \
        return (T)(min + (max - min) / 2);                                                                                   \
    }                                                                                                                        \
    void name(T *a, int64_t n, int64_t k)                                                                                    \
    {                                                                                                                        \
        int64_t lo = 0, hi = n - 1;                                                                                          \
        int64_t patience = 0; /* elements looked at so far; a fair pivot halves, which makes 2n in all */                    \
        while (lo < hi) {                                                                                                    \
            patience += hi - lo + 1;                                                                                         \
            const T pivot = pivot_of(a, lo, hi, patience > 16 * n);                                                          \
            int64_t i = lo, j = hi;                                                                                          \
            while (i <= j) {                                                                                                 \
                while (a[i] < pivot) i++;                                                                                    \
                while (a[j] > pivot) j--;                                                                                    \
                if (i > j) break;                                                                                            \
                const T swap = a[i];                                                                                         \
                a[i++] = a[j];                                                                                               \
                a[j--] = swap;                                                                                               \
            }                                                                                                                \
            if (k <= j) hi = j;                                                                                              \
            else if (k >= i) lo = i;                                                                                         \
            else return;                                                                                                     \
        }                                                                                                                    \
    }

SELECT_FNS(uint32_t, plim__select32, pivot32)
SELECT_FNS(uint64_t, plim__select64, pivot64)

plim__rank plim__rank_of(double q, int64_t n)
{
    const double at = q * (double)(n - 1);
    plim__rank r = {.below = plim__clamp((int64_t)floor(at), 0, n - 1)};
    r.t = at - (double)r.below;
    r.above = r.t > 0 ? plim__min(r.below + 1, n - 1) : r.below;
    return r;
}

double plim__lerp(double a, double b, double t)
{
    if (a == b) return a; /* also for infinities, whose difference would be NaN */
    const double step = b - a;
    return t >= 0.5 ? b - step * (1 - t) : a + step * t;
}

/* ----------------------------------------------------------------------------------------------- columns */

int64_t plim__column_count(const plim__view *v, uint32_t skip)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < v->rank; d++) n *= skip >> d & 1 ? 1 : v->n[d];
    return n;
}

void *plim__column(const plim__view *v, uint32_t skip, int64_t c)
{
    int64_t off = 0;
    for (uint32_t d = v->rank; d-- > 0;) {
        if (skip >> d & 1) continue;
        off += c % v->n[d] * v->stride[d];
        c /= v->n[d];
    }
    return (char *)v->data + off * (int64_t)plim_dtype_bytes(v->dtype);
}
