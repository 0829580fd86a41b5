/* The elementwise loops for x86-64-v3. Compiled with -march=x86-64-v3; called only where plim__cpu_has_v3 says so. */
#define ISA v3
#include "kernels/elementwise_loops.inc"
