/* The loops of gemm_panels.c for x86-64-v4: 32 registers of 16 floats, of which a tile of 14 by 32 takes 28. Compiled with -march=x86-64-v4 and fused
 * multiply-adds, taken where the processor can run them. */
#define LANES(name) name##_v4
#define LANES_NAME "v4"
#define WIDTH 16
#define ROWS 14
#define COLS 32
#include "kernels/gemm_panels_lanes.inc"
