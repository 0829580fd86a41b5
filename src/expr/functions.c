/* The functions of the language: one row each. Help texts, the reference in docs/language.md and the binding of arguments all come from the table.
 *
 * To add a function is to add a row. Its parameters are written as Python would, defaults included; the defaults are expressions of the language. What
 * it does is either a C function (one per family, told apart by `data`) or, where the language itself can say it, a `body` over the parameters. */
#include "expr/lower.h"
#include "expr/expr.h"

#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------- table */

static const char *const ew_help[PLIM__EW_COUNT] = {
    [PLIM__EW_COPY] = "the same values",
    [PLIM__EW_ADD] = "x + y",
    [PLIM__EW_SUB] = "x - y",
    [PLIM__EW_MUL] = "x * y",
    [PLIM__EW_DIV] = "x / y, in floating point",
    [PLIM__EW_FLOOR_DIV] = "x // y, rounded down",
    [PLIM__EW_MOD] = "x % y, with the sign of y",
    [PLIM__EW_POW] = "x ** y",
    [PLIM__EW_NEG] = "-x",
    [PLIM__EW_ABS] = "absolute value",
    [PLIM__EW_SIGN] = "-1, 0 or 1",
    [PLIM__EW_SQUARE] = "x * x",
    [PLIM__EW_MINIMUM] = "the smaller of the two; NaN if either is",
    [PLIM__EW_MAXIMUM] = "the larger of the two; NaN if either is",
    [PLIM__EW_WHERE] = "x where the condition is not 0, y elsewhere",
    [PLIM__EW_CLIP] = "x with values outside [min, max] moved to the bound; None: no bound",
    [PLIM__EW_BIT_AND] = "x & y",
    [PLIM__EW_BIT_OR] = "x | y",
    [PLIM__EW_BIT_XOR] = "x ^ y",
    [PLIM__EW_BIT_NOT] = "~x; for bool: not x",
    [PLIM__EW_SHIFT_LEFT] = "x << y",
    [PLIM__EW_SHIFT_RIGHT] = "x >> y",
    [PLIM__EW_FLOOR] = "rounded down; integers stay integers",
    [PLIM__EW_CEIL] = "rounded up",
    [PLIM__EW_TRUNC] = "rounded toward 0",
    [PLIM__EW_ROUND] = "rounded to the nearest integer, halves to even",
    [PLIM__EW_RECIPROCAL] = "1 / x, in floating point",
    [PLIM__EW_SQRT] = "square root",
    [PLIM__EW_CBRT] = "cube root",
    [PLIM__EW_EXP] = "e ** x",
    [PLIM__EW_EXP2] = "2 ** x",
    [PLIM__EW_EXPM1] = "e ** x - 1, exact near 0",
    [PLIM__EW_LOG] = "natural logarithm",
    [PLIM__EW_LOG2] = "logarithm to base 2",
    [PLIM__EW_LOG10] = "logarithm to base 10",
    [PLIM__EW_LOG1P] = "log(1 + x), exact near 0",
    [PLIM__EW_SIN] = "sine",
    [PLIM__EW_COS] = "cosine",
    [PLIM__EW_TAN] = "tangent",
    [PLIM__EW_ASIN] = "inverse sine",
    [PLIM__EW_ACOS] = "inverse cosine",
    [PLIM__EW_ATAN] = "inverse tangent",
    [PLIM__EW_SINH] = "hyperbolic sine",
    [PLIM__EW_COSH] = "hyperbolic cosine",
    [PLIM__EW_TANH] = "hyperbolic tangent",
    [PLIM__EW_ASINH] = "inverse hyperbolic sine",
    [PLIM__EW_ACOSH] = "inverse hyperbolic cosine",
    [PLIM__EW_ATANH] = "inverse hyperbolic tangent",
    [PLIM__EW_ATAN2] = "angle of the point (y, x): the first argument is the ordinate",
    [PLIM__EW_HYPOT] = "sqrt(x*x + y*y) without overflow",
    [PLIM__EW_COPYSIGN] = "x with the sign of y",
    [PLIM__EW_NEXTAFTER] = "the next float after x toward y",
    [PLIM__EW_LOGADDEXP] = "log(exp(x) + exp(y)) without overflow",
    [PLIM__EW_ERF] = "error function",
    [PLIM__EW_SIGMOID] = "1 / (1 + exp(-x))",
    [PLIM__EW_EQUAL] = "x == y",
    [PLIM__EW_NOT_EQUAL] = "x != y",
    [PLIM__EW_LESS] = "x < y",
    [PLIM__EW_LESS_EQUAL] = "x <= y",
    [PLIM__EW_GREATER] = "x > y",
    [PLIM__EW_GREATER_EQUAL] = "x >= y",
    [PLIM__EW_AND] = "both are not 0",
    [PLIM__EW_OR] = "one of them is not 0",
    [PLIM__EW_XOR] = "exactly one of them is not 0",
    [PLIM__EW_NOT] = "x is 0",
    [PLIM__EW_ISNAN] = "is NaN",
    [PLIM__EW_ISINF] = "is an infinity",
    [PLIM__EW_ISFINITE] = "is neither NaN nor an infinity",
    [PLIM__EW_SIGNBIT] = "has the sign bit set: -0.0 too",
};

#define EW_PARAMS(fn, arity) ((fn) == PLIM__EW_CLIP ? "x, min=None, max=None" : (arity) == 1 ? "x" : (arity) == 2 ? "x, y" : "condition, x, y")
#define EW_LOWER(fn) ((fn) == PLIM__EW_CLIP ? plim__call_clip : plim__call_elementwise)
#define LIST PLIM__FUNCTION_LIST
#define VARIADIC PLIM__FUNCTION_VARIADIC
#define WIDE PLIM__FUNCTION_WIDE
#define ROUNDED PLIM__FUNCTION_ROUNDED
#define AVERAGED PLIM__FUNCTION_AVERAGED

static const plim__function table[] = {
#define X(id, ew_name, arity, cls) \
    {.name = ew_name, .params = EW_PARAMS(PLIM__EW_##id, arity), .group = "Elementwise", .lower = EW_LOWER(PLIM__EW_##id), .data = PLIM__EW_##id},
    PLIM__EW_LIST(X)
#undef X
#define F(fn_name, fn_params, fn_lower, fn_data, fn_flags, fn_help) \
    {.name = fn_name, .params = fn_params, .group = GROUP, .lower = fn_lower, .data = fn_data, .flags = fn_flags, .help = fn_help},
#define B(fn_name, fn_params, fn_flags, fn_body, fn_help) \
    {.name = fn_name, .params = fn_params, .group = GROUP, .body = fn_body, .flags = fn_flags, .help = fn_help},
#define GROUP "Elementwise"
    F("astype", "x, dtype", plim__call_astype, 0, 0, "x converted: floats to integers are cut off, too large ones wrap")
    B("relu", "x", 0, "maximum(x, 0)", "the positive part")
    B("gelu", "x", WIDE | ROUNDED, "x * ((erf(x * 0.7071067811865476) + 1) * 0.5)", "x times the normal distribution function of x")
    B("silu", "x", WIDE | ROUNDED, "x * sigmoid(x)", "x * sigmoid(x)")
    B("deg2rad", "x", WIDE | ROUNDED, "x * (pi / 180)", "degrees to radians")
    B("rad2deg", "x", WIDE | ROUNDED, "x * (180 / pi)", "radians to degrees")
    B("rint", "x", WIDE | ROUNDED, "round(x)", "rounded to the nearest integer, in floating point")
    B("fabs", "x", WIDE | ROUNDED, "abs(x)", "absolute value, in floating point")
    B("isclose", "x, y, rtol=1e-5, atol=1e-8, equal_nan=False", WIDE,
      "(abs(x - y) <= abs(y) * rtol + atol) & isfinite(y) | (x == y) | isnan(x) & isnan(y) & equal_nan",
      "|x - y| <= atol + rtol * |y|; infinities are close to themselves")
    F("nan_to_num", "x, copy=True, nan=0.0, posinf=None, neginf=None", plim__call_nan_to_num, 0, 0,
      "x with `nan` in place of NaN, and numbers in place of infinities: the largest and the least that there are without posinf and neginf")
#undef GROUP
#define GROUP "Reductions"
    F("sum", "x, axis=None, dtype=None, keepdims=False", plim__call_sum, PLIM__REDUCE_SUM, 0,
      "sum; bool and integers in i64 or u64, floats added in f64")
    F("prod", "x, axis=None, dtype=None, keepdims=False", plim__call_sum, PLIM__REDUCE_PROD, 0, "product; dtypes as for sum")
    F("mean", "x, axis=None, dtype=None, keepdims=False", plim__call_mean, 0, 0, "arithmetic mean; f64 for integers")
    F("var", "x, axis=None, ddof=0, keepdims=False", plim__call_var, 0, 0, "variance, divided by n - ddof (`correction` is another name of ddof)")
    F("std", "x, axis=None, ddof=0, keepdims=False", plim__call_var, 1, 0, "standard deviation, the root of var")
    F("min", "x, axis=None, keepdims=False", plim__call_extreme, PLIM__REDUCE_MIN, 0, "smallest element; NaN if there is one")
    F("max", "x, axis=None, keepdims=False", plim__call_extreme, PLIM__REDUCE_MAX, 0, "largest element; NaN if there is one")
    B("ptp", "x, axis=None, keepdims=False", 0, "max(x, axis, keepdims) - min(x, axis, keepdims)", "largest less smallest")
    F("any", "x, axis=None, keepdims=False", plim__call_truth, PLIM__REDUCE_MAX, 0, "is one of them not 0")
    F("all", "x, axis=None, keepdims=False", plim__call_truth, PLIM__REDUCE_MIN, 0, "are all of them not 0")
    B("allclose", "x, y, rtol=1e-5, atol=1e-8, equal_nan=False", 0, "all(isclose(x, y, rtol, atol, equal_nan))", "are all of them close")
    F("argmin", "x, axis=None, keepdims=False", plim__call_arg_extreme, 0, 0,
      "position of the first smallest element; without an axis in the flattened array")
    F("argmax", "x, axis=None, keepdims=False", plim__call_arg_extreme, 1, 0, "position of the first largest element")
    B("count_nonzero", "x, axis=None, keepdims=False", 0, "sum(x != 0, axis, keepdims=keepdims)", "how many are not 0")
    F("norm", "x, ord=2, axis=None, keepdims=False", plim__call_norm, 0, 0,
      "vector norm over the axes: ord is 0, 1, 2, any other number, inf or -inf")
    B("nansum", "x, axis=None, keepdims=False", 0, "sum(where(isnan(x), False, x), axis, keepdims=keepdims)", "sum of what is not NaN")
    F("nanmean", "x, axis=None, keepdims=False", plim__call_mean, 1, 0, "mean of what is not NaN")
    F("quantile", "x, q, axis=None, keepdims=False", plim__call_quantile, 0, 0,
      "exact quantiles, linear between neighbours; q: a number or a list in [0, 1]")
    F("percentile", "x, q, axis=None, keepdims=False", plim__call_quantile, 1, 0, "quantiles with q in [0, 100]")
    B("median", "x, axis=None, keepdims=False", 0, "quantile(x, 0.5, axis, keepdims)", "exact median")
    F("histogram", "x, bins=10, range=None", plim__call_histogram, 0, 0,
      "counts in bins of equal width from range[0] to range[1] (the data's own without it)")
    F("histogram_edges", "x, bins=10, range=None", plim__call_histogram, 1, 0, "the bins + 1 edges that histogram uses")
    B("logsumexp", "x, axis=None, keepdims=False", WIDE | AVERAGED,
      "log(sum(exp(x - where(isfinite(max(x, axis, True)), max(x, axis, True), 0)), axis, keepdims=keepdims))"
      " + where(isfinite(max(x, axis, keepdims)), max(x, axis, keepdims), 0)",
      "log(sum(exp(x))) without overflow")
    B("softmax", "x, axis=-1", WIDE | AVERAGED, "exp(x - max(x, axis, True)) / sum(exp(x - max(x, axis, True)), axis, keepdims=True)",
      "exp(x) / sum(exp(x)) along the axes, without overflow")
    B("unique_count", "x", 0,
      "sum((sort(ravel(x))[1:] != sort(ravel(x))[:-1]) & ~isnan(sort(ravel(x))[:-1])) + minimum(x.size, 1)",
      "how many different values there are; all NaN are one")
#undef GROUP
#define GROUP "Running"
    F("cumsum", "x, axis=None, dtype=None", plim__call_cumulative, PLIM__REDUCE_SUM, 0, "running sum; without an axis over the flattened array")
    F("cumprod", "x, axis=None, dtype=None", plim__call_cumulative, PLIM__REDUCE_PROD, 0, "running product")
    F("diff", "x, n=1, axis=-1", plim__call_diff, 0, 0, "differences of neighbours, n times")
#undef GROUP
#define GROUP "Shape"
    F("transpose", "x, axes=None", plim__call_transpose, 0, VARIADIC, "dimensions in another order; reversed without axes")
    F("moveaxis", "x, source, destination", plim__call_moveaxis, 0, 0, "dimensions moved to new places")
    F("swapaxes", "x, axis1, axis2", plim__call_moveaxis, 1, 0, "two dimensions exchanged")
    F("reshape", "x, shape", plim__call_reshape, 0, VARIADIC, "the same elements in C order; one dimension may be -1")
    B("ravel", "x", 0, "reshape(x, (-1,))", "one dimension, C order")
    F("squeeze", "x, axis=None", plim__call_squeeze, 0, 0, "without dimensions of extent 1")
    F("expand_dims", "x, axis", plim__call_expand_dims, 0, 0, "with new dimensions of extent 1")
    F("broadcast_to", "x, shape", plim__call_broadcast_to, 0, 0, "repeated to a larger shape")
    F("concat", "arrays, axis=0", plim__call_concat, 0, LIST, "a list of arrays joined along an axis")
    F("stack", "arrays, axis=0", plim__call_concat, 1, LIST, "a list of arrays of one shape joined along a new axis")
    F("vstack", "arrays", plim__call_concat, 2, LIST, "joined along the first axis; 1-D arrays are rows")
    F("hstack", "arrays", plim__call_concat, 3, LIST, "joined along the second axis; 1-D arrays along their own")
    F("flip", "x, axis=None", plim__call_flip, 0, 0, "reversed along the axes")
    F("roll", "x, shift, axis=None", plim__call_roll, 0, 0, "shifted around the end; without an axis as if flattened")
    F("tile", "x, reps", plim__call_tile, 0, 0, "the whole array repeated reps times along each axis")
    F("repeat", "x, repeats, axis=None", plim__call_repeat, 0, 0, "each element repeated; without an axis flattened")
    F("pad", "x, pad_width, mode='constant', constant_values=0", plim__call_pad, 0, 0, "with a border: constant, edge, reflect, symmetric or wrap")
    F("take", "x, indices, axis=None", plim__call_take, 0, 0, "elements at constant positions; without an axis of the flattened array")
    F("split", "x, size, axis=0", plim__call_split, 0, 0, "a list of pieces of `size` along the axis; the last may be shorter")
    F("len", "x", plim__call_len, 0, LIST, "length of the first dimension, or of a list")
#undef GROUP
#define GROUP "Order"
    F("sort", "x, axis=-1, descending=False, stable=True", plim__call_sort, 0, 0, "sorted along the axis, NaN last; always stable")
    F("argsort", "x, axis=-1, descending=False, stable=True", plim__call_sort, 1, 0, "positions that sort")
    F("topk", "x, k, axis=-1, largest=True", plim__call_topk, 0, 0,
      "the k largest, best first; topk(...)[1] is where they stand, topk(...)[0] the values again")
    F("unique", "x, size=None, max=None", plim__call_unique, 0, 0,
      "the distinct values, sorted: as an output cut to their number, of at most max (65536); with size= an array of that many, filled up with the largest, to "
      "compute with; unique(...)[1]: how many, -1 if more")
    F("argtopk", "x, k, axis=-1, largest=True", plim__call_topk, 1, 0, "positions of the k largest")
#undef GROUP
#define GROUP "Products and windows"
    F("matmul", "x, y", plim__call_dot, 1, 0, "x @ y")
    F("dot", "x, y", plim__call_dot, 0, 0, "matmul; a product with a scalar otherwise")
    B("outer", "x, y", 0, "reshape(x, (-1, 1)) * reshape(y, (1, -1))", "products of all pairs")
    F("vecdot", "x, y, axis=-1", plim__call_vecdot, 0, 0, "sum of products along an axis")
    F("tensordot", "x, y, axes=2", plim__call_tensordot, 0, 0, "sum of products over several axes: a number, or two lists")
    F("box", "x, size, axes=None, edge='edge'", plim__call_box, 0, 0,
      "mean over a box around each element; edge: edge, constant, reflect, symmetric, valid")
    F("conv", "x, w, edge='constant'", plim__call_conv, 0, 0, "convolution over the last dimensions, as many as w has; same size")
    F("convolve", "x, w, mode='full'", plim__call_convolve, 0, 0, "numpy.convolve of two 1-D arrays: full, same or valid")
#undef GROUP
#define GROUP "New arrays"
    F("zeros", "shape, dtype=f64", plim__call_full, 0, 0, "zeros")
    F("ones", "shape, dtype=f64", plim__call_full, 1, 0, "ones")
    F("full", "shape, value, dtype=None", plim__call_full, 2, 0, "one value everywhere")
    F("zeros_like", "x, dtype=None", plim__call_full_like, 0, 0, "zeros of x's shape and dtype")
    F("ones_like", "x, dtype=None", plim__call_full_like, 1, 0, "ones of x's shape and dtype")
    F("full_like", "x, value, dtype=None", plim__call_full_like, 2, 0, "one value, x's shape and dtype")
    F("arange", "start, stop=None, step=1, dtype=None", plim__call_arange, 0, 0, "start, start + step, ... before stop; at most 1 MiB")
    F("linspace", "start, stop, num=50, endpoint=True, dtype=f64", plim__call_linspace, 0, 0, "num values from start to stop; at most 1 MiB")
    F("eye", "n, m=None, k=0, dtype=f64", plim__call_eye, 0, 0, "ones on a diagonal; at most 1 MiB")
    F("asarray", "values, dtype=None", plim__call_asarray, 0, 0, "an array of the numbers of a (nested) list")
#undef GROUP
};

/* Known, but not possible with sizes that are fixed before the run. */
static const struct { const char *name, *why; } refused[] = {
    {"nonzero", "the size of the result depends on the data: use where(...), count_nonzero(x) or argmax(x != 0)"},
    {"argwhere", "the size of the result depends on the data: use where(...), count_nonzero(x) or argmax(x != 0)"},
    {"flatnonzero", "the size of the result depends on the data: use where(...), count_nonzero(x) or argmax(x != 0)"},
    {"compress", "the size of the result depends on the data: use where(mask, x, fill)"},
    {"extract", "the size of the result depends on the data: use where(mask, x, fill)"},
    {"bincount", "the size of the result depends on the data: use histogram(x, bins, (lo, hi))"},
};

static const struct { const char *alias, *name; } aliases[] = {
    {"absolute", "abs"}, {"power", "pow"}, {"mod", "remainder"}, {"true_divide", "divide"}, {"around", "round"},
    {"fix", "trunc"}, {"invert", "bitwise_invert"}, {"bitwise_not", "bitwise_invert"}, {"left_shift", "bitwise_left_shift"},
    {"right_shift", "bitwise_right_shift"}, {"arcsin", "asin"}, {"arccos", "acos"}, {"arctan", "atan"}, {"arcsinh", "asinh"}, {"arccosh", "acosh"},
    {"arctanh", "atanh"}, {"arctan2", "atan2"}, {"radians", "deg2rad"}, {"degrees", "rad2deg"}, {"positive", "copy"}, {"clamp", "clip"},
    {"amin", "min"}, {"amax", "max"}, {"average", "mean"}, {"vector_norm", "norm"}, {"cumulative_sum", "cumsum"}, {"cumulative_prod", "cumprod"},
    {"permute_dims", "transpose"}, {"flatten", "ravel"}, {"concatenate", "concat"}, {"array", "asarray"}, {"row_stack", "vstack"},
    {"unique_values", "unique"},
};

const plim__function *plim__function_find(const char *name, uint32_t n)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strlen(aliases[i].alias) != n || memcmp(aliases[i].alias, name, n)) continue;
        name = aliases[i].name;
        n = (uint32_t)strlen(name);
        break;
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && !memcmp(table[i].name, name, n)) return &table[i];
    return NULL;
}

bool plim__expr_function_at(uint32_t index, plim__expr_function *out)
{
    if (index >= sizeof table / sizeof *table) return false;
    const plim__function *f = &table[index];
    *out = (plim__expr_function){f->name, f->params, f->group, f->help ? f->help : ew_help[f->data]};
    return true;
}

bool plim__expr_alias_at(uint32_t index, const char **alias, const char **name)
{
    if (index >= sizeof aliases / sizeof *aliases) return false;
    *alias = aliases[index].alias;
    *name = aliases[index].name;
    return true;
}

/* ------------------------------------------------------------------------------------- unknown names */

/* Edits that make one name of the other: letters put in, left out, replaced, or two neighbours exchanged (Damerau 1964, in its restricted form).
 * @return most + 1 where a name is too long or the lengths alone say more than `most` */
static uint32_t distance(const char *a, uint32_t n, const char *b, uint32_t most)
{
    enum { LENGTH = 32 };
    const uint32_t m = (uint32_t)strlen(b);
    uint32_t d[LENGTH + 1][LENGTH + 1];
    if (n > LENGTH || m > LENGTH || n > m + most || m > n + most) return most + 1;
    for (uint32_t i = 0; i <= n; i++) d[i][0] = i;
    for (uint32_t j = 0; j <= m; j++) d[0][j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        for (uint32_t j = 1; j <= m; j++) {
            uint32_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            d[i][j] = swapped && d[i - 2][j - 2] + 1 < best ? d[i - 2][j - 2] + 1 : best;
        }
    }
    return d[n][m];
}

typedef struct nearest {
    const char *name;
    uint32_t n; /* of the wanted name */
    uint32_t best;
    char found[48];
} nearest;

static void consider(nearest *c, const char *name)
{
    const uint32_t most = c->n < 3 ? 0 : c->n < 6 ? 1 : 2, d = distance(c->name, c->n, name, most);
    if (d > most || d >= c->best) return;
    c->best = d;
    snprintf(c->found, sizeof c->found, "%s", name);
}

plim_status plim__fail_unknown(plim__lower *l, const char *what, const char *name, uint32_t n, bool functions)
{
    nearest c = {.name = name, .n = n, .best = UINT32_MAX};
    const int shown = (int)(n < 40 ? n : 40);
    for (size_t i = 0; functions && i < sizeof refused / sizeof *refused; i++)
        if (strlen(refused[i].name) == n && !memcmp(refused[i].name, name, n))
            return plim__fail(l->err, PLIM_E_UNSUPPORTED, "%s: %s", refused[i].name, refused[i].why);
    for (size_t i = 0; functions && i < sizeof table / sizeof *table; i++) consider(&c, table[i].name);
    for (size_t i = 0; functions && i < sizeof aliases / sizeof *aliases; i++) consider(&c, aliases[i].alias);
    for (uint32_t i = l->scope; !functions && i < l->n_vars; i++) {
        char var[48];
        snprintf(var, sizeof var, "%.*s", (int)l->var[i].n, l->var[i].name);
        consider(&c, var);
    }
    for (int t = 0; !functions && t < PLIM_DTYPE_COUNT; t++) consider(&c, plim_dtype_name((plim_dtype)t));
    if (c.found[0]) return plim__fail(l->err, PLIM_E_SYNTAX, "unknown %s '%.*s'; did you mean '%s'?", what, shown, name, c.found);
    if (functions || l->n_vars == l->scope) return plim__fail(l->err, PLIM_E_SYNTAX, "unknown %s '%.*s'", what, shown, name);
    char known[160] = "";
    size_t at = 0;
    for (uint32_t i = l->scope; i < l->n_vars && at < sizeof known - 50; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%.*s", i > l->scope ? ", " : "", (int)(l->var[i].n < 40 ? l->var[i].n : 40),
                               l->var[i].name);
    return plim__fail(l->err, PLIM_E_SYNTAX, "unknown %s '%.*s' (known: %s)", what, shown, name, known);
}

bool plim__dtype_find(const char *name, uint32_t n, plim_dtype *out)
{
    char buf[16];
    if (n >= sizeof buf || n == 0) return false;
    memcpy(buf, name, n);
    buf[n] = 0;
    return plim_dtype_parse(out, buf, NULL) == PLIM_OK;
}

/* ------------------------------------------------------------------------------------------- binding */

/* One parameter as it stands in a row's `params`: "axis=None". */
typedef struct param {
    const char *name, *fallback; /* not ended by NUL; fallback NULL: the argument must be given */
    uint32_t name_n, fallback_n;
} param;

static uint32_t split_params(const plim__function *fn, param p[PLIM__MAX_PARAMS])
{
    uint32_t n = 0;
    for (const char *s = fn->params; *s && n < PLIM__MAX_PARAMS; n++) {
        const size_t len = strcspn(s, ",");
        const char *equal = memchr(s, '=', len);
        p[n] = (param){.name = s, .name_n = (uint32_t)(equal ? (size_t)(equal - s) : len)};
        if (equal) {
            p[n].fallback = equal + 1;
            p[n].fallback_n = (uint32_t)(len - p[n].name_n - 1);
        }
        s += len;
        s += strspn(s, ", ");
    }
    return n;
}

static uint32_t find_param(const param *p, uint32_t n, const char *name, uint32_t len)
{
    static const struct { const char *other, *name; } synonyms[] = {
        {"correction", "ddof"}, {"a", "x"}, {"array", "x"}, {"a_min", "min"}, {"a_max", "max"}, {"newshape", "shape"}, {"fill_value", "value"},
        {"axis", "axes"}, {"x1", "x"}, {"x2", "y"}, {"N", "n"}, {"M", "m"},
    };
    for (uint32_t k = 0; k < n; k++)
        if (p[k].name_n == len && !memcmp(p[k].name, name, len)) return k;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strlen(synonyms[i].other) == len && !memcmp(synonyms[i].other, name, len))
            for (uint32_t k = 0; k < n; k++)
                if (strlen(synonyms[i].name) == p[k].name_n && !memcmp(synonyms[i].name, p[k].name, p[k].name_n)) return k;
    return n;
}

/* A default is an expression of the language; strings must point into the row, which stays, and not into the copy. */
static plim_status bind_default(plim__lower *l, const param *p, plim__item *out)
{
    char text[40];
    snprintf(text, sizeof text, "%.*s", (int)p->fallback_n, p->fallback);
    PLIM_TRY(plim__lower_text(l, text, l->n_vars, out));
    if (out->kind == PLIM__ITEM_STRING) out->text = p->fallback + (out->text - text);
    return PLIM_OK;
}

static plim_status bind_positional(plim__lower *l, const plim__function *fn, const plim__item *self, uint32_t *node, uint32_t n_params,
                                   plim__args *a)
{
    uint32_t given = self != NULL, k = 0;
    plim__item seq, x;
    for (uint32_t c = *node; c != PLIM__AST_NONE && l->ast->node[c].kind != PLIM__AST_KEYWORD; c = l->ast->node[c].next) given++;
    PLIM_TRY(plim__seq_new(l, given, &seq));
    if (self) plim__seq_set(l, &seq, k++, self);
    for (; k < given; k++, *node = l->ast->node[*node].next) {
        PLIM_TRY(plim__lower_node(l, *node, &x));
        plim__seq_set(l, &seq, k, &x);
    }
    if (given > 2 && (fn->flags & PLIM__FUNCTION_VARIADIC)) {
        a->arg[0] = plim__seq_at(l, &seq, 0);
        PLIM_TRY(plim__seq_new(l, given - 1, &a->arg[1]));
        for (k = 1; k < given; k++) {
            x = plim__seq_at(l, &seq, k);
            plim__seq_set(l, &a->arg[1], k - 1, &x);
        }
        a->n = 2;
        return PLIM_OK;
    }
    PLIM_FAIL_IF(given > n_params, l->err, PLIM_E_INVALID, "%s takes (%s): there are %u arguments", fn->name, fn->params, given);
    for (k = 0; k < given; k++) a->arg[k] = plim__seq_at(l, &seq, k);
    a->n = given;
    return PLIM_OK;
}

static plim_status bind(plim__lower *l, const plim__function *fn, const plim__item *self, uint32_t node, plim__args *a)
{
    param p[PLIM__MAX_PARAMS];
    bool given[PLIM__MAX_PARAMS] = {false};
    const uint32_t n = split_params(fn, p);
    *a = (plim__args){.fn = fn};
    PLIM_TRY(bind_positional(l, fn, self, &node, n, a));
    for (uint32_t k = 0; k < a->n; k++) given[k] = true;
    for (; node != PLIM__AST_NONE; node = l->ast->node[node].next) {
        const plim__ast_node *keyword = &l->ast->node[node];
        const char *name = l->ast->text + keyword->at;
        const uint32_t k = find_param(p, n, name, keyword->n);
        if (k == n)
            return plim__fail_column(l->err, PLIM_E_INVALID, keyword->at, "%s has no parameter '%.*s': it takes (%s)", fn->name,
                                     (int)(keyword->n < 40 ? keyword->n : 40), name, fn->params);
        if (given[k]) return plim__fail_column(l->err, PLIM_E_INVALID, keyword->at, "%s: '%.*s' is given twice", fn->name, (int)p[k].name_n,
                                               p[k].name);
        PLIM_TRY(plim__lower_node(l, keyword->first, &a->arg[k]));
        given[k] = true;
    }
    for (uint32_t k = 0; k < n; k++) {
        PLIM_FAIL_IF(!given[k] && !p[k].fallback, l->err, PLIM_E_INVALID, "%s: the argument '%.*s' is missing (it takes %s)", fn->name,
                     (int)p[k].name_n,
                     p[k].name, fn->params);
        if (!given[k]) PLIM_TRY(bind_default(l, &p[k], &a->arg[k]));
    }
    a->n = n;
    return PLIM_OK;
}

/* An argument of a body, widened where the row asks for it. In every row x and y are arrays; a number needs no more room. */
static plim_status body_argument(plim__lower *l, const plim__function *fn, const param *p, const plim__item *in, plim__item *out)
{
    *out = *in;
    const bool array = p->name_n == 1 && (p->name[0] == 'x' || p->name[0] == 'y') && !plim__item_is_number(in);
    if (!array || !(fn->flags & PLIM__FUNCTION_WIDE)) return PLIM_OK;
    uint32_t v;
    PLIM_TRY(plim__lower_array(l, in, &v));
    const plim_dtype t = plim__dtype_of_mean(plim__dtype_of(l, v));
    PLIM_TRY(plim__op_cast(l->g, v, plim__dtype_compute(t), &v, l->err));
    *out = plim__item_array(v);
    return PLIM_OK;
}

/* The result of a body in the dtype that the row asks for. @param t  x's own */
static plim_status body_result(plim__lower *l, const plim__function *fn, plim_dtype t, plim__item *out)
{
    const bool rounded = fn->flags & PLIM__FUNCTION_ROUNDED, averaged = fn->flags & PLIM__FUNCTION_AVERAGED;
    if (!(rounded || averaged) || out->kind != PLIM__ITEM_ARRAY) return PLIM_OK;
    return plim__op_cast(l->g, out->id, rounded ? plim__dtype_float_of(t) : plim__dtype_of_mean(t), &out->id, l->err);
}

static plim_status apply_body(plim__lower *l, const plim__args *a, plim__item *out)
{
    param p[PLIM__MAX_PARAMS];
    const uint32_t n = split_params(a->fn, p), scope = l->n_vars;
    const bool converts = a->fn->flags & (PLIM__FUNCTION_ROUNDED | PLIM__FUNCTION_AVERAGED);
    plim_dtype own = PLIM_F64;
    uint32_t x;
    plim_status status = PLIM_OK;
    if (converts && !plim__item_is_number(&a->arg[0])) {
        PLIM_TRY(plim__arg_array(l, a, 0, &x));
        own = plim__dtype_of(l, x);
    }
    for (uint32_t k = 0; k < n && status == PLIM_OK; k++) {
        plim__item arg;
        status = body_argument(l, a->fn, &p[k], &a->arg[k], &arg);
        if (status == PLIM_OK) status = plim__var_add(l, p[k].name, p[k].name_n, &arg);
    }
    if (status == PLIM_OK) status = plim__lower_text(l, a->fn->body, scope, out);
    if (status == PLIM_OK) status = body_result(l, a->fn, own, out);
    l->n_vars = scope;
    return status;
}

static plim_status apply_function(plim__lower *l, const void *ctx, const plim__item *arg, uint32_t n, plim__item *out)
{
    plim__args a = {.fn = ctx, .n = n};
    memcpy(a.arg, arg, n * sizeof *arg);
    return a.fn->body ? apply_body(l, &a, out) : a.fn->lower(l, &a, out);
}

plim_status plim__lower_call(plim__lower *l, const plim__function *fn, const plim__item *self, uint32_t first_arg, plim__item *out)
{
    plim__args a;
    PLIM_TRY(bind(l, fn, self, first_arg, &a));
    PLIM_TRY(plim__lower_room(l));
    return fn->flags & PLIM__FUNCTION_LIST ? apply_function(l, fn, a.arg, a.n, out) : plim__lower_map(l, apply_function, fn, a.arg, a.n, out);
}
