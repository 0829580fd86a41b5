/* The dtypes: sizes, names, kinds and NumPy's promotion rules. */
#ifndef PLIM_CORE_DTYPE_H
#define PLIM_CORE_DTYPE_H

#include "core/error.h"

typedef enum plim__kind { PLIM__KIND_BOOL, PLIM__KIND_UINT, PLIM__KIND_INT, PLIM__KIND_FLOAT } plim__kind;

plim__kind plim__dtype_kind(plim_dtype t);
static inline bool plim__dtype_is_float(plim_dtype t) { return plim__dtype_kind(t) == PLIM__KIND_FLOAT; }

/** The type that both convert to, as numpy.promote_types does. bf16 with f16 gives f32; bf16 with an integer follows f16's row. */
plim_dtype plim__dtype_promote(plim_dtype a, plim_dtype b);
/** NEP 50: an array of `a` meets a Python scalar of the kind given; the array's type wins unless the kind is higher. */
plim_dtype plim__dtype_promote_weak(plim_dtype a, plim__kind scalar);
/** What a floating function gives for an argument of `t`: sqrt(i8) is f16, sqrt(i16) f32, sqrt(i32) f64 (NumPy's loops). */
plim_dtype plim__dtype_float_of(plim_dtype t);
/** The type that arithmetic on `t` is done in: f32 for f16, bf16 and f32; i64 for bool and signed and small unsigned integers; u64; f64. */
plim_dtype plim__dtype_compute(plim_dtype t);

#endif
