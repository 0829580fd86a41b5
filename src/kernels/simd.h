/* What the loops that are compiled once per instruction set share. */
#ifndef PLIM_KERNELS_SIMD_H
#define PLIM_KERNELS_SIMD_H

#include <stdint.h>

#define PLIM__CAT_(a, b) a##b
#define PLIM__CAT(a, b) PLIM__CAT_(a, b)

/* Iterations are independent although output and input may be the same memory: element i is read before it is written and touched by no other
 * iteration. `restrict` would promise more than that, and without a promise the compilers' overlap test picks the scalar loop in place. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a call of the math library stays scalar, and may */
#define PLIM__SIMD _Pragma("clang loop vectorize(assume_safety)")
#else
#define PLIM__SIMD _Pragma("GCC ivdep")
#endif

typedef float f32;
typedef double f64;
typedef int64_t i64;
typedef uint64_t u64;

#endif
