/* Products of f32 matrices that are too small, or too thin, for BLIS: it packs both operands and hands out work before it multiplies, which for a
 * layer of ten outputs is most of its time, and threads that meet at its barriers spin. */
#ifndef PLIM_KERNELS_GEMM_SMALL_H
#define PLIM_KERNELS_GEMM_SMALL_H

#include "kernels/gemm.h"

#define PLIM__GEMM_COLS 16

/** Is c (m, n) += a (m, k) @ b (k, n) better done here? */
bool plim__gemm_is_small(int64_t m, int64_t n, int64_t k);
/** c += a @ b. 20 KiB of stack, nothing allocated. */
void plim__gemm_small(uint32_t threads, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k);

/** acc (rows, 16) = a (rows, k) @ b (k, 16), rows <= 4; a with any strides, rows of b dense and `b_row` apart. */
typedef void plim__gemm_tile(float *acc, plim__matrix a, const float *b, int64_t b_row, int64_t rows, int64_t k);

plim__gemm_tile plim__gemm_tile_base, plim__gemm_tile_v3;

#endif
