/* The reductions' inner loops for x86-64-v3 (AVX2, FMA): the build compiles this file with -march=x86-64-v3, and reduce.c takes its table only
 * where the processor says that it can run it. */
#define LANES(name) name##_v3
#include "kernels/reduce_lanes.inc"
