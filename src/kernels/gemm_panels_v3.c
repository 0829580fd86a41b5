/* The loops of gemm_panels.c for x86-64-v3: 16 registers of 8 floats, of which a tile of 6 by 16 takes 12, and half as many doubles. Compiled with -march=x86-64-v3
 * and fused multiply-adds, taken where the processor can run them. */
#define LANES_(name) name##_v3
#define LANES(name) LANES_(name)
#define LANES_NAME "v3"

#define T float
#define WIDTH 8
#define ROWS 6
#define COLS 16
#include "kernels/gemm_panels_lanes.inc"

#define T double
#define WIDTH 4
#define ROWS 6
#define COLS 8
#include "kernels/gemm_panels_lanes.inc"
