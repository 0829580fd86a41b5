/* The convolution's inner loops for x86-64-v3 (AVX2, FMA): compiled with -march=x86-64-v3, taken by conv.c where the processor can run them. */
#define LANES(name) name##_v3
#include "kernels/conv_lanes.inc"
