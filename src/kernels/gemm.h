/* Matrix products: f32 and f64 by panels (gemm_panels.h), small ones of f32 without (gemm_small.h), integers in a plain loop. */
#ifndef PLIM_KERNELS_GEMM_H
#define PLIM_KERNELS_GEMM_H

#include "core/error.h"

/** A matrix of the kernel's dtype with any strides, in elements. */
typedef struct plim__matrix {
    void *data;
    int64_t row, col; /* strides */
} plim__matrix;

/** c += a @ b, or c = a @ b. dtype f32 and f64 run on at most `threads` threads, as many as pay; i64 and u64 in a plain loop, wrapping.
 *  @param more  c holds something to add to
 *  @param scratch  plim__gemm_scratch bytes, 64-byte aligned */
void plim__gemm(plim_dtype dtype, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k,
                void *scratch);
/** Monotone in the threads and in every extent. */
uint64_t plim__gemm_scratch(plim_dtype dtype, uint32_t threads, int64_t m, int64_t n, int64_t k);

#endif
