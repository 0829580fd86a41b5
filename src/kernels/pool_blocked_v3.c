/* The inner loops of pooling in blocks for x86-64-v3 (AVX2): taken by pool_blocked.c where the processor can run them. */
#define LANES(name) name##_v3
#include "kernels/pool_blocked_lanes.inc"
