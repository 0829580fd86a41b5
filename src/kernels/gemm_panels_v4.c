/* The loops of gemm_panels.c for x86-64-v4: 32 registers of 16 floats, of which a tile of 14 by 32 takes 28, and half as many doubles. Compiled with -march=x86-64-v4
 * and fused multiply-adds, taken where the processor can run them. */
#define LANES_(name) name##_v4
#define LANES(name) LANES_(name)
#define LANES_NAME "v4"

#define T float
#define WIDTH 16
#define ROWS 14
#define COLS 32
#include "kernels/gemm_panels_lanes.inc"

#define T double
#define WIDTH 8
#define ROWS 14
#define COLS 16
#include "kernels/gemm_panels_lanes.inc"
