/* Transposes for x86-64-v3 (AVX2): compiled with -march=x86-64-v3, taken by copy.c where the processor can run them. */
#define LANES(name) name##_v3
#include "kernels/turn_lanes.inc"
