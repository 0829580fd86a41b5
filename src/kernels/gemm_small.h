/* Products of f32 matrices that are too small, or too thin, for panels: packing both operands and handing out work is, for a layer of ten outputs, most of
 * the time that they take. */
#ifndef PLIM_KERNELS_GEMM_SMALL_H
#define PLIM_KERNELS_GEMM_SMALL_H

#include "kernels/gemm.h"

#define PLIM__GEMM_COLS 16
#define PLIM__GEMM_OUTER_MAX 64 /* terms of a sum up to which few columns of a dense c have a kernel of their own */

/** Is c (m, n) += a (m, k) @ b (k, n) better done here? */
bool plim__gemm_is_small(int64_t m, int64_t n, int64_t k);
/** Is it, however large, because few columns of a dense c are increased by few terms? */
bool plim__gemm_is_outer(plim__matrix c, plim__matrix a, int64_t m, int64_t n, int64_t k);
/** c += a @ b. 20 KiB of stack, nothing allocated. */
void plim__gemm_small(uint32_t threads, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k);

/** acc (rows, 16) = a (rows, k) @ b (k, 16), rows <= 4; a with any strides, rows of b dense and `b_row` apart. */
typedef void plim__gemm_tile(float *acc, plim__matrix a, const float *b, int64_t b_row, int64_t rows, int64_t k);
/** c (m, n), dense, += a (m, k) @ b (k, n), n < 16, k <= PLIM__GEMM_OUTER_MAX; columns of a dense. */
typedef void plim__gemm_outer(float *c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k);

plim__gemm_tile plim__gemm_tile_base, plim__gemm_tile_v3;
plim__gemm_outer plim__gemm_outer_base, plim__gemm_outer_v3;

#endif
