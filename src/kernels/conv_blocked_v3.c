/* The loops of blocked convolution for x86-64-v3: 16 registers of 8 floats, of which a tile of 6 pixels takes 12. Compiled with -march=x86-64-v3 and
 * fused multiply-adds, taken by conv_blocked.c where the processor can run them. */
#define LANES(name) name##_v3
#define LANES_NAME "v3"
#define WIDTH 8
#define BLOCKS 1
#define PIXELS 6
#define ROWS 6
#include "kernels/conv_blocked_lanes.inc"
