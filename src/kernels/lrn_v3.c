/* Local response normalisation's inner loops for x86-64-v3: compiled with -march=x86-64-v3, taken by lrn.c where the processor can run them. */
#define LANES(name) name##_v3
#include "kernels/lrn_lanes.inc"
