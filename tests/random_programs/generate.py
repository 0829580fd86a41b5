"""Random programs: every function has a maker, which turns a value into a call that the language takes.

Values are computed while the program grows, so a maker sees shapes, dtypes and numbers, and what the oracle refuses is
simply not taken."""
import dataclasses
import inspect
import random

import numpy as np

import elementwise as ew
from language import ALIASES, EDGES, FUNCTIONS
from program import (NUMPY_NAMES, OPERATORS, UNARY, Dtype, Input, Program, depth, evaluate, is_list, names_in, text_of,
                     walk_children, with_children)
from values import BYTES, DTYPES, INF, KIND, REP, Reject, Val

SYMBOLS = {name: op for op, name in OPERATORS.items()}
UNARY_SYMBOLS = {name: op for op, name in UNARY.items()}
FLOAT_FUNCTIONS = [f for f, row in ew.ROWS.items() if row[1] == ew.FLOAT]
INT_FUNCTIONS = [f for f, row in ew.ROWS.items() if row[1] == ew.INTS]
MAX_DEPTH = 7
MAX_ELEMENTS = 3_000_000


class Maker:
    """Random choices, and calls in one of the ways in which they can be written."""

    def __init__(self, rng, pool=()):
        self.r = rng
        self.pool = list(pool)  # (node, Val)
        self.names = {}
        for alias, name in ALIASES.items():
            self.names.setdefault(name, []).append(alias)

    def chance(self, p):
        return self.r.random() < p

    def pick(self, *xs):
        return self.r.choice(xs)

    def call(self, name, args, **params):
        """name(args, parameters): those that are `...` are left out, some of the others are given by place."""
        order = list(inspect.signature(FUNCTIONS[name]).parameters)[len(args):]
        given = [(k, ("lit", v)) for k, v in params.items() if v is not ...]
        given.sort(key=lambda kv: order.index(kv[0]) if kv[0] in order else 99)
        args = list(args)
        while given and given[0][0] == order[0] and self.chance(0.6):
            args.append(given.pop(0)[1])
            order.pop(0)
        if self.chance(0.1) and name in self.names and self.names[name]:
            name = self.r.choice(self.names[name])
        style = "function"
        if args and self.chance(0.2) and args[0][0] not in ("lit", "list", "attr"):
            style = "method"
        elif self.chance(0.05):
            style = "np."
        return ("call", name, style, args, given)

    def number(self, t, small=False):
        """A number that an array of dtype t can meet."""
        if t == "bool":
            return self.pick(0, 1, True, 2) if not small else self.pick(0, 1)
        if KIND[t] in "ui":
            top = int(np.iinfo(REP[t]).max)
            choices = [0, 1, 2, 3, 7, 16, min(100, top)]
            if KIND[t] == "i":
                choices += [-1, -2, -5]
            if self.chance(0.1):
                choices = [top, top // 2, int(np.iinfo(REP[t]).min)]
                choices = [c for c in choices if -2**63 < c < 2**63]  # -2**63 cannot be written: it is a negated 2**63
            if self.chance(0.15) and not small:
                return self.pick(0.5, 2.0, -1.5)
            return self.r.choice(choices)
        return self.pick(0, 1, 2, 3, -1, 0.5, 2.0, -1.5, 4, 0.25, 10)

    def axis(self, x):
        if x.ndim == 0:
            raise Reject("no axis")
        return self.r.randrange(-x.ndim, x.ndim)

    def axes(self, x):
        kind = self.r.random()
        if x.ndim == 0 or kind < 0.25:
            return None
        if kind < 0.8 or x.ndim == 1:
            return self.axis(x)
        k = self.r.sample(range(x.ndim), self.r.randint(1, x.ndim))
        return tuple(a - x.ndim if self.chance(0.3) else a for a in k)

    def partner(self, node, x):
        """Something that can be an operand beside x: (node, may stand first)."""
        kind = self.r.random()
        if kind < 0.02:  # numbers among themselves
            pair = [("lit", self.pick(7, 2, 5)), ("lit", self.pick(1, 2, 3))]
            return ("op", self.pick("+", "*", "-", "//", "%"), pair)
        if kind < 0.04 and KIND[x.t] == "f":
            return ("lit", self.pick(float("inf"), float("-inf"), float("nan"), np.pi, 0.1))
        if kind < 0.3:
            return ("lit", self.number(x.t))
        if kind < 0.5 and x.ndim:
            d = self.r.randrange(x.ndim)
            subs = [slice(None)] * d + [slice(None, None, -1)]
            return ("idx", node, subs)
        if kind < 0.6 and x.ndim and x.size:
            return ("call", self.pick("max", "min", "sum", "mean"), "function", [node, ("lit", self.axis(x))],
                    [("keepdims", ("lit", True))])
        if kind < 0.66 and x.ndim and 1 <= x.shape[-1] <= 8:
            return ("lit", [self.number(x.t) for _ in range(x.shape[-1])])
        fits = []
        for n, v in self.pool:
            try:
                if isinstance(v, Val) and np.prod(np.broadcast_shapes(v.shape, x.shape),
                                                  dtype=np.int64) <= MAX_ELEMENTS:
                    fits.append(n)
            except ValueError:
                pass
        return self.r.choice(fits) if fits and self.chance(0.9) else node

    def keep(self):
        return self.pick(..., ..., True, False)


MAKERS = {}


def maker(*names):
    def add(f):
        for name in names:
            MAKERS[name] = f
        return f
    return add


@maker(*[f for f, row in ew.ROWS.items() if row[0] == 1])
def make_unary(g, name, n, x):
    if name in UNARY_SYMBOLS and g.chance(0.5):
        return ("op", UNARY_SYMBOLS[name], [n])
    return g.call(name, [n])


@maker("relu", "gelu", "silu", "deg2rad", "rad2deg", "unique_count", "ravel")
def make_plain(g, name, n, x):
    return g.call(name, [n])


@maker(*[f for f, row in ew.ROWS.items() if row[0] == 2])
def make_binary(g, name, n, x):
    if name in INT_FUNCTIONS and KIND[x.t] == "f":
        raise Reject("integers only")
    if "shift" in name:
        y = ("lit", g.r.randrange(min(8 * BYTES[x.t], 8)))
    elif name == "pow":
        y = ("lit", g.pick(2, 3, 0, 1, 0.5, -1.0, 2.0, 1.5) if KIND[x.t] == "f" else g.pick(0, 1, 2, 3))
        if g.chance(0.2):
            y = g.partner(n, x)
    elif name in FLOAT_FUNCTIONS and KIND[x.t] != "f" and g.chance(0.15):
        y = ("lit", g.pick(-1, 300, -70000))  # which the array's own dtype may not hold, but the float does
    else:
        y = g.partner(n, x)
    pair = [n, y]
    if g.chance(0.3) and "shift" not in name:
        pair.reverse()
    if name in SYMBOLS and g.chance(0.6):
        return ("op", SYMBOLS[name], pair)
    return g.call(name, pair)


@maker("where")
def make_where(g, name, n, x):
    c = n
    if x.t != "bool" and g.chance(0.7):
        c = ("op", g.pick(">", "<", "!=", "<="), [n, ("lit", g.number(x.t, small=True))])
    a, b = g.partner(n, x), g.partner(n, x)
    if a[0] == "lit" and b[0] == "lit":
        a = n
    return g.call("where", [c, a, b] if g.chance(0.5) else [c, b, a])


@maker("clip")
def make_clip(g, name, n, x):
    lo, hi = g.number(x.t, True), g.number(x.t, True)
    if lo > hi:
        lo, hi = hi, lo
    kind = g.r.random()
    if kind < 0.15:
        return g.call("clip", [n], min=None, max=hi)
    if kind < 0.3:
        return g.call("clip", [n], min=lo)
    return g.call("clip", [n], min=lo, max=hi)


@maker("astype")
def make_astype(g, name, n, x):
    t = g.r.choice(DTYPES)
    if g.chance(0.5):
        return ("call", Dtype(t, NUMPY_NAMES[t] if g.chance(0.2) else t), "dtype", [n], [])
    return g.call("astype", [n], dtype=Dtype(t, g.pick(t, t, NUMPY_NAMES[t], f"'{t}'", f"'{NUMPY_NAMES[t]}'")))


@maker("isclose", "allclose")
def make_close(g, name, n, x):
    y = g.partner(n, x)
    params = {}
    if g.chance(0.3):
        params["rtol"] = g.pick(0.1, 0.5)
    if g.chance(0.3):
        params["atol"] = g.pick(0.0, 2.0)
    if g.chance(0.3):
        params["equal_nan"] = True
    return g.call(name, [n, y], **params)


@maker("nan_to_num")
def make_nan_to_num(g, name, n, x):
    return g.call(name, [n], copy=g.pick(..., ..., True, False), nan=g.pick(..., 0, 1, 2.5, -1e5),
                  posinf=g.pick(..., ..., None, 7, 1e5), neginf=g.pick(..., ..., -3.5, float("-inf")))


@maker("sum", "prod", "mean", "var", "std", "min", "max", "ptp", "any", "all", "count_nonzero", "nansum", "nanmean",
       "median", "logsumexp")
def make_reduction(g, name, n, x):
    params = {"axis": g.axes(x), "keepdims": g.keep()}
    if params["axis"] is None and g.chance(0.7):
        params["axis"] = ...
    if name in ("sum", "prod", "mean") and g.chance(0.15):
        params["dtype"] = Dtype(g.pick("f32", "f64", "i64", "f16", "u64") if name != "mean" else g.pick("f32", "f64"))
    if name in ("var", "std") and g.chance(0.4):
        params["ddof"] = g.pick(0, 1, 2)
        if g.chance(0.3):
            node = g.call(name, [n], **params)
            return node[:4] + ([("correction" if k == "ddof" else k, v) for k, v in node[4]],)
    return g.call(name, [n], **params)


@maker("argmin", "argmax")
def make_arg(g, name, n, x):
    return g.call(name, [n], axis=g.axis(x) if x.ndim and g.chance(0.85) else ..., keepdims=g.keep())


@maker("norm")
def make_norm(g, name, n, x):
    return g.call(name, [n], ord=g.pick(..., 0, 1, 2, 3, 1.5, float("inf"), float("-inf")), axis=g.axes(x),
                  keepdims=g.keep())


@maker("quantile", "percentile")
def make_quantile(g, name, n, x):
    unit = 100 if name == "percentile" else 1
    q = g.pick(0.5, 0.25, 0.0, 1.0, 0.1, 0.875, [0.25, 0.75], [0.5], [0.0, 0.3, 1.0])
    q = [v * unit for v in q] if isinstance(q, list) else q * unit
    return g.call(name, [n], q=q, axis=g.axes(x), keepdims=g.keep())


@maker("histogram", "histogram_edges")
def make_histogram(g, name, n, x):
    return g.call(name, [n], bins=g.pick(..., 1, 2, 7, 16, 100), range=g.pick(..., ..., (0, 10), (-2, 2.5), (1, 59)))


@maker("softmax")
def make_softmax(g, name, n, x):
    axis = g.axes(x)
    return g.call(name, [n], axis=... if axis is None else axis)


@maker("cumsum", "cumprod")
def make_running(g, name, n, x):
    t = Dtype(g.pick("f64", "f32", "i64")) if g.chance(0.1) else ...
    return g.call(name, [n], axis=g.axis(x) if x.ndim and g.chance(0.85) else ..., dtype=t)


@maker("diff")
def make_diff(g, name, n, x):
    return g.call(name, [n], n=g.pick(..., 1, 2, 3), axis=g.axis(x) if g.chance(0.7) else ...)


@maker("transpose")
def make_transpose(g, name, n, x):
    axes = list(range(x.ndim))
    g.r.shuffle(axes)
    if g.chance(0.3) or x.ndim < 2:
        return g.call(name, [n])
    if g.chance(0.3):
        return ("call", "transpose", g.pick("function", "method"), [n] + [("lit", a) for a in axes], [])
    return g.call(name, [n], axes=tuple(axes))


@maker("moveaxis", "swapaxes")
def make_moveaxis(g, name, n, x):
    if name == "moveaxis" and x.ndim > 1 and g.chance(0.3):
        k = g.r.randint(1, x.ndim)
        return g.call(name, [n], source=tuple(g.r.sample(range(x.ndim), k)),
                      destination=tuple(g.r.sample(range(x.ndim), k)))
    params = ("source", "destination") if name == "moveaxis" else ("axis1", "axis2")
    return g.call(name, [n], **{p: g.axis(x) for p in params})


@maker("reshape")
def make_reshape(g, name, n, x):
    size = x.size
    if size == 0:
        return g.call(name, [n], shape=tuple(reversed(x.shape)))
    shape = []
    rest = size
    for _ in range(g.r.randint(0, 4)):
        divisors = [d for d in (1, 2, 3, 4, 5, 7, 8, 16, 25, 32, 59, 113, 125, 1000, rest) if rest % d == 0]
        shape.append(g.r.choice(divisors))
        rest //= shape[-1]
    shape.insert(g.r.randint(0, len(shape)), rest)
    if g.chance(0.4):
        shape[g.r.randrange(len(shape))] = -1
    if g.chance(0.2) and len(shape) > 1:
        return ("call", "reshape", g.pick("function", "method"), [n] + [("lit", s) for s in shape], [])
    return g.call(name, [n], shape=tuple(shape))


@maker("squeeze")
def make_squeeze(g, name, n, x):
    ones = [k for k, s in enumerate(x.shape) if s == 1]
    if not ones and x.ndim < 11 and g.chance(0.7):
        d = g.r.randint(0, x.ndim)
        return g.call(name, [("call", "expand_dims", "function", [n, ("lit", d)], [])], axis=g.pick(..., d))
    return g.call(name, [n], axis=g.r.choice(ones) if ones and g.chance(0.6) else ...)


@maker("expand_dims")
def make_expand(g, name, n, x):
    if x.ndim > 9:
        raise Reject("rank")
    if g.chance(0.15):  # to a rank that few files have
        rank = g.r.randint(x.ndim + 1, 11)
        return g.call(name, [n], axis=tuple(g.r.sample(range(rank), rank - x.ndim)))
    axis = g.r.randint(-x.ndim - 1, x.ndim)
    return g.call(name, [n], axis=axis if g.chance(0.8) else (0, x.ndim + 1))


@maker("broadcast_to")
def make_broadcast(g, name, n, x):
    shape = [g.r.randint(2, 5) if s == 1 else s for s in x.shape]
    if g.chance(0.6) and x.size < 300000:
        shape = [g.r.randint(1, 4)] + shape
    return g.call(name, [n], shape=tuple(shape))


def companions(g, n, x, axis):
    """Arrays that can be joined with x along the axis: itself, parts of it, what was computed from it."""
    pieces = [n]
    for _ in range(g.r.randint(1, 3)):
        kind = g.r.random()
        if kind < 0.4:
            pieces.append(n)
        elif kind < 0.6:
            pieces.append(("idx", n, [slice(None)] * axis + [slice(None, None, -1)]))
        elif kind < 0.8:
            pieces.append(("idx", n, [slice(None)] * axis
                           + [g.pick(slice(1, None), slice(None, 2), slice(None, None, 2))]))
        else:
            same = [m for m, v in g.pool if isinstance(v, Val) and v.ndim == x.ndim
                    and all(a == b for k, (a, b) in enumerate(zip(v.shape, x.shape)) if k != axis)]
            pieces.append(g.r.choice(same) if same else n)
    g.r.shuffle(pieces)
    return pieces


@maker("concat")
def make_concat(g, name, n, x):
    axis = g.axis(x)
    params = {"axis": axis} if axis or g.chance(0.5) else {}
    return g.call(name, [("list", companions(g, n, x, axis % x.ndim))], **params)


@maker("vstack", "hstack")
def make_stacks(g, name, n, x):
    axis = 0 if name == "vstack" or x.ndim == 1 else min(1, x.ndim - 1)
    pieces = companions(g, n, x, axis) if x.ndim > 1 or name == "hstack" and x.ndim else [n, n]
    return g.call(name, [("list", pieces)])


@maker("stack")
def make_stack(g, name, n, x):
    if x.ndim > 10:
        raise Reject("rank")
    pieces = [n] * g.r.randint(1, 3)
    if x.ndim:
        pieces.append(("idx", n, [slice(None, None, -1)]))
    return g.call(name, [("list", pieces)], axis=g.r.randint(-x.ndim - 1, x.ndim) if g.chance(0.7) else ...)


@maker("flip")
def make_flip(g, name, n, x):
    axis = g.axes(x)
    return g.call(name, [n], axis=... if axis is None else axis)


@maker("roll")
def make_roll(g, name, n, x):
    if x.ndim > 1 and g.chance(0.2):
        return g.call(name, [n], shift=(g.pick(1, -3), g.pick(2, -1)), axis=(0, x.ndim - 1))
    return g.call(name, [n], shift=g.pick(1, -1, 2, 5, -7, 1000, 4097),
                  axis=g.axis(x) if x.ndim and g.chance(0.8) else ...)


@maker("tile")
def make_tile(g, name, n, x):
    reps = g.pick(1, 2, 3, 2) if g.chance(0.6) else tuple(g.pick(1, 2, 3, 1)
                                                          for _ in range(g.r.randint(1, max(1, min(x.ndim + 1, 4)))))
    return g.call(name, [n], reps=reps)


@maker("repeat")
def make_repeat(g, name, n, x):
    return g.call(name, [n], repeats=g.pick(1, 2, 3, 2, 0), axis=g.axis(x) if x.ndim and g.chance(0.8) else ...)


@maker("pad")
def make_pad(g, name, n, x):
    if x.ndim == 0:
        raise Reject("rank 0")
    mode = g.pick("constant", "edge", "reflect", "symmetric", "wrap", "constant")
    least = min(x.shape, default=0)
    top = {"constant": 5, "edge": 5, "reflect": min(4, least - 1), "symmetric": min(4, least),
           "wrap": min(6, 2 * least)}[mode]
    if top < 0 or least == 0 and mode != "constant":
        raise Reject("too small")
    one = lambda: g.r.randint(0, top)  # noqa: E731
    kind = g.r.random()
    width = one() if kind < 0.3 else (one(), one()) if kind < 0.6 or x.ndim == 0 else tuple((one(), one())
                                                                                            for _ in range(x.ndim))
    params = {"pad_width": width, "mode": mode if mode != "constant" or g.chance(0.5) else ...}
    if mode == "constant" and g.chance(0.4):
        value = g.number(x.t, True)
        if not isinstance(value, float) or KIND[x.t] == "f":
            params["constant_values"] = value
    return g.call(name, [n], **params)


@maker("take")
def make_take(g, name, n, x):
    axis = g.axis(x) if x.ndim and g.chance(0.85) else None
    extent = x.size if axis is None else x.shape[axis]
    if extent == 0:
        raise Reject("empty")
    at = [g.r.randrange(-extent, extent) for _ in range(g.r.randint(1, 5))]
    return g.call(name, [n], indices=g.pick(at[0], at, at, tuple(at)), axis=... if axis is None else axis)


@maker("split")
def make_split(g, name, n, x):
    axis = g.axis(x)
    extent = x.shape[axis]
    size = max(1, g.pick(extent, extent // 2, extent // 3 + 1, extent // 7, 4096 if extent > 5000 else 1))
    if -(-extent // size) > 8:
        size = -(-extent // 5)
    p = g.call(name, [n], size=size, axis=axis if axis or g.chance(0.5) else ...)
    count = -(-extent // size)
    kind = g.r.random()
    if kind < 0.4:
        return ("idx", p, [g.r.randrange(-count, count)])
    if kind < 0.6:
        return ("call", "concat", "function", [("idx", p, [slice(None, None, -1)])], [("axis", ("lit", axis))])
    if kind < 0.8:
        return ("idx", p, [slice(None, g.pick(1, 2, -1))] if count > 1 else [slice(None)])
    return ("call", "stack", "function", [("call", g.pick("sum", "max", "mean", "std"), "function", [p], [])], [])


@maker("len")
def make_len(g, name, n, x):
    if KIND[x.t] == "f" or x.t in ("i64", "u64", "i32"):
        return ("op", g.pick("+", "*", "-"), [n, g.call("len", [n])])
    return ("call", "full", "function", [("lit", (3, 1001)), ("call", "len", "function", [n], [])], [])


@maker("sort", "argsort")
def make_sort(g, name, n, x):
    return g.call(name, [n], axis=g.axis(x) if g.chance(0.7) else ..., descending=g.pick(..., True, False),
                  stable=g.pick(..., ..., True))


@maker("topk", "argtopk")
def make_topk(g, name, n, x):
    axis = g.axis(x)
    k = g.r.randint(1, max(1, min(x.shape[axis], 6)))
    p = g.call(name, [n], k=k, axis=axis if g.chance(0.8) or axis not in (-1, x.ndim - 1) else ...,
               largest=g.pick(..., ..., False))
    if name == "topk" and g.chance(0.8):
        return ("idx", p, [g.pick(0, 1)])
    return p


@maker("unique")
def make_unique(g, name, n, x):
    if x.err is not None or x.size == 0:
        raise Reject("rounding decides")
    u = len(np.unique(x.a))
    if g.chance(0.25):
        return g.call(name, [n], max=g.pick(..., u, 65536) if u <= 65536 and x.size >= u else ...)
    p = g.call(name, [n], size=u + g.pick(0, 1, 5, 1000))
    return ("idx", p, [g.pick(0, 1)]) if g.chance(0.5) else p


@maker("matmul", "dot")
def make_matmul(g, name, n, x):
    if x.ndim == 0:
        if name == "dot":
            return g.call(name, [n, n])
        raise Reject("scalars")
    k = x.shape[-1]
    kind = g.r.random()
    if kind < 0.3 and 1 <= k <= 8:
        y = ("lit", [g.number(x.t, True) for _ in range(k)] if g.chance(0.5)
             else [[g.number(x.t, True) for _ in range(3)] for _ in range(k)])
        pair = [n, y]
    elif kind < 0.5 and x.ndim == 2 and x.shape[0] <= 300000:
        pair = [("attr", n, "T"), n] if x.shape[1] <= 64 else [n, ("attr", n, "T")] if x.shape[0] <= 64 else None
    elif x.ndim == 1:
        pair = [n, ("idx", n, [slice(None, None, -1)])]
    elif kind < 0.7 and x.ndim > 1 and x.shape[-1] <= 512 and x.shape[-2] <= 512 and name == "matmul":
        pair = [n, ("attr", n, "mT")]
    else:
        w = ("call", "ones", "function", [("lit", (k, g.pick(1, 3, 16))), ("lit", Dtype(x.t))],
             []) if k <= 100000 else None
        fits = [m for m, v in g.pool if isinstance(v, Val) and v.ndim in (1, 2) and v.shape[0] == k
                and (v.ndim == 1 or v.shape[1] <= 300)]
        w = g.r.choice(fits) if fits and g.chance(0.7) else w
        pair = [n, w] if w else None
    if pair is None:
        raise Reject("no partner")
    if name == "matmul" and g.chance(0.5):
        return ("op", "@", pair)
    return g.call(name, pair)


@maker("outer")
def make_outer(g, name, n, x):
    if x.size > 400000:
        raise Reject("large")
    y = ("lit", [g.number(x.t, True) for _ in range(g.r.randint(1, 4))])
    return g.call(name, [n, y] if g.chance(0.6) else [y, n])


@maker("vecdot")
def make_vecdot(g, name, n, x):
    y = g.partner(n, x)
    if y[0] == "lit" and not isinstance(y[1], list):
        y = n
    return g.call(name, [n, y], axis=g.axis(x) if g.chance(0.6) else ...)


@maker("tensordot")
def make_tensordot(g, name, n, x):
    if x.ndim == 0 or x.size > 1_500_000:
        raise Reject("sizes")
    kind = g.r.random()
    if kind < 0.4:
        axis = g.axis(x) % x.ndim
        k = x.shape[axis]
        if k > 8 or k == 0:
            w = ("call", "ones", "function", [("lit", (k, 2)), ("lit", Dtype(x.t))], [])
        else:
            w = ("lit", [[g.number(x.t, True), g.number(x.t, True)] for _ in range(k)])
        return g.call(name, [n, w], axes=(g.pick([axis], (axis,)), g.pick([0], (0,))))
    return g.call(name, [n, n if g.chance(0.5) else g.partner(n, x)], axes=x.ndim)


@maker("box")
def make_box(g, name, n, x):
    edge = g.r.choice(EDGES)
    one = lambda: g.pick(1, 2, 3, 4, 5, 7)  # noqa: E731
    axes = None if x.ndim < 3 and g.chance(0.5) else g.axes(x)
    count = x.ndim if axes is None else 1 if isinstance(axes, int) else len(axes)
    if count > 2:
        axes, count = g.axis(x), 1
    size = one() if g.chance(0.5) else tuple(one() for _ in range(count))
    return g.call(name, [n], size=size, axes=... if axes is None else axes,
                  edge=edge if edge != "edge" or g.chance(0.3) else ...)


def weights(g, x, w):
    """A list, which is an array of i64 or f64; or one of x's own dtype, or of another one."""
    kind = g.r.random()
    if kind < 0.4:
        return ("lit", w)
    return ("call", Dtype(x.t if kind < 0.8 else g.r.choice(DTYPES)), "dtype", [("lit", w)], [])


@maker("conv")
def make_conv(g, name, n, x):
    if x.ndim == 0:
        raise Reject("rank 0")
    w = [g.number(x.t, True) for _ in range(g.r.randint(1, 5))]
    if x.ndim > 1 and g.chance(0.5):
        k = g.r.randint(1, 3)
        w = [[g.number(x.t, True) for _ in range(k)] for _ in range(g.r.randint(1, 3))]
    edge = g.r.choice(EDGES)
    return g.call(name, [n, weights(g, x, w)], edge=edge if edge != "constant" or g.chance(0.3) else ...)


@maker("convolve")
def make_convolve(g, name, n, x):
    if x.ndim != 1:
        if x.size == 0 or x.ndim == 0:
            raise Reject("empty")
        zeros = [0] * (x.ndim - 1)
        n = g.pick(("call", "ravel", "function", [n], []), ("idx", n, zeros), ("idx", n, [Ellipsis] + zeros))
    return g.call(name, [n, weights(g, x, [g.number(x.t, True) for _ in range(g.r.randint(1, 6))])],
                  mode=g.pick(..., "full", "same", "valid"))


def shape_node(g, n, x):
    return ("attr", n, "shape") if g.chance(0.5) or x.size > MAX_ELEMENTS else ("lit", x.shape if x.ndim != 1
                                                                                or g.chance(0.5) else x.shape[0])


@maker("zeros", "ones")
def make_zeros(g, name, n, x):
    return g.call(name, [shape_node(g, n, x)], dtype=g.pick(..., Dtype(x.t)))


@maker("full")
def make_full(g, name, n, x):
    return g.call(name, [shape_node(g, n, x)], value=g.pick(3, 2.5, True, -1), dtype=g.pick(..., ..., Dtype("f32")))


@maker("zeros_like", "ones_like")
def make_like(g, name, n, x):
    return g.call(name, [n], dtype=g.pick(..., Dtype(g.r.choice(DTYPES))))


@maker("full_like")
def make_full_like(g, name, n, x):
    return g.call(name, [n], value=g.number(x.t, True), dtype=g.pick(..., ..., Dtype("f32")))


@maker("arange")
def make_arange(g, name, n, x):
    count = x.shape[-1] if x.ndim else 17
    start, step = g.pick((0, 1), (3, 2), (-5, 1), (0.5, 0.25), (10, -1))
    if g.chance(0.4):
        a = g.call(name, [("idx", ("attr", n, "shape"), [-1]) if x.ndim else ("lit", count)])
    else:
        a = g.call(name, [("lit", start)], stop=start + step * count, step=step)
    return ("op", g.pick("+", "*"), [n, a]) if g.chance(0.7) and x.t != "bool" else a


@maker("linspace")
def make_linspace(g, name, n, x):
    count = x.shape[-1] if x.ndim else 17
    a = g.call(name, [("lit", g.pick(0, -1.5, 2))], stop=g.pick(1, 10.5, -3), num=count, endpoint=g.pick(..., False))
    return ("op", "*", [n, a]) if g.chance(0.7) else a


@maker("eye")
def make_eye(g, name, n, x):
    if x.ndim and 1 <= x.shape[-1] <= 100 and g.chance(0.7):
        return ("op", "@", [n, g.call(name, [("lit", x.shape[-1])], m=g.pick(..., 3), k=g.pick(..., 1, -1),
                                      dtype=Dtype(x.t))])
    return g.call(name, [("lit", 5)], m=g.pick(..., 3, 9), k=g.pick(..., 1, -1))


@maker("asarray")
def make_asarray(g, name, n, x):
    if g.chance(0.3) and x.ndim and 1 <= x.shape[-1] <= 8:
        return ("op", "+", [n, g.call(name, [("lit", [g.number(x.t, True) for _ in range(x.shape[-1])])],
                                      dtype=Dtype(x.t))])
    return g.call(name, [n], dtype=g.pick(..., Dtype(g.r.choice(DTYPES))))


# Subscripts and attributes, beside the functions.

@maker("[]")
def make_index(g, name, n, x):
    if x.ndim == 0:
        return ("idx", n, [None] if g.chance(0.5) else [Ellipsis, None])
    subs, listed = [], g.chance(0.25)
    used = g.r.randint(1, x.ndim)
    at_list = g.r.randrange(used) if listed else -1
    for d in range(used):
        extent = x.shape[d]
        kind = g.r.random()
        if d == at_list and extent:
            subs.append([g.r.randrange(-extent, extent) for _ in range(g.r.randint(1, 5))])
        elif kind < 0.25 and extent and not listed:
            subs.append(g.pick(0, -1, g.r.randrange(-extent, extent)))
        elif kind < 0.4:
            subs.append(slice(None))
        else:
            bound = lambda: g.pick(None, None, 0, 1, -1, extent // 2,
                                   g.r.randint(-extent - 2, extent + 2))  # noqa: E731
            subs.append(slice(bound(), bound(), g.pick(None, None, 1, 2, -1, -1, -2, 3)))
    if used < x.ndim and g.chance(0.3):
        subs.insert(g.r.randint(0, len(subs)), Ellipsis)
    elif g.chance(0.1):
        subs.insert(g.r.randint(0, len(subs)), Ellipsis)
    if x.ndim < 5 and g.chance(0.2) and not listed:
        subs.insert(g.r.randint(0, len(subs)), None)
    return ("idx", n, subs)


SHIFTS = {"[-1]": -1, "[1:]": slice(1, None), "[::-1]": slice(None, None, -1), "[::-2]": slice(None, None, -2)}


@maker(*SHIFTS)
def make_shifted(g, name, n, x):
    """The subscripts that ask for a part without what stands before it, or for the end first."""
    return ("idx", n, [slice(None)] * (g.axis(x) % x.ndim) + [SHIFTS[name]])


@maker(".T", ".mT")
def make_turned(g, name, n, x):
    return ("attr", n, name[1:])


@maker(".shape")
def make_extent(g, name, n, x):
    """A number that an attribute gives, as an operand."""
    if KIND[x.t] not in "f" and x.t not in ("i32", "i64", "u32", "u64"):
        raise Reject("may not fit")
    a = ("attr", n, g.pick("size", "ndim", "nbytes", "itemsize"))
    if x.ndim and g.chance(0.5):
        a = ("idx", ("attr", n, "shape"), [g.pick(0, -1)])
    if g.chance(0.2):
        return ("call", "astype", "method", [n, ("attr", n, "dtype")], [])
    return ("op", g.pick("+", "*", "-"), [n, a])


HEAVY = {"[]": 10, "flip": 3, "roll": 3, "tile": 3, "pad": 3, "concat": 4, "repeat": 2, "astype": 4, "sum": 3, "max": 2,
         "argmax": 3, "argmin": 2, "topk": 3,
         "cumsum": 3, "sort": 2, "reshape": 3, "transpose": 2, "add": 3, "multiply": 3, "subtract": 3, ".T": 2,
         "mean": 3, "std": 2, "softmax": 2, "split": 2}


def lacking():
    """Functions without a maker: an empty list, or a test fails."""
    return [name for name in FUNCTIONS if name not in MAKERS]


# ------------------------------------------------------------------------------------------------------------- inputs

SMALL = [(), (1,), (5,), (0,), (3, 4), (1, 7), (13, 1), (0, 3), (2, 3, 5), (3, 1, 4), (1, 1, 1), (2, 3, 2, 3),
         (2, 1, 3, 2, 2), (17, 31), (1000,), (59, 61), (97,)]
LARGE = [(20000, 8), (8, 20001), (5, 1000, 8), (70001,), (113, 1009), (3, 41, 1013), (1000, 113), (2, 3, 7, 1999),
         (64, 31, 8, 33), (300, 300), (3, 2, 5, 7, 211)]
HUGE = [(2000000,), (2000, 1000), (250000, 8), (8, 250001)]
FLOAT_VALUES = ["small", "signed", "steps", "normal", "unit", "positive", "special", "rare", "sorted", "small",
                "signed"]
INT_VALUES = ["small", "signed", "extreme", "wide", "bits", "sorted", "small", "same"]


def random_input(r, name, shape, raw_free):
    t = r.choice(["f32"] * 5 + ["f64"] * 2 + DTYPES)
    values = r.choice(["bits"] if t == "bool" else INT_VALUES if KIND[t] in "ui" else FLOAT_VALUES)
    if KIND[t] == "u" and values in ("signed",):
        values = "small"
    container = "npy" if r.random() < 0.8 else "npz"
    offset = 0
    if t == "bf16":
        if not raw_free:
            t, values = "f32", "small"
        else:
            container = "raw"
    elif raw_free and r.random() < 0.06 and shape:
        container = "raw"
    if container == "raw":
        offset = r.choice([0, 0, 16, 3])
        if not shape or 0 in shape:
            container, t, offset, values = "npy", "f32", 0, "small"
    order = "F" if len(shape) > 1 and r.random() < 0.25 and container != "raw" else "C"
    swap = r.random() < 0.12 and BYTES[t] > 1 and container != "raw"
    return Input(name, t, shape, values, r.randrange(1000), order, swap, container, offset)


def random_inputs(r):
    kind = r.random()
    shapes = SMALL if kind < 0.45 else LARGE if kind < 0.97 else HUGE
    shape = r.choice(shapes)
    inputs = []
    raw_free = True
    for name in "xyz"[:r.choice([1, 1, 2, 2, 3])]:
        if inputs and r.random() < 0.08 and inputs[-1].container != "raw":  # one file under two names
            inputs.append(dataclasses.replace(inputs[-1], name=name))
            continue
        inputs.append(random_input(r, name, shape, raw_free))
        raw_free = raw_free and inputs[-1].container != "raw"
        if r.random() < 0.4 and shape:
            shape = r.choice([shape[-1:], (1,) * (len(shape) - 1) + shape[-1:], shape[:-1] + (1,), r.choice(shapes)])
    return inputs


# ----------------------------------------------------------------------------------------------------------- programs

def usable(v, limit=MAX_ELEMENTS):
    return isinstance(v, Val) and v.size <= limit and v.ndim <= 6


def nothing_known(v):
    """Is there nothing left to compare: rounding upstream decides every element."""
    return isinstance(v, Val) and v.size > 0 and v.err is not None and bool((v.err == INF).all())


def random_program(seed, number):
    """Program `number` of a seed: (Program, what the oracle gives for its outputs)."""
    r = random.Random(f"{seed}/{number}")
    names = list(MAKERS)
    tries = 0
    while True:
        tries += 1
        # each function has its turn at the beginning of a program
        made = attempt(r, names[number % len(names)] if tries < 40 else None)
        if made:
            return made


def attempt(r, first):
    inputs = random_inputs(r)
    env = {i.name: i.val() for i in inputs}
    limit = max(60000, 3 * max(v.size for v in env.values()))
    g = Maker(r, [(("ref", k), v) for k, v in env.items()])
    names = list(MAKERS)
    weights = [HEAVY.get(n, 1) for n in names]
    statements, finals = [], []
    wanted, tries = r.choice([1, 2, 2, 3, 3, 4, 5, 6, 8]), 0
    made = 0
    while made < wanted and tries < 60:
        tries += 1
        name = first if first and made == 0 else r.choices(names, weights)[0]
        if first and made == 0 and tries > 8:
            return None
        node, x = g.pool[-1] if r.random() < 0.6 else r.choice(g.pool)
        if not usable(x, limit):
            continue
        try:
            n = MAKERS[name](g, name, node, x)
            if depth(n) > MAX_DEPTH or len(text_of(n)) > 400:
                continue
            v = evaluate(n, env)
        except (Reject, ValueError, IndexError):
            continue
        if is_list(v):
            if not all(usable(p, limit) for p in v) or len(v) > 8:
                continue
        elif not usable(v, limit):
            continue
        if nothing_known(v):
            continue
        made += 1
        tries = 0
        if is_list(v) or v.final or v.second is not None or r.random() < 0.45:
            label = f"v{len(statements)}"
            if isinstance(v, Val) and v.second is not None and not v.final and r.random() < 0.4:
                pair = (label, label + "i")
                statements.append((pair, n))
                env[pair[0]], env[pair[1]] = Val(v.t, v.a, v.err), v.second
                g.pool += [(("ref", p), env[p]) for p in pair]
                continue
            statements.append((label, n))
            env[label] = v
            n = ("ref", label)
        if isinstance(v, Val) and not v.final:
            g.pool.append((n, v))
            finals.append((n, v))
    if made == 0:
        return None
    last = finals[-1][0] if finals else None
    if last is not None and (last[0] != "ref" or r.random() < 0.3):
        statements.append(("", last))
    known = [n for name, _ in statements for n in (name if isinstance(name, tuple) else (name,))]
    if not known:
        return None
    count = min(len(known), r.choice([1, 1, 1, 2, 2, 3, 4]))
    outputs = [known[-1]] + r.sample(known[:-1], count - 1)
    program = Program(tuple(inputs), tuple(statements), tuple(outputs), r.choice([1, 1, 2, 2, 3, 4, 5, 6, 7]),
                      r.random() < 0.4,
                      r.choice([0.0, 0.0, 0.0, r.random()**4, r.random()**2, 1.0]))
    program = pruned(program)
    try:
        expected = program.run(env_of_inputs(program, env))
    except Reject:
        return None
    if not all(isinstance(v, Val) or is_list(v) for v in expected.values()):
        return None
    return program, expected


def env_of_inputs(program, env):
    return {i.name: env[i.name] for i in program.inputs}


def pruned(p):
    """Without the statements and inputs that no output needs."""
    needed, keep = set(p.outputs), []
    for name, n in reversed(p.statements):
        own = set(name) if isinstance(name, tuple) else {name}
        if own & needed:
            keep.append((name, n))
            needed |= names_in(n)
    keep.reverse()
    return dataclasses.replace(p, statements=tuple(keep), inputs=tuple(i for i in p.inputs if i.name in needed))


# -------------------------------------------------------------------------------------------------------------- pairs

PAIR_INPUTS = [
    [Input("x", "f32", (20000, 8), "small", 1)],
    [Input("x", "i32", (8, 20001), "small", 2, "F")],
    [Input("x", "f32", (5, 1000, 8), "signed", 3)],
    [Input("x", "f64", (60000,), "steps", 4)],
    [Input("x", "f16", (1000, 113), "small", 5)],
    [Input("x", "u8", (113, 1009), "small", 6, "F")],
    [Input("x", "i64", (20001, 5), "signed", 7)],
    [Input("x", "bool", (30011, 3), "bits", 8)],
    [Input("x", "bf16", (4001, 16), "signed", 9, container="raw")],
    [Input("x", "f32", (300, 301), "unit", 10)],
    [Input("x", "f32", (8, 20001), "positive", 11, "F")],
]
_cache = {}


def pair_env(k):
    if k not in _cache:
        _cache[k] = {i.name: i.val() for i in PAIR_INPUTS[k]}
    return _cache[k]


def pair_names():
    return list(MAKERS)


def pair_program(seed, number):
    """Pair `number`: the first function's result goes to the second. None where no arguments were found that fit."""
    names = pair_names()
    producer, consumer = names[number // len(names) % len(names)], names[number % len(names)]
    r = random.Random(f"pairs/{seed}/{number}")
    order = list(range(len(PAIR_INPUTS)))
    r.shuffle(order)
    second = None
    for tries in range(60):
        k = order[tries % len(order)]
        env = dict(pair_env(k))
        g = Maker(r, [(("ref", "x"), env["x"])])
        try:
            n = MAKERS[producer](g, producer, ("ref", "x"), env["x"])
            v = evaluate(n, env)
            if is_list(v):
                n = ("idx", n, [r.randrange(len(v))])
                v = evaluate(n, env)
            if not usable(v) or v.final:
                continue
            named = v.second is not None or r.random() < 0.5
            env["p"] = v
            g.pool.append((("ref", "p"), v))
            m = MAKERS[consumer](g, consumer, ("ref", "p"), v)
            w = evaluate(m, env)
            if not (usable(w) or is_list(w)) or nothing_known(w):
                continue
        except (Reject, ValueError, IndexError):
            continue
        if not named:
            m = replaced(m, "p", n)
        statements = ((("p", n),) if named else ()) + (("q", m),)
        outputs = ("q", "p") if named and r.random() < 0.3 and not is_list(w) else ("q",)
        p = pruned(Program(tuple(PAIR_INPUTS[k]), statements, outputs, r.choice([1, 2, 3, 5, 7]), r.random() < 0.3,
                           0.0))
        found = p, {"q": w, **({"p": v} if "p" in outputs else {})}
        if v.size > 4096 or tries > 30:  # really cut, where that can be had
            return found
        second = second or found
    return second


def replaced(n, name, by):
    if n == ("ref", name):
        return by
    kids = walk_children(n)
    return with_children(n, [replaced(k, name, by) for k in kids]) if kids else n
