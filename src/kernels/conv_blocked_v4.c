/* The loops of blocked convolution for x86-64-v4: 32 registers of 16 floats, of which a tile of 14 pixels by 2 blocks takes 28. Compiled with
 * -march=x86-64-v4 and fused multiply-adds, taken by conv_blocked.c where the processor can run them. */
#define LANES(name) name##_v4
#define LANES_NAME "v4"
#define WIDTH 16
#define BLOCKS 2
#define PIXELS 14
#define ROWS 8
#include "kernels/conv_blocked_lanes.inc"
