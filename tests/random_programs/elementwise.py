"""The oracle of the elementwise functions: NumPy's dtype rules with NEP 50's weak numbers, and NumPy's values.

ROWS has a line per function: its arity; its class, which is the dtype rule; the function itself; the units in the last
place that it may be off (0: it must be the correctly rounded result). Functions with ulps are computed in f64, the
others in the dtype that the language computes in."""
import itertools
import math

import numpy as np

from values import (BYTES, INF, KIND, REP, TINY, Reject, Val, as_val, float_of, int_fits, is_number, promote,
                    promote_all, promote_weak, rounded, settle, strong, ulp, weak_kind)

ULPS = 5  # of functions that have no correctly rounded result
_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x):
    return np.asarray(_erf(np.asarray(x, np.float64)), np.float64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_zero(f):
    """Integers divided by 0 give 0."""
    def g(a, b):
        if a.dtype.kind == "f":
            return f(a, b)
        zero, one = a.dtype.type(0), a.dtype.type(1)  # a Python number would turn a single u64 into f64
        return np.where(b == 0, zero, f(a, np.where(b == 0, one, b))).astype(a.dtype)
    return g


remainder = by_zero(np.remainder)
floor_divide = by_zero(np.floor_divide)


def power(a, b):
    if a.dtype.kind in "iu" and (b < 0).any():
        raise Reject("integers to negative powers")
    return np.power(a, b)


def sign(a):
    return np.where(np.isnan(a), a, np.sign(a)) if a.dtype.kind == "f" else np.sign(a)


def clip(x, lo, hi):
    return np.minimum(np.maximum(x, lo), hi)


def where(c, x, y):
    return np.where(c != 0, x, y)


ARITH, INTS, FLOAT, ROUND, COMPARE, LOGIC, TEST = "arith ints float round compare logic test".split()
ROWS = {
    "copy": (1, ARITH, lambda x: x.copy(), 0),
    "add": (2, ARITH, np.add, 0),
    "subtract": (2, ARITH, np.subtract, 0),
    "multiply": (2, ARITH, np.multiply, 0),
    "divide": (2, FLOAT, np.divide, 0),
    "floor_divide": (2, ARITH, floor_divide, 0),
    "remainder": (2, ARITH, remainder, 0),
    "pow": (2, ARITH, power, ULPS),
    "negative": (1, ARITH, np.negative, 0),
    "abs": (1, ARITH, np.abs, 0),
    "sign": (1, ARITH, sign, 0),
    "square": (1, ARITH, np.square, 0),
    "minimum": (2, ARITH, np.minimum, 0),
    "maximum": (2, ARITH, np.maximum, 0),
    "where": (3, ARITH, where, 0),
    "clip": (3, ARITH, clip, 0),
    "bitwise_and": (2, INTS, np.bitwise_and, 0),
    "bitwise_or": (2, INTS, np.bitwise_or, 0),
    "bitwise_xor": (2, INTS, np.bitwise_xor, 0),
    "bitwise_invert": (1, INTS, np.invert, 0),
    "bitwise_left_shift": (2, INTS, np.left_shift, 0),
    "bitwise_right_shift": (2, INTS, np.right_shift, 0),
    "floor": (1, ROUND, np.floor, 0),
    "ceil": (1, ROUND, np.ceil, 0),
    "trunc": (1, ROUND, np.trunc, 0),
    "round": (1, ROUND, np.rint, 0),
    "rint": (1, FLOAT, np.rint, 0),
    "fabs": (1, FLOAT, np.abs, 0),
    "reciprocal": (1, FLOAT, lambda x: 1 / x, 0),
    "sqrt": (1, FLOAT, np.sqrt, 0),
    "cbrt": (1, FLOAT, np.cbrt, ULPS),
    "exp": (1, FLOAT, np.exp, ULPS),
    "exp2": (1, FLOAT, np.exp2, ULPS),
    "expm1": (1, FLOAT, np.expm1, ULPS),
    "log": (1, FLOAT, np.log, ULPS),
    "log2": (1, FLOAT, np.log2, ULPS),
    "log10": (1, FLOAT, np.log10, ULPS),
    "log1p": (1, FLOAT, np.log1p, ULPS),
    "sin": (1, FLOAT, np.sin, ULPS),
    "cos": (1, FLOAT, np.cos, ULPS),
    "tan": (1, FLOAT, np.tan, ULPS),
    "asin": (1, FLOAT, np.arcsin, ULPS),
    "acos": (1, FLOAT, np.arccos, ULPS),
    "atan": (1, FLOAT, np.arctan, ULPS),
    "sinh": (1, FLOAT, np.sinh, ULPS),
    "cosh": (1, FLOAT, np.cosh, ULPS),
    "tanh": (1, FLOAT, np.tanh, ULPS),
    "asinh": (1, FLOAT, np.arcsinh, ULPS),
    "acosh": (1, FLOAT, np.arccosh, ULPS),
    "atanh": (1, FLOAT, np.arctanh, ULPS),
    "atan2": (2, FLOAT, np.arctan2, ULPS),
    "hypot": (2, FLOAT, np.hypot, ULPS),
    "copysign": (2, FLOAT, np.copysign, 0),
    "nextafter": (2, FLOAT, np.nextafter, 0),
    "logaddexp": (2, FLOAT, np.logaddexp, ULPS),
    "erf": (1, FLOAT, erf, ULPS),
    "sigmoid": (1, FLOAT, sigmoid, ULPS),
    "equal": (2, COMPARE, np.equal, 0),
    "not_equal": (2, COMPARE, np.not_equal, 0),
    "less": (2, COMPARE, np.less, 0),
    "less_equal": (2, COMPARE, np.less_equal, 0),
    "greater": (2, COMPARE, np.greater, 0),
    "greater_equal": (2, COMPARE, np.greater_equal, 0),
    "logical_and": (2, LOGIC, np.logical_and, 0),
    "logical_or": (2, LOGIC, np.logical_or, 0),
    "logical_xor": (2, LOGIC, np.logical_xor, 0),
    "logical_not": (1, LOGIC, np.logical_not, 0),
    "isnan": (1, TEST, np.isnan, 0),
    "isinf": (1, TEST, np.isinf, 0),
    "isfinite": (1, TEST, np.isfinite, 0),
    "signbit": (1, TEST, np.signbit, 0),
}
BOOL_AS_I8 = {"floor_divide", "remainder", "pow", "square", "bitwise_left_shift", "bitwise_right_shift"}
# How far an argument may be off before the ends of its interval say nothing about what lies between them.
WILD = {"sin": 0.5, "cos": 0.5, "tan": 0.05}


def high_bits(x):
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.int32).reshape(x.shape)


def next_narrow(x, y, t):
    """nextafter among the 16-bit floats: one step of the sign-magnitude number that its bits are."""
    if t == "f16":
        return np.nextafter(x.astype(np.float16), y.astype(np.float16)).astype(np.float32)
    x, y = np.broadcast_arrays(x, y)
    bits, same = (high_bits(v) for v in (x, y))
    away = (y > x) == (x > 0)
    step = np.where(x == 0, np.where(y > 0, 1, 0x8001), np.where(away, bits + 1, bits - 1))
    step = np.where(x == y, same, step)
    out = (step.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), out)


def dtype_rule(fn, t):
    """(dtype to compute in as NumPy has it, dtype of the result) for arguments that promote to t."""
    cls = ROWS[fn][1]
    real = KIND[t] == "f"
    if cls == INTS and real:
        raise Reject("integers only")
    if cls in (COMPARE, LOGIC):
        return compute_of(t), "bool"
    if cls == TEST:
        return compute_of(t) if real else np.dtype("f8"), "bool"
    if cls == FLOAT:
        out = "f64" if fn == "divide" and not real else float_of(t)
        return np.dtype("f8" if out == "f64" else "f4"), out
    if t == "bool":
        if fn in ("subtract", "negative", "sign"):
            raise Reject("not defined for bool")
        if fn in BOOL_AS_I8:
            return np.dtype("i1"), "i8"
    return compute_of(t), t


def compute_of(t):
    return np.dtype("f4") if t in ("f16", "bf16", "f32") else REP[t]


def run(fn, *args):
    """One function of ROWS on values, numbers and lists of numbers."""
    arity, cls, f, ulps = ROWS[fn]
    args = [x if is_number(x) else as_val(x) for x in args]
    if all(is_number(x) for x in args):
        raise Reject("numbers alone are folded")
    first = 1 if fn == "where" else 0
    typed = args[first:]
    arrays = [x.t for x in typed if isinstance(x, Val)]
    weak = [weak_kind(x) for x in typed if is_number(x)]
    t = promote_all(arrays) if arrays else strong(max((x for x in typed), key=lambda x: "bif".index(weak_kind(x))))
    if arrays:
        for k in weak:
            t = promote_weak(t, k)
    if cls == FLOAT and fn != "divide" and not weak and KIND[t] != "f":
        t = promote_all([float_of(a) for a in arrays])  # each operand goes to its own float
    misfit = [x for x in typed if is_number(x) and not isinstance(x, float) and not int_fits(x, t) and cls != FLOAT]
    if misfit:
        if cls != COMPARE:
            raise Reject("the integer does not fit")
        t = promote(t, "i64")
    if fn == "pow" and isinstance(args[1], (int, float)) and isinstance(args[0], Val) and t != "bool":
        e = float(args[1])
        if e == 2:
            return run_unary_as("square", args[0], t)
        if KIND[t] == "f" and e in (0.5, -1.0):
            return run_unary_as("sqrt" if e == 0.5 else "reciprocal", args[0], t)
    return apply(fn, t, args, first)


def run_unary_as(fn, x, t):
    return apply(fn, t, [x], 0)


def apply(fn, t, args, first):
    arity, cls, f, ulps = ROWS[fn]
    comp, out = dtype_rule(fn, t)
    if KIND[t] != "f" and fn == "pow":
        ulps = 0
    ins, errs = [], []
    for k, x in enumerate(args):
        if is_number(x):
            own = "bool" if k < first else out if cls == FLOAT else t
            x = Val(own, rounded(np.array(x), own))
        errs.append(x.err)
        ins.append(x.a if k < first else x.a.astype(comp))
    if fn == "nextafter" and out in ("f16", "bf16"):
        f = lambda a, b: next_narrow(a, b, out)  # noqa: E731
    if fn in ("bitwise_left_shift", "bitwise_right_shift"):
        y = ins[1]
        if (y < 0).any() or (y >= 8 * BYTES[out]).any():
            raise Reject("a shift outside of the dtype")
    if comp.kind == "b" and fn in ("floor", "ceil", "trunc", "round"):
        return Val(out, ins[0], errs[0])
    if comp.kind in "iu" and cls == ROUND:
        return Val(out, ins[0], errs[0])
    with np.errstate(all="ignore"):
        if fn in ("signbit", "copysign") and comp.kind == "f":  # the sign of a NaN is not told
            errs[-1] = np.where(np.isnan(ins[-1]), INF, 0.0 if errs[-1] is None else errs[-1])
            errs[-1] = errs[-1] if errs[-1].any() else None
        return _bounded(fn, f, ulps, ins, errs, comp, out)


def _bounded(fn, f, ulps, ins, errs, comp, out):
    shape = np.broadcast_shapes(*(x.shape for x in ins))
    if ulps and comp.kind == "f":
        ins = [x.astype(np.float64) for x in ins]
    center = np.asarray(f(*ins))
    if comp.kind == "f" and center.dtype.kind == "f" and not ulps:
        center = center.astype(comp)
    exact_in = all(e is None for e in errs)
    if exact_in and not ulps:
        return Val(out, rounded(np.broadcast_to(center, shape), out))
    if center.dtype.kind != "f" or comp.kind != "f":  # integers and truth values: known or not
        vague = np.zeros(shape, bool)
        if comp.kind != "f":
            for e in errs:
                if e is not None:
                    vague = vague | (e > 0)
        else:
            vague, _, _ = _corners(fn, f, ins, errs, center, shape, comp)
        return Val(out, rounded(np.broadcast_to(center, shape), out), np.where(vague, INF, 0.0))
    low = high = center.astype(np.float64)
    vague = np.zeros(shape, bool)
    if not exact_in:
        vague, low, high = _corners(fn, f, ins, errs, center, shape, comp)
    if ulps:
        own = ulps * ulp(center, "f64" if comp == np.float64 else "f32")
        if fn == "logaddexp":
            own = own + 4 * FLOATS_EPS[comp] * np.maximum(np.abs(ins[0]), np.abs(ins[1]))
        own = np.where(np.isfinite(center) & (center != 0) | (fn == "pow"), own, 0)
        own = np.where(np.isfinite(own), own, 0)
        if fn in ("sin", "cos", "tan", "log", "log2", "log10"):
            own = np.where(center == 0, 0, own)
        low, high = low - own, high + own
    return settle(np.broadcast_to(center, shape), np.broadcast_to(low, shape), np.broadcast_to(high, shape), out,
                  np.where(vague, INF, 0.0) if vague.any() else None)


FLOATS_EPS = {np.dtype("f4"): 2.0**-23, np.dtype("f8"): 2.0**-52}


def _corners(fn, f, ins, errs, center, shape, comp):
    """The least and the largest value at the ends of the arguments' intervals; where they say nothing, `vague`."""
    low = high = center.astype(np.float64)
    vague = np.zeros(shape, bool)
    # an interval that reaches 0 holds both zeros: functions with a pole or a jump there tell them apart
    near = [e is not None and x.dtype.kind == "f" and bool(((np.abs(x) <= e) & (e > 0)).any())
            for x, e in zip(ins, errs)]
    signs = [(0,) if e is None else (-1, 1, "-0", "+0") if zero else (-1, 1) for e, zero in zip(errs, near)]
    for e, x in zip(errs, ins):
        if e is not None:
            vague = vague | (e == INF)
            if fn in WILD:
                vague = vague | (e > WILD[fn])
            if fn == "tan":  # a pole lies between the ends
                vague = vague | (np.floor((x - e) / np.pi + 0.5) != np.floor((x + e) / np.pi + 0.5))
            if x.dtype.kind != "f":  # a condition, or an integer among floats
                vague = vague | (e > 0)
    if fn in ("remainder", "floor_divide"):
        e = np.maximum(*(np.zeros(()) if e is None else e for e in errs)) if len(errs) == 2 else errs[0]
        a, b = (x.astype(np.float64) for x in ins)
        vague = vague | (e > np.abs(b) / 8)
        effect, rest = 2 * e * (np.abs(a / b) + 1), np.remainder(a, b)  # near 0 and near b it may be the other one
        vague = vague | (np.minimum(np.abs(rest), np.abs(b - rest)) <= effect) & (effect > 0)
    if fn in ("equal", "not_equal"):  # between the ends they may be the same
        e = sum(np.zeros(()) if e is None else np.where(np.isfinite(e), e, 0) for e in errs)
        a, b = (x.astype(np.float64) for x in ins)
        vague = vague | (np.abs(a - b) <= e) & (e > 0)
    for pick in itertools.product(*signs):
        moved = []
        for s, x, e in zip(pick, ins, errs):
            if s == 0 or x.dtype.kind != "f":
                moved.append(x)
                continue
            wide = x.astype(np.float64)
            if isinstance(s, str):
                y = np.where((np.abs(wide) <= e) & (e > 0), float(s), wide)
            else:
                y = wide + s * np.where(np.isfinite(e) & (e > TINY), e, 0)
            moved.append(y.astype(x.dtype))
        r = np.asarray(f(*moved)).astype(np.float64)
        c = center.astype(np.float64)
        vague = vague | (np.isnan(r) != np.isnan(c))
        if center.dtype.kind != "f":
            vague = vague | (r != c)
        low, high = np.fmin(low, r), np.fmax(high, r)
    low = np.where(np.isnan(center.astype(np.float64)), np.nan, low)
    high = np.where(np.isnan(center.astype(np.float64)), np.nan, high)
    return vague, low, high


def astype(x, t):
    x = as_val(x)
    if x.t == t:
        return x
    v = rounded(x.a, t)
    err = None
    if KIND[x.t] == "f" and KIND[t] in "ui":
        a = x.a.astype(np.float64)
        # NumPy's own answer depends on the processor beyond this: the language says no more than "too large ones wrap"
        limit = 2.0**63 if t in ("i64", "u32", "u64") else 2.0**31
        open_ = ~(np.abs(a) < limit)
        err = np.where(open_, INF, 0.0)
        if x.err is not None:
            same = (rounded(a - x.err, t) == v) & (rounded(a + x.err, t) == v)
            err = np.where(same & (x.err < INF), err, INF)
    elif x.err is not None and t == "bool":
        a = x.a.astype(np.float64)
        err = np.where((np.abs(a) > x.err) | (x.err == 0), 0.0, INF) if KIND[x.t] == "f" else x.err
    elif x.err is not None and KIND[t] == "f":
        if KIND[x.t] != "f":
            err = x.err
        else:
            a = x.a.astype(np.float64)
            e = np.where(np.isfinite(x.err), x.err, 0)
            return settle(x.a, np.where(np.isnan(a), np.nan, a - e), np.where(np.isnan(a), np.nan, a + e), t, x.err)
    elif x.err is not None:
        err = x.err
    return Val(t, v, err)
