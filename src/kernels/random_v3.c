/* The random numbers' inner loop for x86-64-v3: compiled with -march=x86-64-v3, taken by random.c where the processor can run it. */
#define LANES(name) name##_v3
#include "kernels/random_lanes.inc"
