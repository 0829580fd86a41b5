/* Conversion between dtypes: the choice of instruction set, and the baseline loops.
 *
 * Float to integer is what NumPy's casts give on x86, on every architecture: truncation toward zero in a 32-bit register (a 64-bit one
 * for u32, i64 and u64), where NaN and what does not fit become the most negative integer, then two's complement wrapping to the width.
 * Integer to integer wraps. To bool is "not 0", so NaN is true. f16 and bf16 round once, to nearest even: what
 * f32 does not hold reaches them through an f32 rounded to odd (Boldo and Melquiond, "When double rounding is odd", 2005: exact since
 * 24 >= 11 + 2).
 *
 * Reentrant; nothing is allocated (f16 and bf16 pass through 1 KiB of stack). */
#include "kernels/convert.h"
#include "kernels/elementwise.h"

#include <string.h>

#define ISA base
#include "kernels/convert_loops.inc"

bool plim__cpu_has_v3(void)
{
#if defined(__x86_64__)
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#if !defined(__clang__) /* clang 14 cannot ask; no CPU has AVX2 without F16C */
    v3 = v3 && __builtin_cpu_supports("f16c");
#endif
    return v3;
#else
    return false;
#endif
}

bool plim__cpu_has_v4(void)
{
#if defined(__x86_64__)
    return plim__cpu_has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

plim__convert_loop plim__convert_find(plim_dtype dst, plim_dtype src)
{
    PLIM_ASSERT(dst < PLIM_DTYPE_COUNT && src < PLIM_DTYPE_COUNT);
    if (dst == src) return NULL;
    return PLIM__BEST(plim__convert_find)(dst, src);
}

void plim__convert(void *dst, plim_dtype dst_dtype, const void *src, plim_dtype src_dtype, uint64_t n)
{
    const plim__convert_loop loop = plim__convert_find(dst_dtype, src_dtype);
    if (n == 0) return;
    if (loop)
        loop(dst, src, n);
    else
        memmove(dst, src, n * plim_dtype_bytes(dst_dtype));
}
