/* softmax's inner loops for x86-64-v3: compiled with -march=x86-64-v3, taken by softmax.c where the processor can run them. */
#define LANES(name) name##_v3
#include "kernels/softmax_lanes.inc"
