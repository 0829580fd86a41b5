/* Small arrays as text, nested brackets the way NumPy prints them; large ones with their middle left out. */
#ifndef PLIM_CLI_PRINT_ARRAY_H
#define PLIM_CLI_PRINT_ARRAY_H

#include "plimsoll/plimsoll.h"

#include <stdio.h>

/** @param data  dense, C order */
void plim__print_array(FILE *out, plim_dtype dtype, const plim_shape *shape, const void *data);

/** Results of a plan that are in memory, on stdout: with their names where there are several. */
void plim__print_results(const plim_plan *plan);

#endif
