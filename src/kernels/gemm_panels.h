/* Products of f32 and f64 matrices of any size. Panels of b, as wide as a few registers, are copied so that they lie in the order in which they are
 * read, a block of them that fits the second-level cache at a time. Rows of a are taken where they lie: a tile of them by one panel is held in registers
 * while the chain passes by, a row of the panel is loaded and each row's number broadcast.
 *
 * An element adds up its chain in pieces that depend on its length alone, each piece in one order: where rows and columns are cut, and by how many
 * threads, changes no bit. */
#ifndef PLIM_KERNELS_GEMM_PANELS_H
#define PLIM_KERNELS_GEMM_PANELS_H

#include "kernels/gemm.h"

#define PLIM__PANEL_COLS 32 /* at most */
#define PLIM__PANEL_ROWS 14 /* of a tile, at most */

/** c += a @ b, or c = a @ b. @param dtype  f32 or f64
 *  @param more  c holds something to add to
 *  @param scratch  plim__gemm_panels_scratch bytes, 64-byte aligned */
void plim__gemm_panels(plim_dtype dtype, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k, void *scratch);
/** Monotone in all of them. */
uint64_t plim__gemm_panels_scratch(plim_dtype dtype, uint32_t threads, int64_t m, int64_t n, int64_t k);

/** The inner loops, compiled once per instruction set. */
typedef struct plim__panel_lanes {
    const char *name;
    int size; /* bytes of an element */
    int rows, cols;
    /** c (rows, cols) = or += a (rows, k) @ panel (k, cols). Rows of c are dense and `c_row` apart. */
    void (*tile)(bool more, void *c, int64_t c_row, const plim__matrix *a, const void *panel, int64_t k, int rows);
} plim__panel_lanes;

extern const plim__panel_lanes plim__panel_lanes_float_base, plim__panel_lanes_float_v3, plim__panel_lanes_float_v4;
extern const plim__panel_lanes plim__panel_lanes_double_base, plim__panel_lanes_double_v3, plim__panel_lanes_double_v4;

/** With other loops than the best. */
void plim__gemm_panels_by(const plim__panel_lanes *lanes, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n,
                          int64_t k, void *scratch);

#endif
