/* The inner loop of small products for x86-64-v3, with fused multiply-adds: taken by gemm_small.c where the processor can run it. */
#define LANES(name) name##_v3
#include "kernels/gemm_small_lanes.inc"
