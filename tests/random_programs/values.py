"""Values of the oracle: an array, its dtype, and how far a right result may lie from it.

A Val has `t`, one of the language's dtypes; `a`, a NumPy array (bf16 as float32 numbers that bf16 has); and `err`: None
where the result must be exactly `a`, otherwise an array of the same shape, |result - a| <= err. An err of infinity
means that nothing can be said about the element: a rounding error upstream decides it, or the language leaves it open.
Such elements are not compared, and are counted."""
import numpy as np

DTYPES = "bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64".split()
REP = {t: np.dtype(n) for t, n in zip(DTYPES, "? u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f4 f8".split())}
KIND = {t: "b" if t == "bool" else "f" if t in ("f16", "bf16", "f32", "f64") else t[0] for t in DTYPES}
BYTES = {t: 2 if t == "bf16" else REP[t].itemsize for t in DTYPES}
ORDER = "buif"
# bits of precision, exponent of the smallest subnormal, exponent above the largest number
FLOATS = {"f16": (11, -24, 16), "bf16": (8, -133, 128), "f32": (24, -149, 128), "f64": (53, -1074, 1024)}
INF = np.inf
TINY = 5e-324  # an error that only says: the sign of this zero is open


class Reject(Exception):
    """The language does not take this call, or says nothing about it: the generator tries something else."""


class Val:
    __slots__ = ("t", "a", "err", "second", "final")

    def __init__(self, t, a, err=None, second=None, final=False):
        self.t = t
        self.a = a if isinstance(a, np.ndarray) and a.dtype == REP[t] else np.asarray(a, REP[t])
        if err is not None:
            err = np.where(np.isnan(err), INF, err)
            if KIND[t] != "f":
                err = np.where(err > 0, INF, 0.0)
            err = np.broadcast_to(err, self.a.shape) if err.any() else None
        self.err = err
        self.second = second  # topk and unique have two results
        self.final = final    # unique without a size: nothing can be computed from it

    @property
    def shape(self):
        return self.a.shape

    @property
    def ndim(self):
        return self.a.ndim

    @property
    def size(self):
        return self.a.size


def promote(a, b):
    if a == b:
        return a
    if (ORDER.index(KIND[a]), BYTES[a]) < (ORDER.index(KIND[b]), BYTES[b]):
        a, b = b, a
    if KIND[b] == "b":
        return a
    if KIND[a] == "f":
        if KIND[b] != "f":
            b = float_of(b)
            if b == "f16":
                return a
        return "f32" if BYTES[a] == BYTES[b] == 2 and a != b else a if BYTES[a] >= BYTES[b] else b
    return REPNAME[np.promote_types(REP[a], REP[b])]


REPNAME = {REP[t]: t for t in DTYPES if t != "bf16"}


def promote_all(ts):
    out = ts[0]
    for t in ts[1:]:
        out = promote(out, t)
    return out


def weak_kind(x):
    return "b" if isinstance(x, (bool, np.bool_)) else "i" if isinstance(x, int) else "f"


def promote_weak(t, k):
    """NEP 50: a Python number follows the array; only its kind can raise the dtype."""
    if k == "b" or KIND[t] == "f":
        return t
    if k == "f":
        return "f64"
    return "i64" if t == "bool" else t


def strong(x):
    return {"b": "bool", "i": "i64", "f": "f64"}[weak_kind(x)]


def float_of(t):
    return t if KIND[t] == "f" else "f16" if BYTES[t] == 1 else "f32" if BYTES[t] == 2 else "f64"


def int_fits(i, t):
    if KIND[t] == "f":
        return True
    if t == "bool":
        return i in (0, 1)
    return np.iinfo(REP[t]).min <= i <= np.iinfo(REP[t]).max


def is_number(x):
    return isinstance(x, (bool, int, float))


def _bf16_from_f32(a):
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    up = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    out = np.where(np.isnan(a), np.uint32(0x7FC00000), up & np.uint32(0xFFFF0000))
    return out.astype(np.uint32).view(np.float32).reshape(np.shape(a))


def _odd_f32(a):
    """f64 as f32 rounded to odd: rounding that again to fewer bits is rounding once."""
    y = np.asarray(a).astype(np.float32)
    back = y.astype(np.float64)
    inexact = (back != a) & ~np.isnan(a)
    bits = np.ascontiguousarray(y).view(np.int32).reshape(np.shape(a))
    bits = np.where(inexact & (np.abs(back) > np.abs(a)), bits - 1, bits)
    bits = np.where(inexact, bits | 1, bits)
    return bits.astype(np.int32).view(np.float32).reshape(np.shape(a))


def rounded(a, t):
    """Numbers as dtype t holds them, rounded to nearest even; floats to integers are cut off and wrap."""
    a = np.asarray(a)
    if t == "bf16":
        if a.dtype == np.float32:
            return _bf16_from_f32(a)
        if a.dtype.kind in "iub":
            a = a.astype(np.float64) if a.dtype.itemsize < 8 else np.asarray(a, np.longdouble).astype(np.float64)
        return _bf16_from_f32(_odd_f32(a.astype(np.float64)))
    if KIND[t] == "f":
        if a.dtype == np.longdouble:
            a = a.astype(np.float64)
        return a.astype(REP[t])
    if t == "bool":
        return a != 0
    if a.dtype.kind == "f":
        whole = np.trunc(a.astype(np.float64))
        big = whole >= 2.0**63
        whole = np.where(np.isfinite(whole) & (whole >= -2.0**63), np.where(big, whole - 2.0**63, whole), 0)
        whole = np.where(whole >= 2.0**63, 0, whole).astype(np.int64)
        return (whole ^ np.where(big, np.int64(-2**63), np.int64(0))).astype(REP[t])
    return a.astype(REP[t])


def ulp(a, t):
    """Distance of neighbouring numbers of dtype t at a."""
    p, low, _ = FLOATS[t]
    _, e = np.frexp(np.abs(np.asarray(a, np.float64)))
    return np.ldexp(1.0, np.maximum(e - p, low))


def settle(center, low, high, t, err_in=None):
    """The value of dtype t for a result computed as `center` that may lie in [low, high] before it is rounded."""
    v = rounded(center, t)
    if low is None:
        return Val(t, v, err_in)
    w = v.astype(np.float64)
    err = np.zeros(np.shape(v))
    for bound in (low, high):
        b = np.asarray(bound)
        bad = np.isnan(b) != np.isnan(np.asarray(center, np.float64))
        r = rounded(b, t).astype(np.float64)
        d = np.abs(r - w)
        d = np.where((r == w) | (np.isnan(r) & np.isnan(w)),
                     np.where((r == 0) & (np.signbit(r) != np.signbit(w)), TINY, 0.0), d)
        err = np.maximum(err, np.where(bad | np.isnan(d), INF, d))
    if err_in is not None:
        err = np.where(np.asarray(err_in) == INF, INF, err)
    return Val(t, v, err)


def err_of(v):
    return np.zeros(v.shape) if v.err is None else v.err


def unknown_in(v):
    return v.err is not None and bool((v.err == INF).any())


def f64_of(v):
    return v.a.astype(np.float64)


def const_array(x):
    """A (nested) list of numbers as the array that it stands for."""
    flat = []

    def walk(y):
        if isinstance(y, (list, tuple)):
            for z in y:
                walk(z)
        else:
            if not is_number(y):
                raise Reject("not a number")
            flat.append(y)
    walk(x)
    t = "f64" if not flat else {"b": "bool", "i": "i64", "f": "f64"}[max((weak_kind(y) for y in flat), key=ORDER.index)]
    return Val(t, np.array(x, REP[t]))


def as_val(x):
    if isinstance(x, Val):
        if x.final:
            raise Reject("nothing can be computed from unique without a size")
        return Val(x.t, x.a, x.err)
    if is_number(x):
        return Val(strong(x), np.array(x, REP[strong(x)]))
    if isinstance(x, (list, tuple)) and not any(isinstance(y, Val) for y in x):
        return const_array(x)
    raise Reject("not an array")
