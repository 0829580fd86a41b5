/* Comparing what a program gives with what it should give, as the ONNX project's own runner does. */
#ifndef PLIM_SESSION_CONFORMANCE_H
#define PLIM_SESSION_CONFORMANCE_H

#include "models/onnx_case.h"

#define PLIM__CONFORMANCE_RTOL 1e-3
#define PLIM__CONFORMANCE_ATOL 1e-7
#define PLIM__CONFORMANCE_RTOL_BF16 0x1p-7 /* a unit in its last place: ONNX does not say which way to round, and its tests cut */

/** Whether `have` is what is expected: the same dtype and shape; floats within atol + rtol * |expected|, NaN where NaN is, infinities equal; others
 *  equal. @param why  the first difference, where there is one */
bool plim__conforms(const plim__tensor *have, const plim__tensor *expected, char *why, size_t size);

#endif
