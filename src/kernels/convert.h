/* Conversion between dtypes, as the other kernels use it: look the loop up once, call it for every chunk. */
#ifndef PLIM_KERNELS_CONVERT_H
#define PLIM_KERNELS_CONVERT_H

#include "core/error.h"

/** n elements, both sides dense. dst and src are disjoint, or the same address with elements of the same size. */
typedef void (*plim__convert_loop)(void *dst, const void *src, uint64_t n);

/** The loop for this CPU, or NULL where the two dtypes are the same and a memcpy does it. */
plim__convert_loop plim__convert_find(plim_dtype dst, plim_dtype src);

/** This CPU runs what was compiled for x86-64-v3 (AVX2, FMA, F16C, BMI2). False on other architectures. */
bool plim__cpu_has_v3(void);
/** The same for x86-64-v4 (AVX-512 F, BW, CD, DQ, VL). */
bool plim__cpu_has_v4(void);
/** Of what was compiled twice, `name`_base and `name`_v3, that which this CPU runs best. */
#ifdef PLIM_KERNELS_V3
#define PLIM__BEST(name) (plim__cpu_has_v3() ? name##_v3 : name##_base)
#else
#define PLIM__BEST(name) (name##_base)
#endif

/* One table per instruction set; convert_loops.inc makes both. */
plim__convert_loop plim__convert_find_base(plim_dtype dst, plim_dtype src);
plim__convert_loop plim__convert_find_v3(plim_dtype dst, plim_dtype src);

#endif
