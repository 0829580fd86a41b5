"""The language's functions: for each the oracle, which says what NumPy gives and how far off a right result may be.

FUNCTIONS has one entry per function of docs/language.md; missing() compares the two, so that a new function cannot stay
without an oracle. Arguments arrive as Val, Python numbers, tuples, strings, dtype names; lists of arrays as Python
lists of Val. An oracle raises Reject for what the language refuses or leaves open."""
import inspect
import re
import warnings

import numpy as np

import elementwise as ew
from values import (BYTES, FLOATS, INF, KIND, REP, TINY, Reject, Val, as_val, err_of, f64_of, int_fits, is_number,
                    promote,
                    promote_all, rounded, settle, ulp, weak_kind)

FUNCTIONS = {}
ALIASES = {}
LISTS = {"concat", "stack", "vstack", "hstack",
         "len"}  # take a list as it is; everything else is done to each array of a list
E64 = 2.0**-53


def function(name):
    def add(f):
        FUNCTIONS[name] = f
        return f
    return add


def _elementwise(name):
    arity = ew.ROWS[name][0]
    if name == "clip":
        return lambda x, min=None, max=None: clip_of(x, min, max)
    if arity == 1:
        return lambda x: ew.run(name, x)
    if arity == 2:
        return lambda x, y: ew.run(name, x, y)
    return lambda condition, x, y: ew.run(name, condition, x, y)


def clip_of(x, low, high):
    if low is None and high is None:
        return as_val(x)
    if low is None or high is None:
        return ew.run("minimum" if low is None else "maximum", x, high if low is None else low)
    return ew.run("clip", x, low, high)


for _name in ew.ROWS:
    FUNCTIONS[_name] = _elementwise(_name)

# ---------------------------------------------------------------------------------------------- elementwise, composed


@function("astype")
def astype(x, dtype):
    return ew.astype(x, dtype)


@function("relu")
def relu(x):
    return ew.run("maximum", x, 0)


def steps_dtype(t):
    """What several steps are computed in that give one function: nothing is rounded to 16 bits on the way."""
    return "f32" if t in ("f16", "bf16", "f32") else "f64"


def in_steps(x, f, slack):
    """A function computed in several steps: f in f64, and as many units of the largest term as its steps may lose."""
    x = as_val(x)
    t = ew.float_of(x.t)
    comp = steps_dtype(x.t)
    a, e = f64_of(x), np.where(np.isfinite(err_of(x)), err_of(x), 0)
    with np.errstate(all="ignore"):
        center = f(a)
        ends = [f(a - e), f(a + e)] if x.err is not None else [center]
        own = np.nan_to_num(slack(a, center)) * ulp(1.0, comp) + 2 * ulp(center, comp)
        own = np.where(np.isfinite(center), own, 0)
        low, high = np.minimum(center, ends[0]), np.maximum(center, ends[0])
        for y in ends[1:]:
            low, high = np.minimum(low, y), np.maximum(high, y)
        return settle(center, low - own, high + own, t, x.err)


@function("gelu")
def gelu(x):
    return in_steps(x, lambda a: np.where(np.isneginf(a), np.nan, a * (ew.erf(a * 0.7071067811865476) + 1) * 0.5),
                       lambda a, c: 6 * np.abs(a))


@function("silu")
def silu(x):
    # where the sigmoid is subnormal, its last bit times a is lost
    return in_steps(x, lambda a: a * ew.sigmoid(a), lambda a, c: 6 * np.abs(c) + np.abs(a) * 2.0**-126)


@function("deg2rad")
def deg2rad(x):
    return in_steps(x, lambda a: a * (np.pi / 180), lambda a, c: 2 * np.abs(c))


@function("rad2deg")
def rad2deg(x):
    return in_steps(x, lambda a: a * (180 / np.pi), lambda a, c: 2 * np.abs(c))


@function("isclose")
def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    if is_number(x) and is_number(y):
        raise Reject("numbers")
    arrays = [as_val(v).t for v in (x, y) if not is_number(v)]
    comp = promote_all([steps_dtype(t) for t in arrays])  # which numbers take, too
    x, y = as_val(x), as_val(y)
    a, b = np.broadcast_arrays(f64_of(x), f64_of(y))
    ea, eb = np.broadcast_to(err_of(x), a.shape), np.broadcast_to(err_of(y), a.shape)
    with np.errstate(all="ignore"):
        bound = atol + rtol * np.abs(b)
        d = np.abs(a - b)
        v = ((d <= bound) & np.isfinite(b)) | (a == b)
        both = np.isnan(a) & np.isnan(b)
        v = v | (both & bool(equal_nan))
        eps = 2.0**(1 - FLOATS[comp][0])  # numbers, the difference, and the sum of the bound are rounded
        near = np.abs(d - bound) <= 4 * eps * (np.abs(a) + np.abs(b) + bound) + ea + eb
        near &= (a != b) | (ea > 0) | (eb > 0)
    return Val("bool", v, np.where(near & ~both, INF, 0.0))


@function("nan_to_num")
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = as_val(x)
    if KIND[x.t] != "f":
        return x
    top = largest_of(x.t)
    for what, number in ((np.isposinf, top if posinf is None else posinf),
                         (np.isneginf, -top if neginf is None else neginf), (np.isnan, nan)):
        x = replaced(x, what, float(number))
    return x


def largest_of(t):
    bits, _, top = FLOATS[t]
    return float(np.ldexp(1 - 2.0**-bits, top))


def replaced(x, what, number):
    """`number` where what(x). An element that is not known at all stays so."""
    at = what(x.a)
    err = None if x.err is None else np.where(at & (x.err < INF), 0.0, x.err)
    return Val(x.t, np.where(at, rounded(np.array(number), x.t), x.a), err)


def without_nan(x):
    x = as_val(x)
    return replaced(x, np.isnan, 0.0) if KIND[x.t] == "f" else x


# --------------------------------------------------------------------------------------------------------- reductions

def axes_of(x, axis):
    if axis is None:
        return tuple(range(x.ndim))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if any(not -x.ndim <= k < x.ndim for k in axes):
        raise Reject("axis out of range")
    axes = tuple(k % x.ndim for k in axes)
    if len(set(axes)) != len(axes):
        raise Reject("an axis twice")
    return axes


def count_of(x, axes):
    return int(np.prod([x.shape[k] for k in axes], dtype=np.int64))


def sum_dtype(t):
    return "i64" if KIND[t] in "bi" else "u64" if KIND[t] == "u" else t


def mean_dtype(t):
    return t if KIND[t] == "f" else "f64"


def growth(n):
    """What n additions in blocks may lose, in units of f64's last place: between a tree's logarithm and a line's n."""
    return min(n, 64 + n**0.5) * E64


def grid_exact(magnitude_sum, a):
    """Multiples of 2^-10 whose sums stay below 2^43: every order of adding them gives the same."""
    return bool(np.isfinite(a).all() and (a * 1024 == np.rint(a * 1024)).all() and (magnitude_sum < 2.0**42).all())


def zeros_open(x):
    """Is there a -0.0 in it: then the sign of a zero result is not told."""
    return KIND[x.t] == "f" and bool((np.signbit(x.a) & (x.a == 0)).any())


def float_sum(x, axes, keepdims):
    """(sum in f64, how far off it may be) of values that are added in f64."""
    a = f64_of(x)
    with np.errstate(all="ignore"):
        big = np.sum(np.abs(a), axis=axes, keepdims=keepdims)
        if grid_exact(big, a):
            s, own = np.sum(a, axis=axes, keepdims=keepdims), np.zeros(np.shape(big))
        else:
            s = np.sum(a, axis=axes, keepdims=keepdims, dtype=np.longdouble).astype(np.float64)
            own = np.where(np.isfinite(big), big * growth(max(count_of(x, axes), 1)), 0)
            own = np.where(np.isfinite(s) & ~np.isfinite(big), INF, own)
            own = np.where(np.isinf(s) & np.isfinite(a).all(), INF, own)
        if x.err is not None:
            own = own + np.sum(x.err, axis=axes, keepdims=keepdims)
        if zeros_open(x):
            own = np.where(s == 0, np.maximum(own, TINY), own)
    return np.asarray(s), np.asarray(own)


def around(center, own, t):
    """The value of dtype t for a result in f64 that may be off by `own`."""
    if not np.any(own):
        return Val(t, rounded(center, t))
    own = np.where(np.isnan(center) & (own < INF), 0, own)
    return settle(center, center - np.where(np.isfinite(own), own, 0), center + np.where(np.isfinite(own), own, 0), t,
                  np.where(own == INF, INF, 0.0))


def int_reduce(f, x, axes, keepdims, t):
    wide = np.dtype("u8" if KIND[x.t] == "u" else "i8")
    v = f(x.a.astype(wide), axis=axes, keepdims=keepdims, dtype=wide)
    err = None if x.err is None else np.where(np.max(x.err, axis=axes, keepdims=keepdims, initial=0) > 0, INF, 0.0)
    return v, err


def cast_floats(x, t):
    return ew.astype(x, t) if KIND[x.t] == "f" and KIND[t] != "f" else x


@function("sum")
def sum_(x, axis=None, dtype=None, keepdims=False):
    x = as_val(x)
    axes = axes_of(x, axis)
    t = dtype or sum_dtype(x.t)
    if t == "bool":
        raise Reject("sum in bool")
    x = cast_floats(x, t)
    if KIND[t] == "f":
        return around(*float_sum(x, axes, keepdims), t)
    v, err = int_reduce(np.sum, x, axes, keepdims, t)
    return Val(t, v.astype(REP[t]), err)


@function("prod")
def prod(x, axis=None, dtype=None, keepdims=False):
    x = as_val(x)
    axes = axes_of(x, axis)
    t = dtype or sum_dtype(x.t)
    if t == "bool":
        raise Reject("prod in bool")
    x = cast_floats(x, t)
    if KIND[t] != "f":
        v, err = int_reduce(np.prod, x, axes, keepdims, t)
        return Val(t, v.astype(REP[t]), err)
    with np.errstate(all="ignore"):
        return around(*float_prod(f64_of(x), err_of(x), lambda y: np.prod(y, axis=axes, keepdims=keepdims),
                                  count_of(x, axes)), t)


def float_prod(a, e, fold, n):
    p = fold(a)
    up, down = fold(np.maximum(np.abs(a), 1)), fold(np.where(a == 0, 1, np.minimum(np.abs(a), 1)))
    zero = fold(np.where(a == 0, 0.0, 1.0)) == 0
    # no order of multiplying overflows or underflows on the way, or every one does: the products only grow or shrink
    safe = (up < 1e300) & (down > 1e-300) | (down == 1) & ~zero & ((up < 1e300) | np.isinf(p)) | (up == 1)
    whole = bool((a == np.rint(a)).all())
    own = np.where(whole & (up < 2.0**53), 0, n * 2 * E64 * np.abs(p))
    own = np.where(np.isinf(p), 0, np.where(down > 1e-300, own, own + 1e-300))
    own = np.where(safe | np.isnan(p) & np.isnan(a).any(), own, INF)
    if e.any():
        off = np.abs(fold(np.abs(a) + e) - np.abs(p))
        own = own + np.where(np.isnan(off) & (own != INF), 0 if np.isnan(a).any() else INF, np.nan_to_num(off, posinf=INF))
    zero_sign = (p == 0) & (own < TINY)
    return np.asarray(p), np.where(zero_sign, TINY, own)


@function("mean")
def mean(x, axis=None, dtype=None, keepdims=False):
    x = as_val(x)
    axes = axes_of(x, axis)
    t = dtype or mean_dtype(x.t)
    if KIND[t] != "f":
        raise Reject("mean in integers")
    n = count_of(x, axes)
    s, own = float_sum(x, axes, keepdims)
    with np.errstate(all="ignore"):
        m = s / n
        off = np.where(own > TINY, own / max(n, 1) + 2 * E64 * np.abs(m), own)
    return around(m, off, t)


def variance(x, axis, ddof, keepdims):
    axes = axes_of(x, axis)
    a, n = f64_of(x), count_of(x, axes)
    with np.errstate(all="ignore"):
        m = np.sum(a, axis=axes, keepdims=True, dtype=np.longdouble) / n
        d = np.abs(a - m).astype(np.float64)
        e = err_of(x)
        s = np.asarray(np.sum(d * d, axis=axes, keepdims=keepdims, dtype=np.longdouble), np.float64)
        biggest = np.max(np.abs(a), axis=axes, keepdims=keepdims, initial=0)
        own = s * (8 * growth(max(n, 1)) + 4 * E64) + n * (16 * E64 * biggest)**2
        own = own + np.sum(d, axis=axes, keepdims=keepdims) * 4 * E64 * biggest  # of a running mean, each difference has its own
        mean_err = np.sum(e, axis=axes, keepdims=True) / max(n, 1) + e
        own = own + np.sum(2 * d * mean_err + mean_err**2, axis=axes, keepdims=keepdims)
        own = np.where(np.isfinite(s), own, 0)
        own = np.where(np.isinf(s) | (biggest > 1e150) & (biggest < INF), INF, own)
        divisor = max(n - ddof, 0)
        open_ = (e == INF).any(axis=axes, keepdims=keepdims)
        return s / divisor, np.where(open_, INF, np.where(np.isnan(s / divisor), 0, own / divisor))


@function("var")
def var(x, axis=None, ddof=0, keepdims=False):
    x = as_val(x)
    v, own = variance(x, axis, ddof, keepdims)
    return around(v, own, mean_dtype(x.t))


@function("std")
def std(x, axis=None, ddof=0, keepdims=False):
    x = as_val(x)
    v, own = variance(x, axis, ddof, keepdims)
    with np.errstate(all="ignore"):
        s = np.sqrt(v)
        far = np.where(own == INF, INF, np.maximum(np.sqrt(v + own) - s, s - np.sqrt(np.maximum(v - own, 0)))
                       + 2 * E64 * s)
    return around(s, np.where(np.isnan(s) & (own != INF), 0, far), mean_dtype(x.t))


def extreme(x, axis, keepdims, largest):
    x = as_val(x)
    axes = axes_of(x, axis)
    if count_of(x, axes) == 0:
        raise Reject("of no elements")
    f = np.max if largest else np.min
    with np.errstate(all="ignore"):
        v = f(x.a, axis=axes, keepdims=keepdims)
        err = None
        if x.err is not None and KIND[x.t] == "f":
            a, e = f64_of(x), x.err
            lo, hi = f(a - np.where(e == INF, 0, e), axis=axes, keepdims=keepdims), f(a + np.where(e == INF, 0, e),
                                                                                      axis=axes, keepdims=keepdims)
            w = np.asarray(v, np.float64)
            err = np.maximum(np.where(lo == w, 0, np.abs(lo - w)), np.where(hi == w, 0, np.abs(hi - w)))
            err = np.where(np.isnan(w), 0, err)
            err = np.where((e == INF).any(axis=axes, keepdims=keepdims), INF, err)
        elif x.err is not None:
            err = np.where((x.err > 0).any(axis=axes, keepdims=keepdims), INF, 0.0)
        if zeros_open(x):
            err = np.maximum(np.zeros(np.shape(v)) if err is None else err, np.where(np.asarray(v) == 0, TINY, 0.0))
    return Val(x.t, v, err)


@function("min")
def min_(x, axis=None, keepdims=False):
    return extreme(x, axis, keepdims, False)


@function("max")
def max_(x, axis=None, keepdims=False):
    return extreme(x, axis, keepdims, True)


@function("ptp")
def ptp(x, axis=None, keepdims=False):
    return ew.run("subtract", max_(x, axis, keepdims), min_(x, axis, keepdims))


def truth(x, axis, keepdims, f):
    x = as_val(x)
    axes = axes_of(x, axis)
    y = ew.run("not_equal", x, 0) if x.t != "bool" else x
    v = f(y.a, axis=axes, keepdims=keepdims)
    if y.err is None:
        return Val("bool", v)
    one, other = f(np.where(y.err > 0, True, y.a), axis=axes, keepdims=keepdims), f(np.where(y.err > 0, False, y.a),
                                                                                    axis=axes, keepdims=keepdims)
    return Val("bool", v, np.where(one != other, INF, 0.0))


@function("any")
def any_(x, axis=None, keepdims=False):
    return truth(x, axis, keepdims, np.any)


@function("all")
def all_(x, axis=None, keepdims=False):
    return truth(x, axis, keepdims, np.all)


@function("allclose")
def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    return all_(isclose(x, y, rtol, atol, equal_nan))


def arg_extreme(x, axis, keepdims, largest):
    x = as_val(x)
    if axis is not None and not isinstance(axis, int):
        raise Reject("one axis")
    axes = axes_of(x, axis)
    if count_of(x, axes) == 0:
        raise Reject("of no elements")
    f = np.argmax if largest else np.argmin
    v = f(x.a, axis=None if axis is None else axes[0], keepdims=keepdims)
    if x.err is None or x.ndim == 0:
        return Val("i64", v)
    a = f64_of(x) if KIND[x.t] == "f" else np.where(x.err > 0, 0, x.a).astype(np.float64)
    flat = a.reshape(-1) if axis is None else np.moveaxis(a, axes[0], -1)
    e = (x.err.reshape(-1) if axis is None else np.moveaxis(x.err, axes[0], -1))
    at = np.expand_dims(f(flat, axis=-1), -1)
    sign = 1 if largest else -1
    with np.errstate(all="ignore"):
        best = np.take_along_axis(flat, at, -1) * sign - np.take_along_axis(e, at, -1)
        rest = flat * sign + e
        np.put_along_axis(rest, at, -INF, -1)
        exact = (np.take_along_axis(e, at, -1) == 0) & (e == 0).all(axis=-1, keepdims=True)
        sure = ((best > np.max(rest, axis=-1, keepdims=True, initial=-INF)) | exact)[..., 0]
    sure = sure & ~np.isnan(flat).any(axis=-1)
    return Val("i64", v, np.where(sure, 0.0, INF).reshape(np.shape(v)))


@function("argmin")
def argmin(x, axis=None, keepdims=False):
    return arg_extreme(x, axis, keepdims, False)


@function("argmax")
def argmax(x, axis=None, keepdims=False):
    return arg_extreme(x, axis, keepdims, True)


@function("count_nonzero")
def count_nonzero(x, axis=None, keepdims=False):
    return sum_(ew.run("not_equal", x, 0), axis, None, keepdims)


@function("norm")
def norm(x, ord=2, axis=None, keepdims=False):
    x = as_val(x)
    axes = axes_of(x, axis)
    t, n = mean_dtype(x.t), count_of(x, axes)
    a, e = np.abs(f64_of(x)), err_of(x)
    if n == 0 and np.isinf(ord):
        raise Reject("of no elements")

    def fold(y):
        if ord == 0:
            return np.sum(y != 0, axis=axes, keepdims=keepdims).astype(np.float64)
        if np.isinf(ord):
            return (np.max if ord > 0 else np.min)(y, axis=axes, keepdims=keepdims)
        if ord == 1:
            return np.sum(y, axis=axes, keepdims=keepdims, dtype=np.longdouble).astype(np.float64)
        return np.sum(y**ord, axis=axes, keepdims=keepdims, dtype=np.longdouble).astype(np.float64)**(1.0 / ord)
    with np.errstate(all="ignore"):
        v = np.asarray(fold(a), np.float64)
        own = np.zeros(v.shape)
        if ord not in (0,) and not np.isinf(ord):
            own = np.where(np.isfinite(v), v * (2 * growth(max(n, 1)) + 64 * E64), 0)
            if ord == 1 and grid_exact(v, a):
                own = np.zeros(v.shape)
            tops = np.max(a, axis=axes, keepdims=keepdims, initial=0)
            lows = np.min(np.where(a > 0, a, 1), axis=axes, keepdims=keepdims, initial=1)
            power = abs(float(ord))
            own = np.where((tops < INF) & (tops**power > 1e290) | (lows**power < 1e-290), INF, own)
            if ord < 0:
                own = np.where((lows**power < 1e-290) | (tops**power > 1e290), INF, own)
        if e.any():
            lo, hi = fold(np.maximum(a - np.where(e == INF, 0, e), 0)), fold(a + np.where(e == INF, 0, e))
            own = own + np.where(lo == v, 0, np.abs(lo - v)) + np.where(hi == v, 0, np.abs(hi - v))
            own = np.where((e == INF).any(axis=axes, keepdims=keepdims), INF, own)
        own = np.where(np.isnan(v), 0, own)
    return around(v, own, t)


@function("nansum")
def nansum(x, axis=None, keepdims=False):
    return sum_(without_nan(x), axis, None, keepdims)


@function("nanmean")
def nanmean(x, axis=None, keepdims=False):
    x = as_val(x)
    if KIND[x.t] != "f":
        return mean(x, axis, None, keepdims)
    axes = axes_of(x, axis)
    s, own = float_sum(without_nan(x), axes, keepdims)
    n = np.sum(~np.isnan(x.a), axis=axes, keepdims=keepdims).astype(np.float64)
    with np.errstate(all="ignore"):
        m = s / n
        off = np.where(own > TINY, own / np.maximum(n, 1) + 2 * E64 * np.abs(m), own)
    return around(m, off, x.t)


@function("quantile")
def quantile(x, q, axis=None, keepdims=False):
    return quantiles(x, q, axis, keepdims, 1)


@function("percentile")
def percentile(x, q, axis=None, keepdims=False):
    return quantiles(x, q, axis, keepdims, 100)


@function("median")
def median(x, axis=None, keepdims=False):
    return quantiles(x, 0.5, axis, keepdims, 1)


def quantiles(x, q, axis, keepdims, unit):
    x = as_val(x)
    axes = axes_of(x, axis)
    if count_of(x, axes) == 0:
        raise Reject("of no elements")
    if not axes:
        raise Reject("no axes")
    points = np.asarray(q, np.float64) / unit
    if not ((points >= 0) & (points <= 1)).all() or points.size == 0:
        raise Reject("q")
    t = mean_dtype(x.t)
    a = np.moveaxis(f64_of(x) if x.t not in ("i64", "u64") else x.a.astype(np.longdouble), axes, range(-len(axes), 0))
    e = np.moveaxis(err_of(x), axes, range(-len(axes), 0))
    kept = a.shape[:a.ndim - len(axes)]
    a, e = np.sort(a.reshape(kept + (-1,)), axis=-1), e.reshape(kept + (-1,))
    n = a.shape[-1]
    with np.errstate(all="ignore"):
        rank = points * (n - 1)
        low = np.floor(rank).astype(np.int64)
        part = rank - low
        lo, hi = np.take(a, low, axis=-1), np.take(a, np.minimum(low + 1, n - 1), axis=-1)
        v = np.where(part == 0, lo, lo + (hi - lo) * part)
        scale = np.maximum(np.abs(lo), np.abs(hi)).astype(np.float64)
        own = np.where((lo == hi) | (part == 0), 0, 8 * E64 * scale + 8 * E64 * n * np.abs(hi - lo).astype(np.float64))
        near = (np.abs(rank - np.rint(rank)) < 1e-9) & (rank != np.rint(rank))
        own = np.where(np.isinf(lo) | np.isinf(hi), np.where((part == 0) & np.isinf(lo), 0, INF), own)
        own = own + np.where(near, 1e-9 * scale, 0)
        own = own.astype(np.float64) + np.max(e, axis=-1).reshape(kept + (1,) * points.ndim)
        nan = np.isnan(a).any(axis=-1).reshape(kept + (1,) * points.ndim)
        v = np.where(nan, np.nan, v).astype(np.float64)
        own = np.where(nan, 0, own)
    if points.ndim:
        v, own = np.moveaxis(v, -1, 0), np.moveaxis(own, -1, 0)
    if keepdims:
        shape = points.shape + tuple(1 if k in axes else s for k, s in enumerate(x.shape))
        v, own = v.reshape(shape), own.reshape(shape)
    return around(v, own, t)


def histogram_range(x, range):
    if range is not None:
        lo, hi = float(range[0]), float(range[1])
    elif x.size == 0:
        lo, hi = 0.0, 1.0
    else:
        lo, hi = float(x.a.min()), float(x.a.max())
    if lo == hi:
        lo, hi = lo - 0.5, hi + 0.5
    return lo, hi, bool(lo < hi and np.isfinite(hi - lo))


def edges_of(x, bins, range):
    """The edges in f64, and as the elements are compared with them: in x's own precision."""
    lo, hi, good = histogram_range(x, range)
    if not good:
        raise Reject("range")
    v = np.linspace(lo, hi, bins + 1)
    return v, rounded(v, mean_dtype(x.t)).astype(np.float64)


@function("histogram")
def histogram(x, bins=10, range=None):
    x = as_val(x)
    if range is None and not histogram_range(x, range)[2]:  # what is not finite counts nothing
        return Val("i64", np.zeros(bins, np.int64), None if x.err is None else np.full(bins, INF))
    edges = edges_of(x, bins, range)[1]
    if not (np.diff(edges) > 0).all():
        raise Reject("x's dtype cannot tell the edges apart")
    a = f64_of(x).reshape(-1)
    a = a[(a >= edges[0]) & (a <= edges[-1])]
    at = np.minimum(np.searchsorted(edges, a, side="right") - 1, bins - 1)
    v = np.bincount(at, minlength=bins)
    return Val("i64", v, None if x.err is None else np.full(v.shape, INF))


@function("histogram_edges")
def histogram_edges(x, bins=10, range=None):
    x = as_val(x)
    v = edges_of(x, bins, range)[0]
    e = 0.0 if x.err is None or range is not None else float(x.err.max())
    return around(v, np.full(v.shape, 4 * E64 * np.max(np.abs(v)) + e), mean_dtype(x.t))


@function("logsumexp")
def logsumexp(x, axis=None, keepdims=False):
    x = as_val(x)
    axes = axes_of(x, axis)
    if count_of(x, axes) == 0:
        raise Reject("of no elements")
    a = f64_of(x)
    with np.errstate(all="ignore"):
        top = np.max(a, axis=axes, keepdims=True)
        shift = np.where(np.isfinite(top), top, 0)
        _, total, lost = exponentials(x, a - shift, axes)
        v = np.log(total) + shift
        half = 2.0**-FLOATS[steps_dtype(x.t)][0]
        # a relative error of the sum is an absolute one of its logarithm; the logarithm's own, and the last addition's
        own = lost + half * (2 * ew.ULPS * np.abs(v - shift) + 2 * np.abs(v) + 1)
        own = np.where(np.isfinite(v), own + np.max(err_of(x), axis=axes, keepdims=True), 0)
        if not keepdims:
            v, own = np.squeeze(v, axis=axes), np.squeeze(own, axis=axes)
    return around(v, own, mean_dtype(x.t))


def exponentials(x, d, axes):
    """exp(d), where d is x less a shift; the sum of them along the axes; and the relative error that the sum may have."""
    half = 2.0**-FLOATS[steps_dtype(x.t)][0]
    ex = np.exp(d)
    total = np.sum(ex, axis=axes, keepdims=True, dtype=np.longdouble).astype(np.float64)
    # d is rounded, which multiplies exp(d) by 1 + |d| half; exp is off by its units in the last place; the sum is added
    # in f64 and rounded; and what is computed here is off by as much as the best that can be had
    shifted = np.sum(np.where(ex > 0, ex * np.abs(d), 0), axis=axes, keepdims=True) / total
    return ex, total, half * (shifted + 2 * ew.ULPS + 4) + growth(max(count_of(x, axes), 1))


@function("softmax")
def softmax(x, axis=-1):
    x = as_val(x)
    axes = axes_of(x, axis)
    if count_of(x, axes) == 0 or x.size == 0:
        raise Reject("of no elements")
    a = f64_of(x)
    comp = steps_dtype(x.t)
    half = 2.0**-FLOATS[comp][0]
    with np.errstate(all="ignore"):
        d = a - np.max(a, axis=axes, keepdims=True)
        ex, total, lost = exponentials(x, d, axes)
        v = ex / total
        wide = np.where(np.isfinite(d), np.abs(d), 0)
        own = v * (lost + half * (wide + 2 * ew.ULPS + 2))
        off = 2 * np.max(err_of(x), axis=axes, keepdims=True)
        # of what is off by much, exp(d + off) is the most that can come out: the total is 1 or more, and d no more than 0
        own = own + np.where(off < 1, v * np.expm1(np.minimum(off, 1)), v + np.exp(np.minimum(d + off, 0)))
        own = own + 2.0**(FLOATS[comp][1] + 2)  # exp(d) may be less than the smallest normal number
    return around(v, np.where(np.isfinite(v), own, 0), mean_dtype(x.t))


@function("unique_count")
def unique_count(x):
    x = as_val(x)
    n = len(np.unique(x.a))
    return Val("i64", n, None if x.err is None else INF)


# ------------------------------------------------------------------------------------------------------------ running

def cumulative(x, axis, dtype, product):
    x = as_val(x)
    t = dtype or sum_dtype(x.t)
    if t == "bool":
        raise Reject("in bool")
    x = cast_floats(x, t)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = one_axis(x, axis)
    if KIND[t] != "f":
        wide = np.dtype("u8" if KIND[x.t] == "u" else "i8")
        v = (np.cumprod if product else np.cumsum)(x.a, axis=axis, dtype=wide).astype(REP[t])
        err = None if x.err is None else np.where(np.maximum.accumulate(x.err, axis=axis) > 0, INF, 0.0)
        return Val(t, v, err)
    a, e = f64_of(x), err_of(x)
    n = x.shape[axis]
    with np.errstate(all="ignore"):
        if product:
            v, own = float_prod(a, e, lambda y: np.cumprod(y, axis=axis), n) if x.size else (a, np.zeros(a.shape))
            return around(v, own, t)
        big = np.cumsum(np.abs(a), axis=axis)
        v = np.cumsum(a, axis=axis)
        own = np.cumsum(e, axis=axis) if e.any() else np.zeros(a.shape)
        if not grid_exact(big, a):
            v = np.cumsum(a.astype(np.longdouble), axis=axis).astype(np.float64)
            # each addition is rounded, and where few values repeat every one of them the same way
            lost = E64 * (np.cumsum(big, axis=axis) + 2 * big)
            own = own + np.where(np.isfinite(big), lost, np.where(np.isfinite(v), INF, 0))
            own = np.where(np.isinf(v) & np.isfinite(a).all(), INF, own)
        if zeros_open(x):
            own = np.where(v == 0, np.maximum(own, TINY), own)
    return around(v, own, t)


@function("cumsum")
def cumsum(x, axis=None, dtype=None):
    return cumulative(x, axis, dtype, False)


@function("cumprod")
def cumprod(x, axis=None, dtype=None):
    return cumulative(x, axis, dtype, True)


@function("diff")
def diff(x, n=1, axis=-1):
    x = as_val(x)
    axis = one_axis(x, axis)
    if not 0 <= n <= 64:
        raise Reject("n")
    for _ in range(n):
        if x.shape[axis] == 0:
            break
        a = [slice(None)] * x.ndim
        b = list(a)
        a[axis], b[axis] = slice(1, None), slice(None, -1)
        x = ew.run("not_equal" if x.t == "bool" else "subtract", index(x, a), index(x, b))
    return x


# -------------------------------------------------------------------------------------------------------------- shape

def one_axis(x, axis, extra=0):
    if not isinstance(axis, int) or not -x.ndim - extra <= axis < x.ndim + extra:
        raise Reject("axis out of range")
    return axis % (x.ndim + extra)


def moved(x, f):
    """The same movement for the values and for what is known about them."""
    return Val(x.t, f(x.a), None if x.err is None else f(np.asarray(x.err)))


def index(x, subs):
    """x[subs], where subs is a list of integers, slices, None, Ellipsis, and one list of positions."""
    lists = [s for s in subs if isinstance(s, list)]
    if len(lists) > 1 or (lists and any(isinstance(s, int) and not isinstance(s, bool) for s in subs)):
        raise Reject("mixed subscripts")
    with warnings.catch_warnings():  # NumPy warns of a position outside of an array where nothing is picked
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return moved(x, lambda a: a[tuple(subs)])
        except DeprecationWarning as why:
            raise Reject(str(why)) from why


def checked(f):
    """NumPy's refusals are the language's."""
    def g(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except (ValueError, IndexError, np.AxisError, OverflowError, TypeError) as why:
            raise Reject(str(why)) from why
    g.__signature__ = inspect.signature(f)
    return g


@function("transpose")
def transpose(x, axes=None):
    return moved(as_val(x), lambda a: np.transpose(a, axes))


@function("moveaxis")
def moveaxis(x, source, destination):
    return moved(as_val(x), lambda a: np.moveaxis(a, source, destination))


@function("swapaxes")
def swapaxes(x, axis1, axis2):
    return moved(as_val(x), lambda a: np.swapaxes(a, axis1, axis2))


@function("reshape")
def reshape(x, shape):
    x = as_val(x)
    if x.size == 0 and -1 in (shape if isinstance(shape, tuple) else (shape,)):
        raise Reject("-1 of no elements")
    return moved(x, lambda a: np.reshape(a, shape))


@function("ravel")
def ravel(x):
    return moved(as_val(x), lambda a: a.reshape(-1))


@function("squeeze")
def squeeze(x, axis=None):
    return moved(as_val(x), lambda a: np.squeeze(a, axis))


@function("expand_dims")
def expand_dims(x, axis):
    return moved(as_val(x), lambda a: np.expand_dims(a, axis))


@function("broadcast_to")
def broadcast_to(x, shape):
    return moved(as_val(x), lambda a: np.broadcast_to(a, shape))


def joined(arrays, how):
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise Reject("a list")
    vals = [as_val(x) for x in arrays]
    t = promote_all([x.t for x in vals])
    vals = [ew.astype(x, t) for x in vals]
    err = how([err_of(x) for x in vals]) if any(x.err is not None for x in vals) else None
    return Val(t, how([x.a for x in vals]), err)


@function("concat")
def concat(arrays, axis=0):
    return joined(arrays, lambda xs: np.concatenate(xs, axis))


@function("stack")
def stack(arrays, axis=0):
    return joined(arrays, lambda xs: np.stack(xs, axis))


@function("vstack")
def vstack(arrays):
    return joined(arrays, np.vstack)


@function("hstack")
def hstack(arrays):
    return joined(arrays, np.hstack)


@function("flip")
def flip(x, axis=None):
    return moved(as_val(x), lambda a: np.flip(a, axis))


@function("roll")
def roll(x, shift, axis=None):
    return moved(as_val(x), lambda a: np.roll(a, shift, axis))


@function("tile")
def tile(x, reps):
    return moved(as_val(x), lambda a: np.tile(a, reps))


@function("repeat")
def repeat(x, repeats, axis=None):
    return moved(as_val(x), lambda a: np.repeat(a, repeats, axis))


def border(n, before, after, mode):
    """The positions that a padded dimension reads, -1 where a constant stands."""
    at = np.arange(-before, n + after)
    if mode == "constant":
        return np.where((at < 0) | (at >= n), -1, at)
    if n == 0:
        raise Reject("nothing to repeat")
    if mode == "edge":
        return np.clip(at, 0, n - 1)
    if mode == "wrap":
        return at % n
    if mode == "symmetric":
        at = at % (2 * n)
        return np.where(at >= n, 2 * n - 1 - at, at)
    if n == 1:
        return np.zeros_like(at)
    at = at % (2 * n - 2)
    return np.where(at >= n, 2 * n - 2 - at, at)


def padded(a, widths, mode, fill):
    for d, (before, after) in enumerate(widths):
        if before or after:
            at = border(a.shape[d], before, after, mode)
            if a.shape[d] == 0:
                shape = list(a.shape)
                shape[d] = len(at)
                a = np.full(shape, fill, a.dtype)
                continue
            out = np.take(a, np.maximum(at, 0), axis=d)
            if (at < 0).any():
                gap = [slice(None)] * a.ndim
                gap[d] = at < 0
                out[tuple(gap)] = fill
            a = out
    return a


def pad_widths(pad_width, ndim):
    w = pad_width
    if isinstance(w, int):
        return [(w, w)] * ndim
    if not isinstance(w[0], (tuple, list)):
        return [(w[0], w[-1])] * ndim
    pairs = [(p[0], p[-1]) for p in w]
    if len(pairs) not in (1, ndim):
        raise Reject("widths")
    return pairs * ndim if len(pairs) == 1 else pairs


@function("pad")
def pad(x, pad_width, mode="constant", constant_values=0):
    x = as_val(x)
    widths = pad_widths(pad_width, x.ndim)
    if any(b < 0 or a < 0 for b, a in widths):
        raise Reject("negative")
    if mode == "constant" and isinstance(constant_values, int) and not int_fits(constant_values, x.t):
        raise Reject("does not fit")
    if mode == "constant" and isinstance(constant_values, float) and KIND[x.t] != "f":
        raise Reject("a float among integers")
    fill = rounded(np.array(constant_values), x.t)
    return Val(x.t, padded(x.a, widths, mode, fill),
               None if x.err is None else padded(np.asarray(x.err), widths, mode, 0.0))


@function("take")
def take(x, indices, axis=None):
    if not isinstance(indices, (int, list, tuple)):
        raise Reject("positions")
    return moved(as_val(x), lambda a: np.take(a, indices, axis))


@function("split")
def split(x, size, axis=0):
    x = as_val(x)
    axis = one_axis(x, axis)
    if size < 1 or x.shape[axis] == 0 or -(-x.shape[axis] // size) > 4096:
        raise Reject("pieces")
    cuts = range(0, x.shape[axis], size)
    return [index(x, [slice(None)] * axis + [slice(k, k + size)]) for k in cuts]


@function("len")
def len_(x):
    if isinstance(x, (list, tuple)):
        return len(x)
    x = as_val(x)
    if x.ndim == 0:
        raise Reject("a scalar")
    return x.shape[0]


# -------------------------------------------------------------------------------------------------------------- order

def order_of(a, descending):
    """Stable positions along the last axis, NaN last; descending first."""
    if not descending:
        return np.argsort(a, axis=-1, kind="stable")
    first = np.argsort(a[..., ::-1], axis=-1, kind="stable")
    return (a.shape[-1] - 1 - first)[..., ::-1]


def ordered(x, axis, descending):
    """(values, positions) in order along the axis."""
    x = as_val(x)
    if axis is None:
        x, axis = reshape(x, (-1,)) if x.size else Val(x.t, x.a.reshape(-1)), 0
    axis = one_axis(x, axis)
    a = np.moveaxis(x.a, axis, -1)
    e = None if x.err is None else np.moveaxis(np.asarray(x.err), axis, -1)
    at = order_of(a, descending)
    v = np.take_along_axis(a, at, -1)
    verr = perr = None
    if e is not None and x.size:
        es = np.take_along_axis(e, at, -1)
        verr = np.broadcast_to(np.max(e, axis=-1, keepdims=True), a.shape)
        with np.errstate(all="ignore"):
            w = v.astype(np.float64)
            gap = np.abs(np.diff(w, axis=-1))
            reach = es[..., 1:] + es[..., :-1]
            clash = ~(gap > reach) & (reach > 0)
        vague = np.zeros(a.shape, bool)
        vague[..., 1:] |= clash
        vague[..., :-1] |= clash
        # an element in the middle of the order may be off by more than its neighbours show
        vague |= (es == INF).any(axis=-1, keepdims=True)
        perr = np.where(vague, INF, 0.0)
        if vague.any():  # one error larger than several gaps moves more than two positions
            wide = (2 * np.max(e, axis=-1) > np.min(np.where(gap > 0, gap, INF), axis=-1, initial=INF))
            perr = np.where(wide[..., None], INF, perr)
    back = lambda y: None if y is None else np.moveaxis(y, -1, axis)  # noqa: E731
    return Val(x.t, back(v), back(verr)), Val("i64", back(at), back(perr))


@function("sort")
def sort(x, axis=-1, descending=False, stable=True):
    return ordered(x, axis, descending)[0]


@function("argsort")
def argsort(x, axis=-1, descending=False, stable=True):
    return ordered(x, axis, descending)[1]


def best(x, k, axis, largest):
    x = as_val(x)
    axis = one_axis(x, axis)
    if not 1 <= k <= x.shape[axis]:
        raise Reject("k")
    values, positions = ordered(x, axis, bool(largest))
    cut = [slice(None)] * axis + [slice(0, k)]
    return index(values, cut), index(positions, cut)


@function("topk")
def topk(x, k, axis=-1, largest=True):
    values, positions = best(x, k, axis, largest)
    values.second = positions
    return values


@function("argtopk")
def argtopk(x, k, axis=-1, largest=True):
    return best(x, k, axis, largest)[1]


@function("unique")
def unique(x, size=None, max=None):
    x = as_val(x)
    if x.size == 0:
        raise Reject("of no elements")
    if x.err is not None:
        raise Reject("rounding decides the number")
    u = np.unique(x.a)
    err = np.where(u == 0, TINY, 0.0) if zeros_open(x) else None
    if size is None:
        if len(u) > (65536 if max is None else max):
            raise Reject("too many")
        return Val(x.t, u, err, Val("i64", len(u)), final=True)
    if len(u) > size or size > 131072:
        raise Reject("too many")
    fill = size - len(u)
    v = np.concatenate([u, np.full(fill, u[-1], u.dtype)])
    return Val(x.t, v, None if err is None else np.concatenate([err, np.full(fill, err[-1])]), Val("i64", len(u)))


# ----------------------------------------------------------------------------------------------- products and windows

def product(x, y, mul, n):
    """A sum of n products: mul(a, b) multiplies arrays of one dtype."""
    t = promote(x.t, y.t)
    if t == "bool":
        v = mul(x.a, y.a)
        err = None
        if x.err is not None or y.err is not None:
            err = np.where(mul((err_of(x) > 0) | x.a, (err_of(y) > 0) | y.a) != mul(x.a & (err_of(x) == 0),
                                                                                    y.a & (err_of(y) == 0)), INF, 0.0)
        return Val(t, v, err)
    if KIND[t] != "f":
        wide = np.dtype("u8" if KIND[t] == "u" else "i8")
        v = mul(x.a.astype(wide), y.a.astype(wide)).astype(REP[t])
        err = None
        if x.err is not None or y.err is not None:
            err = np.where(mul((err_of(x) > 0).astype(np.float64), np.ones(y.shape))
                           + mul(np.ones(x.shape), (err_of(y) > 0).astype(np.float64)) > 0,
                           INF, 0.0)
        return Val(t, v, err)
    comp = "f64" if t == "f64" else "f32"
    a, b = f64_of(x), f64_of(y)
    with np.errstate(all="ignore"):
        v = mul(a, b)
        big = mul(np.abs(a), np.abs(b))
        p = FLOATS[comp][0]
        whole = bool((a == np.rint(a)).all()) and bool((b == np.rint(b)).all())
        lost = min(n, 256 + n / 256)  # terms are added up in line, up to 256 of them: equal ones round alike
        here = n * 2.0**-53  # NumPy adds up its own in f64, in line
        own = np.where(whole & (big < 2.0**p), 0, ((lost + 2) * 2.0**-p + here) * big + FLOOR[comp])
        if x.err is not None or y.err is not None:
            ea, eb = err_of(x), err_of(y)
            extra = mul(np.where(np.isfinite(ea), ea, 0), np.abs(b)) + mul(np.abs(a) + np.where(np.isfinite(ea), ea, 0),
                                                                           np.where(np.isfinite(eb), eb, 0))
            lost = mul((ea == INF).astype(np.float64), np.ones(y.shape)) + mul(np.ones(x.shape),
                                                                               (eb == INF).astype(np.float64)) > 0
            own = np.where(lost, INF, own + extra)
        own = np.where(np.isfinite(v), own, 0)
        limit = np.ldexp(1.0, FLOATS[comp][2] - 1)
        own = np.where(np.isfinite(big) & (big >= limit / 4), INF, own)  # may overflow on the way
        own = np.where(~np.isfinite(big) & np.isinf(v), INF, own)
        if np.signbit(a).any() or np.signbit(b).any():
            own = np.where((v == 0) & (own == 0), TINY, own)  # the sign of a zero depends on the order of adding
    return around(np.asarray(v), np.asarray(own), t)


FLOOR = {"f32": 2.0**-148, "f64": 2.0**-1073}


def matmul_shapes(x, y):
    if x.ndim == 0 or y.ndim == 0:
        raise Reject("scalars")
    return x.shape[-1]


@function("matmul")
def matmul(x, y):
    if is_number(x) or is_number(y):
        raise Reject("numbers")
    x, y = as_val(x), as_val(y)
    n = matmul_shapes(x, y)
    return product(x, y, np.matmul, max(n, 1))


@function("dot")
def dot(x, y):
    if is_number(x) or is_number(y):
        return ew.run("multiply", x, y)
    x, y = as_val(x), as_val(y)
    if x.ndim == 0 or y.ndim == 0:
        return ew.run("multiply", x, y)
    if y.ndim > 2:
        raise Reject("dot of many dimensions")
    return matmul(x, y)


@function("outer")
def outer(x, y):
    x, y = as_val(x), as_val(y)
    if x.size == 0 or y.size == 0:
        raise Reject("empty")
    return ew.run("multiply", moved(x, lambda a: a.reshape(-1, 1)), moved(y, lambda a: a.reshape(1, -1)))


@function("vecdot")
def vecdot(x, y, axis=-1):
    x, y = as_val(x), as_val(y)
    shape = np.broadcast_shapes(x.shape, y.shape)
    if not shape:
        raise Reject("scalars")
    x, y = moved(x, lambda a: np.broadcast_to(a, shape)), moved(y, lambda a: np.broadcast_to(a, shape))
    k = one_axis(x, axis)
    t = promote(x.t, y.t)
    if KIND[t] == "f":  # multiplied and added in f64, rounded once
        wide = Val("f64", f64_of(x), x.err), Val("f64", f64_of(y), y.err)
        p = product(*wide, lambda a, b: np.sum(a * b, axis=k, dtype=np.longdouble).astype(np.float64), max(shape[k], 1))
        own = np.where(np.isfinite(err_of(p)), err_of(p), 0)
        return p if t == "f64" else settle(p.a, p.a - own, p.a + own, t, err_of(p))
    if t == "bool":
        return product(x, y, lambda a, b: np.any((a != 0) & (b != 0), axis=k), shape[k])
    return product(x, y, lambda a, b: np.sum(a * b, axis=k), max(shape[k], 1))


@function("tensordot")
def tensordot(x, y, axes=2):
    x, y = as_val(x), as_val(y)
    if isinstance(axes, int):
        n = int(np.prod(x.shape[x.ndim - axes:], dtype=np.int64)) if axes else 1
    else:
        axes = tuple((a,) if isinstance(a, int) else tuple(a) for a in axes)
        n = int(np.prod([x.shape[k] for k in axes[0]], dtype=np.int64))
    if x.size == 0 or y.size == 0:
        raise Reject("empty")
    return product(x, y, lambda a, b: np.tensordot(a, b, axes), max(n, 1))


EDGES = ("constant", "edge", "reflect", "symmetric", "valid")


def windowed(a, sizes, edge, each):
    """Sums each(shifted array, offset) over a window around each element; the element stands at size // 2."""
    if edge == "valid":
        if any(s > n for s, n in zip(sizes, a.shape)):
            raise Reject("a window larger than the array")
        shape = [n - s + 1 for n, s in zip(a.shape, sizes)]
    else:
        widths = [(s // 2, s - 1 - s // 2) for s in sizes]
        if edge in ("reflect", "symmetric", "edge") and 0 in a.shape:
            raise Reject("empty")
        for (b, c), n in zip(widths, a.shape):
            if edge == "reflect" and max(b, c) > n - 1 or edge == "symmetric" and max(b, c) > n:
                raise Reject("a window larger than the array")
        shape = list(a.shape)
        a = padded(a, widths, edge, 0)
    total = None
    for at in np.ndindex(*sizes):
        part = each(a[tuple(slice(k, k + n) for k, n in zip(at, shape))], at)
        total = part if total is None else total + part
    return total


@function("box")
def box(x, size, axes=None, edge="edge"):
    x = as_val(x)
    ax = axes_of(x, axes)
    given = (size,) if isinstance(size, int) else tuple(size)
    if len(given) not in (1, len(ax)) or min(given, default=1) < 1:
        raise Reject("sizes")
    sizes = [1] * x.ndim
    for k, d in enumerate(ax):
        sizes[d] = given[0] if len(given) == 1 else given[k]
    n = int(np.prod(sizes))
    t = mean_dtype(x.t)
    comp = "f64" if t == "f64" else "f32"
    with np.errstate(all="ignore"):
        a = f64_of(x)
        wide = a.astype(np.longdouble) if comp == "f64" else a
        v = (windowed(wide, sizes, edge, lambda p, at: p) / n).astype(np.float64)
        big = windowed(np.abs(a), sizes, edge, lambda p, at: p) / n
        # one axis after the other: as many additions as they have neighbours; the quotient; what is computed here
        own = (sum(s - 1 for s in sizes) + 3) * 2.0**-FLOATS[comp][0] * big
        if x.err is not None:
            own = own + windowed(np.asarray(x.err), sizes, edge, lambda p, at: p) / n
        own = np.where(np.isfinite(v), own, 0)
        own = np.where(np.isfinite(big) & (big * n > (1e38 if comp == "f32" else 1e307)), INF, own)
    if not any(s > 1 for s in sizes):
        own = err_of(x)
    return around(v, own, t)


def convolved(x, w, edge):
    sizes = [1] * (x.ndim - w.ndim) + list(w.shape)
    n = max(w.size, 1)
    flipped = moved(w, lambda a: a[(slice(None, None, -1),) * w.ndim])

    def mul(a, b):
        both = np.dtype(bool) if a.dtype == b.dtype == bool else None
        f = (lambda p, at: p & b[at[x.ndim - w.ndim:]]) if both else (lambda p, at: p * b[at[x.ndim - w.ndim:]])
        return windowed(a, sizes, edge, f)
    return product(x, flipped, mul, n)


@function("conv")
def conv(x, w, edge="constant"):
    x, w = as_val(x), as_val(w)
    if w.ndim > x.ndim or w.ndim == 0 or w.size == 0 or x.size == 0:
        raise Reject("sizes")
    return convolved(x, w, edge)


@function("convolve")
def convolve(x, w, mode="full"):
    x, w = as_val(x), as_val(w)
    if x.ndim != 1 or w.ndim != 1 or 0 in (x.size, w.size):
        raise Reject("sizes")
    if w.size > x.size:
        x, w = w, x
    n = w.size
    before, after = {"full": (n - 1, n - 1), "same": (n // 2, (n - 1) // 2), "valid": (0, 0)}[mode]
    r = convolved(pad(x, ((before, after),)), w, "valid")
    if KIND[w.t] == "f" and not np.isfinite(w.a).all():  # the zeros of the padding times these are no numbers: leave them open
        at = np.arange(r.size)
        edge = np.where((at < before) | (at >= r.size - after), INF, 0.0)
        r = Val(r.t, r.a, edge if r.err is None else np.maximum(r.err, edge))
    return r


# --------------------------------------------------------------------------------------------------------- new arrays

def shape_of(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def filled(shape, value, t):
    if isinstance(value, float) and KIND[t] != "f":
        if not abs(value) < 2**31:
            raise Reject("a float that no integer holds")
    elif not isinstance(value, float) and not int_fits(value, t):
        raise Reject("does not fit")
    return Val(t, np.full(shape_of(shape), rounded(np.array(value), t)))


@function("zeros")
def zeros(shape, dtype="f64"):
    return filled(shape, 0, dtype)


@function("ones")
def ones(shape, dtype="f64"):
    return filled(shape, 1, dtype)


@function("full")
def full(shape, value, dtype=None):
    return filled(shape, value, dtype or {"b": "bool", "i": "i64", "f": "f64"}[weak_kind(value)])


@function("zeros_like")
def zeros_like(x, dtype=None):
    x = as_val(x)
    return filled(x.shape, 0, dtype or x.t)


@function("ones_like")
def ones_like(x, dtype=None):
    x = as_val(x)
    return filled(x.shape, 1, dtype or x.t)


@function("full_like")
def full_like(x, value, dtype=None):
    x = as_val(x)
    return filled(x.shape, value, dtype or x.t)


@function("arange")
def arange(start, stop=None, step=1, dtype=None):
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise Reject("step")
    whole = not any(isinstance(v, float) for v in (start, stop, step))
    n = max(0, int(np.ceil((stop - start) / step)))
    a = start + step * np.arange(n, dtype=np.int64 if whole else np.float64)
    t = dtype or ("i64" if whole else "f64")
    if n * BYTES[t] > 1 << 20:
        raise Reject("more than 1 MiB")
    return Val(t, rounded(a, t), None if whole or KIND[t] != "f" else 2 * ulp(a, t))


@function("linspace")
def linspace(start, stop, num=50, endpoint=True, dtype="f64"):
    if num < 0 or num * BYTES[dtype] > 1 << 20:
        raise Reject("more than 1 MiB")
    a = np.linspace(start, stop, num, endpoint=endpoint)
    if KIND[dtype] != "f":
        near = np.abs(a - np.rint(a)) < 1e-9
        return Val(dtype, rounded(a, dtype), np.where(near & (a != np.rint(a)) | near & (num > 2), INF, 0.0))
    return Val(dtype, rounded(a, dtype), 2 * ulp(np.maximum(np.abs(a), abs(start)), dtype))


@function("eye")
def eye(n, m=None, k=0, dtype="f64"):
    if n < 0 or (n if m is None else m) < 0 or n * (n if m is None else m) * BYTES[dtype] > 1 << 20:
        raise Reject("more than 1 MiB")
    return Val(dtype, rounded(np.eye(n, m, k), dtype))


@function("asarray")
def asarray(values, dtype=None):
    x = as_val(values)
    return ew.astype(x, dtype) if dtype else x


for _name in list(FUNCTIONS):
    FUNCTIONS[_name] = checked(FUNCTIONS[_name])

# -------------------------------------------------------------------------------------------------- the documentation


def documented(path):
    """(functions with their parameters, aliases) as docs/language.md has them."""
    functions, aliases = {}, {}
    section = None
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n## Functions\n", 1)[1].splitlines()
    for line in lines:
        if line.startswith("### "):
            section = line[4:]
        elif line.startswith("## "):
            break
        row = re.match(r"\| `(\w+)\(([^`]*)\)` \|", line)
        alias = re.match(r"\| `(\w+)` \| `(\w+)` \|", line)
        if row:
            functions[row.group(1)] = [p.split("=")[0].strip() for p in split_params(row.group(2))]
        elif alias and section == "Other names":
            aliases[alias.group(1)] = alias.group(2)
    return functions, aliases


def split_params(text):
    return [p for p in re.split(r",\s*", text) if p]


def missing(path):
    """What the documentation has and this file lacks, has with other parameters, or has too much."""
    functions, aliases = documented(path)
    wrong = []
    for name, params in functions.items():
        if name not in FUNCTIONS:
            wrong.append(f"{name}({', '.join(params)}) has no oracle in tests/random_programs/language.py")
            continue
        own = list(inspect.signature(FUNCTIONS[name]).parameters)
        if own != params:
            wrong.append(f"{name}: the oracle takes ({', '.join(own)}), the language ({', '.join(params)})")
    wrong += [f"{name}: not in docs/language.md" for name in FUNCTIONS if name not in functions]
    wrong += [f"{alias}: an alias of {name}, which is unknown" for alias,
              name in aliases.items() if name not in FUNCTIONS]
    if len(functions) < 100:
        wrong.append(f"docs/language.md: only {len(functions)} functions found in its tables")
    ALIASES.update({a: n for a, n in aliases.items() if n in FUNCTIONS})
    return wrong
