/* The elementwise loops for the baseline of the architecture. */
#define ISA base
#include "kernels/elementwise_loops.inc"
