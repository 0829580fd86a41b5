/* The typed loops behind plim__ew_run: dense operands of one compute type. Compiled once per instruction set. */
#ifndef PLIM_KERNELS_ELEMENTWISE_LOOPS_H
#define PLIM_KERNELS_ELEMENTWISE_LOOPS_H

#include "kernels/elementwise.h"

/* A function that no front end asks for by name: what POW with a constant exponent of 3 becomes. */
#define PLIM__EW_CUBE ((plim__ew)PLIM__EW_COUNT)

/** n elements. Inputs have the compute type, except WHERE's first, which is bool. The result is bool (0 or 1) where
 *  plim__ew_gives_bool, else of the compute type. `out` may be one of the inputs. */
typedef void (*plim__ew_loop)(void *out, const void *const *in, uint64_t n);

static inline bool plim__ew_gives_bool(plim__ew fn)
{
    const plim__ew_class c = fn < PLIM__EW_COUNT ? plim__ew_class_of(fn) : PLIM__EW_ARITH;
    return c == PLIM__EW_COMPARE || c == PLIM__EW_LOGIC || c == PLIM__EW_TEST;
}

/** NULL where the function does not exist in that type: FLOAT ones in integers, INTS ones in floats. */
plim__ew_loop plim__ew_loop_base(plim__ew fn, plim_dtype compute);
plim__ew_loop plim__ew_loop_v3(plim__ew fn, plim_dtype compute);

#endif
