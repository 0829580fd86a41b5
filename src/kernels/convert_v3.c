/* The conversion loops for x86-64-v3, with F16C. Compiled with -march=x86-64-v3; called only where plim__cpu_has_v3 says so. */
#include "kernels/convert.h"

#if defined(__x86_64__)

#include <string.h>

#define ISA v3
#include "kernels/convert_loops.inc"

#else
typedef int plim__convert_v3_unused; /* an empty unit is not C */
#endif
