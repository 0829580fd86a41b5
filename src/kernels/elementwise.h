/* Elementwise functions over boxes: the list, and the one entry point.
 *
 * Classes (for the front end's dtype rules and for the kernels):
 *   ARITH    result in the promoted type of the inputs; all compute types
 *   INTS     as ARITH, integers and bool only
 *   FLOAT    result in the float type of the promoted input; f32 and f64 only
 *   ROUND    floats are rounded, integers pass unchanged
 *   COMPARE  bool out; all compute types
 *   LOGIC    each input is "not 0"; bool out
 *   TEST     a property of one float; bool out */
#ifndef PLIM_KERNELS_ELEMENTWISE_H
#define PLIM_KERNELS_ELEMENTWISE_H

#include "kernels/view.h"

/*    id            name            arity class */
#define PLIM__EW_LIST(X)                        \
    X(COPY,         "copy",          1, ARITH)  \
    X(ADD,          "add",           2, ARITH)  \
    X(SUB,          "subtract",      2, ARITH)  \
    X(MUL,          "multiply",      2, ARITH)  \
    X(DIV,          "divide",        2, FLOAT)  \
    X(FLOOR_DIV,    "floor_divide",  2, ARITH)  \
    X(MOD,          "remainder",     2, ARITH)  \
    X(POW,          "pow",           2, ARITH)  \
    X(NEG,          "negative",      1, ARITH)  \
    X(ABS,          "abs",           1, ARITH)  \
    X(SIGN,         "sign",          1, ARITH)  \
    X(SQUARE,       "square",        1, ARITH)  \
    X(MINIMUM,      "minimum",       2, ARITH)  \
    X(MAXIMUM,      "maximum",       2, ARITH)  \
    X(WHERE,        "where",         3, ARITH)  \
    X(CLIP,         "clip",          3, ARITH)  \
    X(BIT_AND,      "bitwise_and",   2, INTS)   \
    X(BIT_OR,       "bitwise_or",    2, INTS)   \
    X(BIT_XOR,      "bitwise_xor",   2, INTS)   \
    X(BIT_NOT,      "bitwise_invert", 1, INTS)  \
    X(SHIFT_LEFT,   "bitwise_left_shift", 2, INTS)  \
    X(SHIFT_RIGHT,  "bitwise_right_shift", 2, INTS) \
    X(FLOOR,        "floor",         1, ROUND)  \
    X(CEIL,         "ceil",          1, ROUND)  \
    X(TRUNC,        "trunc",         1, ROUND)  \
    X(ROUND,        "round",         1, ROUND)  \
    X(RECIPROCAL,   "reciprocal",    1, FLOAT)  \
    X(SQRT,         "sqrt",          1, FLOAT)  \
    X(CBRT,         "cbrt",          1, FLOAT)  \
    X(EXP,          "exp",           1, FLOAT)  \
    X(EXP2,         "exp2",          1, FLOAT)  \
    X(EXPM1,        "expm1",         1, FLOAT)  \
    X(LOG,          "log",           1, FLOAT)  \
    X(LOG2,         "log2",          1, FLOAT)  \
    X(LOG10,        "log10",         1, FLOAT)  \
    X(LOG1P,        "log1p",         1, FLOAT)  \
    X(SIN,          "sin",           1, FLOAT)  \
    X(COS,          "cos",           1, FLOAT)  \
    X(TAN,          "tan",           1, FLOAT)  \
    X(ASIN,         "asin",          1, FLOAT)  \
    X(ACOS,         "acos",          1, FLOAT)  \
    X(ATAN,         "atan",          1, FLOAT)  \
    X(SINH,         "sinh",          1, FLOAT)  \
    X(COSH,         "cosh",          1, FLOAT)  \
    X(TANH,         "tanh",          1, FLOAT)  \
    X(ASINH,        "asinh",         1, FLOAT)  \
    X(ACOSH,        "acosh",         1, FLOAT)  \
    X(ATANH,        "atanh",         1, FLOAT)  \
    X(ATAN2,        "atan2",         2, FLOAT)  \
    X(HYPOT,        "hypot",         2, FLOAT)  \
    X(COPYSIGN,     "copysign",      2, FLOAT)  \
    X(NEXTAFTER,    "nextafter",     2, FLOAT)  \
    X(LOGADDEXP,    "logaddexp",     2, FLOAT)  \
    X(ERF,          "erf",           1, FLOAT)  \
    X(SIGMOID,      "sigmoid",       1, FLOAT)  \
    X(EQUAL,        "equal",         2, COMPARE) \
    X(NOT_EQUAL,    "not_equal",     2, COMPARE) \
    X(LESS,         "less",          2, COMPARE) \
    X(LESS_EQUAL,   "less_equal",    2, COMPARE) \
    X(GREATER,      "greater",       2, COMPARE) \
    X(GREATER_EQUAL, "greater_equal", 2, COMPARE) \
    X(AND,          "logical_and",   2, LOGIC)  \
    X(OR,           "logical_or",    2, LOGIC)  \
    X(XOR,          "logical_xor",   2, LOGIC)  \
    X(NOT,          "logical_not",   1, LOGIC)  \
    X(ISNAN,        "isnan",         1, TEST)   \
    X(ISINF,        "isinf",         1, TEST)   \
    X(ISFINITE,     "isfinite",      1, TEST)   \
    X(SIGNBIT,      "signbit",       1, TEST)

typedef enum plim__ew {
#define X(id, name, arity, cls) PLIM__EW_##id,
    PLIM__EW_LIST(X)
#undef X
    PLIM__EW_COUNT
} plim__ew;

typedef enum plim__ew_class {
    PLIM__EW_ARITH, PLIM__EW_INTS, PLIM__EW_FLOAT, PLIM__EW_ROUND_CLASS, PLIM__EW_COMPARE, PLIM__EW_LOGIC, PLIM__EW_TEST
} plim__ew_class;

const char *plim__ew_name(plim__ew fn);
uint32_t plim__ew_arity(plim__ew fn);
plim__ew_class plim__ew_class_of(plim__ew fn);
/** What one element costs in evaluations of a function such as exp of an f32; 0 for what memory and caches decide the speed of. */
double plim__ew_evaluations(plim__ew fn, plim_dtype compute);
/** Of the others: how much longer than an addition it takes (division, square root). */
double plim__ew_weight(plim__ew fn);

/** out = fn(in...). Every view has out's rank and extents; broadcast inputs have stride 0. Inputs are converted from their dtype
 *  to `compute` (f32, f64, i64, u64) and the result to out's dtype, a few KiB at a time on the stack: nothing is allocated. WHERE's first
 *  input is tested for "not 0" in its own dtype; COPY converts straight from its input's dtype, whatever `compute` is. Integer arithmetic
 *  wraps; x // 0 and x % 0 are 0 for integers, as NumPy has it. `out` may be exactly an input (same data, element size and strides);
 *  otherwise they must not overlap. */
void plim__ew_run(plim__ew fn, plim_dtype compute, const plim__view *out, const plim__view *in, uint32_t n_in);

/** n elements from one dtype to another, both dense. Saturates nothing: float to integer as C on x86 does after truncation, wrapped to the width
 *  (convert.c has the details). To bool is "not 0".
 *  f16 and bf16 round to nearest even. */
void plim__convert(void *dst, plim_dtype dst_dtype, const void *src, plim_dtype src_dtype, uint64_t n);
/** out = in, element by element, any strides (transposes in cache-sized blocks). Same extents; dtypes may differ. */
void plim__copy(const plim__view *out, const plim__view *in);
/** Reverses the bytes of n elements of `size` bytes in place. */
void plim__swap_bytes(void *p, uint64_t n, uint64_t size);

#endif
