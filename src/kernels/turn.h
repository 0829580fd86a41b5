/* The inner loop of transposes in copy.c: elements of four bytes. */
#ifndef PLIM_KERNELS_TURN_H
#define PLIM_KERNELS_TURN_H

#include <stdint.h>

typedef uint32_t plim__word __attribute__((may_alias)); /* the bits of a float, or of an integer */

/** out[j][i] = in[i][j], i < rows, j < cols. Rows of either side are dense, and `out_row`, `in_row` elements apart. */
typedef void plim__turn(plim__word *out, int64_t out_row, const plim__word *in, int64_t in_row, int64_t rows, int64_t cols);

plim__turn plim__turn_base, plim__turn_v3;

#endif
