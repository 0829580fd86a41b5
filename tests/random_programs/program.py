"""A program of the language as a tree: written as text, computed by the oracle, and taken apart by the shrinker.

A node is a tuple: ("ref", name), ("lit", value), ("list", [nodes]), ("idx", node, [subscripts]), ("attr", node, name),
("op", symbol, [nodes]), ("call", name, style, [nodes], [(keyword, node)]), where style is "function", "method", "np."
or "dtype".
Subscripts are integers, slices, None, Ellipsis and one list of integers."""
import dataclasses
import hashlib

import numpy as np

import elementwise as ew
from language import ALIASES, FUNCTIONS, LISTS, index
from values import BYTES, DTYPES, KIND, REP, Reject, Val, as_val, is_number

OPERATORS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder",
             "**": "pow", "==": "equal",
             "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
             "&": "bitwise_and", "|": "bitwise_or",
             "^": "bitwise_xor", "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "@": "matmul"}
UNARY = {"-": "negative", "+": "copy", "~": "bitwise_invert"}
MAX_BYTES = 64 << 20  # of one value


class Dtype(str):
    """A dtype as an argument, written as `word`: one of its names, or a string of one."""
    word = None

    def __new__(cls, t, word=None):
        self = super().__new__(cls, t)
        self.word = word or t
        return self


NUMPY_NAMES = dict(zip(DTYPES, "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64".split()
                       + "float16 bfloat16 float32 float64".split()))


# --------------------------------------------------------------------------------------------------------------- text

def lit_text(v):
    if isinstance(v, Dtype):
        return v.word
    if isinstance(v, str):
        return f"'{v}'"
    if isinstance(v, tuple):
        return "(" + ", ".join(lit_text(x) for x in v) + ("," if len(v) == 1 else "") + ")"
    if isinstance(v, list):
        return "[" + ", ".join(lit_text(x) for x in v) + "]"
    if isinstance(v, float):
        return "nan" if v != v else "inf" if v == np.inf else "-inf" if v == -np.inf else repr(v)
    return repr(v)


def sub_text(s):
    if isinstance(s, slice):
        part = lambda x: "" if x is None else str(x)  # noqa: E731
        return f"{part(s.start)}:{part(s.stop)}" + ("" if s.step is None else f":{s.step}")
    return "..." if s is Ellipsis else lit_text(s)


def text_of(n):
    kind = n[0]
    if kind == "ref":
        return n[1]
    if kind == "lit":
        return lit_text(n[1])
    if kind == "list":
        return "[" + ", ".join(text_of(x) for x in n[1]) + "]"
    if kind == "idx":
        return base_text(n[1]) + "[" + ", ".join(sub_text(s) for s in n[2]) + "]"
    if kind == "attr":
        return base_text(n[1]) + "." + n[2]
    if kind == "op":
        if len(n[2]) == 1:
            return f"({n[1]}{text_of(n[2][0])})"
        return f"({operand(n[2][0])} {n[1]} {operand(n[2][1])})"
    _, name, style, args, kwargs = n
    words = [text_of(x) for x in args] + [f"{k}={text_of(x)}" for k, x in kwargs]
    if style == "method":
        return f"{base_text(args[0])}.{name}({', '.join(words[1:])})"
    if style == "dtype":
        name = name.word
    return f"{'np.' if style == 'np.' else ''}{name}({', '.join(words)})"


def operand(n):
    t = text_of(n)
    return f"({t})" if n[0] == "lit" and t.startswith("-") else t


def base_text(n):
    t = text_of(n)
    return f"({t})" if n[0] == "lit" else t


# --------------------------------------------------------------------------------------------------------- the oracle

def mapped(f, args):
    """A list of arrays: the same for each of them."""
    lists = [len(a) for a in args if is_list(a)]
    if not lists:
        return f(*args)
    if len(set(lists)) != 1:
        raise Reject("lists of different lengths")
    return [mapped(f, [a[i] if is_list(a) else a for a in args]) for i in range(lists[0])]


def is_list(a):
    return isinstance(a, list) and any(isinstance(x, Val) or is_list(x) for x in a)


def one_call(name, args, kwargs):
    if name in LISTS:
        return FUNCTIONS[name](*args, **dict(kwargs))
    keys = [k for k, _ in kwargs]
    return mapped(lambda *v: FUNCTIONS[name](*v[:len(args)], **dict(zip(keys, v[len(args):]))),
                  list(args) + [v for _, v in kwargs])


def attribute(x, name):
    x = as_val(x)
    if name == "T":
        return FUNCTIONS["transpose"](x)
    if name == "mT":
        if x.ndim < 2:
            raise Reject("mT")
        return FUNCTIONS["swapaxes"](x, -1, -2)
    return {"shape": x.shape, "ndim": x.ndim, "size": x.size, "dtype": Dtype(x.t), "nbytes": x.size * BYTES[x.t],
            "itemsize": BYTES[x.t]}[name]


SYNONYMS = {"correction": "ddof"}


def subscript(base, subs):
    if isinstance(base, Val) and base.second is not None and len(subs) == 1 and isinstance(subs[0], int):
        if not -2 <= subs[0] < 2:
            raise Reject("two results")
        return base.second if subs[0] % 2 else Val(base.t, base.a, base.err, final=base.final)
    if isinstance(base, (list, tuple)):
        if len(subs) != 1 or not isinstance(subs[0], (int, slice)):
            raise Reject("list")
        return base[subs[0]]
    return index(as_val(base), list(subs))


def evaluate(n, env):
    """What the node is worth; raises Reject where the language refuses it."""
    try:
        v = _evaluate(n, env)
    except (ValueError, IndexError, KeyError, TypeError, np.AxisError, OverflowError, MemoryError) as why:
        raise Reject(str(why)) from why
    if isinstance(v, Val) and (v.a.size * BYTES[v.t] > MAX_BYTES or v.ndim > 8):
        raise Reject("too large")
    return v


def _evaluate(n, env):
    kind = n[0]
    if kind == "ref":
        return env[n[1]]
    if kind == "lit":
        return n[1]
    if kind == "list":
        return [evaluate(x, env) for x in n[1]]
    if kind == "idx":
        return subscript(evaluate(n[1], env), n[2])
    if kind == "attr":
        return mapped(lambda x: attribute(x, n[2]), [evaluate(n[1], env)])
    if kind == "op":
        args = [evaluate(x, env) for x in n[2]]
        if len(args) == 2 and all(is_number(x) for x in args):
            return fold(n[1], *args)
        return one_call(UNARY[n[1]] if len(args) == 1 else OPERATORS[n[1]], args, [])
    _, name, style, args, kwargs = n
    args = [evaluate(x, env) for x in args]
    kwargs = [(SYNONYMS.get(k, k), evaluate(x, env)) for k, x in kwargs]
    if style == "dtype":
        return mapped(lambda x: ew.astype(x, name), args)
    return one_call(ALIASES.get(name, name), args, kwargs)


def fold(op, a, b):
    if op in ("+", "-", "*", "//", "%") and not isinstance(a, float) and not isinstance(b,
                                                                                        float) and (op not in ("//",
                                                                                                               "%")
                                                                                                               or b):
        return {"+": a + b, "-": a - b, "*": a * b}.get(op) if op in "+-*" else a // b if op == "//" else a % b
    raise Reject("folded")


# ------------------------------------------------------------------------------------------------------------- inputs

# How the numbers of an input are made: s is the shape, r a NumPy generator. The commands of a failure show them as they
# stand here.
VALUES = {
    "small": "r.integers(1,60,s)",
    "signed": "r.integers(-8,9,s)",
    "steps": "r.integers(-256,257,s)/64",
    "bits": "r.integers(0,2,s)",
    "normal": "r.standard_normal(s)",
    "unit": "r.random(s)*1.8-0.9",
    "positive": "r.random(s)*4+0.25",
    "special": "np.array([0.,-0.,1,-1,.5,2,3,np.nan,np.inf,-np.inf,1e-40,-6e-8,-2.5,1.5])[r.integers(0,14,s)]",
    "rare": "np.r_[1.:14,np.nan,-np.inf,np.inf][np.minimum(r.integers(0,40000,s)%2003//150,15)]",
    "extreme": "np.array([i.min,i.min+1,i.max,i.max-1,0,1,2,i.max//2])[r.integers(0,8,s)]",
    "wide": "r.integers(i.min,i.max,s,d,endpoint=True)",
    "sorted": "(np.arange(int(np.prod(s)))//3).reshape(s)",
    "same": "np.full(s,3)",
}


@dataclasses.dataclass(frozen=True)
class Input:
    name: str
    t: str
    shape: tuple
    values: str = "small"
    seed: int = 0
    order: str = "C"
    swap: bool = False
    container: str = "npy"  # npy, npz, raw
    offset: int = 0

    def numpy_dtype(self):
        d = REP[self.t].newbyteorder("<")
        return d.newbyteorder(">") if self.swap else d

    def code(self):
        """Python that leaves the array in x: the commands of a failure run it, and so does this program."""
        t = REP[self.t].str.lstrip("|<")
        lines = ["import numpy as np", f"r=np.random.default_rng({self.seed})", f"s={self.shape!r}".replace(" ", "")]
        if self.values in ("extreme", "wide"):
            lines += [f"i=np.iinfo('{t}')", f"d='{t}'"]
        a = VALUES[self.values]
        if KIND[self.t] in "ui" and self.values in ("special", "rare"):
            a = f"np.nan_to_num({a},posinf=7,neginf=5).astype('i8')"
        elif KIND[self.t] in "ui" and self.values not in ("extreme", "wide"):
            a = f"np.int64({a})"
        lines.append(f"x=np.asarray({a}).astype('{t}')")
        if self.t == "bf16":
            lines.append("x=(x.view('u4')&np.uint32(0xffff0000)).view('f4').reshape(s)")
        return ";".join(lines)

    def array(self):
        scope = {}
        with np.errstate(all="ignore"):
            exec(self.code(), scope)
        return scope["x"]

    def val(self):
        return Val(self.t, self.array())

    def file(self):
        what = self if self.container == "npz" else dataclasses.replace(self, name="")  # two names may have one file
        key = hashlib.sha1(repr(dataclasses.astuple(what)).encode()).hexdigest()[:12]
        return f"{key}.{ {'npy': 'npy', 'npz': 'npz', 'raw': 'bin'}[self.container]}"

    def binding(self, path):
        return f"{self.name}={path}" + (f":{self.name}" if self.container == "npz" else "")

    def save_code(self, path):
        x = "np.asfortranarray(x)" if self.order == "F" else "x"
        if self.swap:
            x = f"{x}.astype('{self.numpy_dtype().str}')"
        if self.t == "bf16":
            x = "(x.view('u4')>>np.uint32(16)).astype('u2')"
        if self.container == "npz":
            return f"np.savez('{path}',{self.name}={x})"
        if self.container == "raw":
            return f"open('{path}','wb').write(bytes({self.offset})+np.ascontiguousarray({x}).tobytes())"
        return f"np.save('{path}',{x})"

    def save(self, path):
        with np.errstate(all="ignore"):
            exec(self.code() + ";" + self.save_code(path), {})

    def command(self, path):
        return f"python3 -c \"{self.code()};{self.save_code(path)}\""


# ----------------------------------------------------------------------------------------------------------- programs

@dataclasses.dataclass(frozen=True)
class Program:
    inputs: tuple      # of Input
    statements: tuple  # of (name or "" for the last one or (a, b), node)
    outputs: tuple     # of names; "" for the expression without a name
    threads: int = 1
    spill: bool = False
    share: float = 1.0  # of the way from the floor (0) to an ample budget (1)

    def text(self):
        return "; ".join((", ".join(name) if isinstance(name, tuple) else name) + " = " + text_of(n) if name
                         else text_of(n)
                         for name, n in self.statements)

    def run(self, inputs=None):
        """{output: Val or list of Val}, computed by the oracle."""
        env = dict(inputs) if inputs else {i.name: i.val() for i in self.inputs}
        for name, n in self.statements:
            v = evaluate(n, env)
            if isinstance(name, tuple):
                if not isinstance(v, Val) or v.second is None:
                    raise Reject("two names")
                env[name[0]], env[name[1]] = Val(v.t, v.a, v.err, final=v.final), v.second
            else:
                env[name] = v
        out = {}
        for name in self.outputs:
            v = env[name]
            if not isinstance(v, Val) and not is_list(v):
                if not is_number(v) and not isinstance(v, tuple):
                    raise Reject("not a result")
                v = as_val(v)
            out[name] = v
        return out


def walk(n):
    """Every node below n, n first."""
    yield n
    for x in walk_children(n):
        yield from walk(x)


def names_in(n):
    return {x[1] for x in walk(n) if x[0] == "ref"}


def depth(n):
    return 1 + max((depth(x) for x in walk_children(n)), default=0)


def walk_children(n):
    if n[0] == "list":
        return n[1]
    if n[0] in ("idx", "attr"):
        return [n[1]]
    if n[0] == "op":
        return n[2]
    if n[0] == "call":
        return list(n[3]) + [v for _, v in n[4]]
    return []


def with_children(n, kids):
    if n[0] == "list":
        return ("list", list(kids))
    if n[0] in ("idx", "attr"):
        return (n[0], kids[0], n[2])
    if n[0] == "op":
        return ("op", n[1], list(kids))
    if n[0] == "call":
        k = len(n[3])
        return ("call", n[1], n[2], list(kids[:k]), [(w, v) for (w, _), v in zip(n[4], kids[k:])])
    return n


def functions_in(n):
    """Names of what the tree calls, for counting and for grouping failures."""
    out = []
    for x in walk(n):
        if x[0] == "call":
            out.append("astype" if x[2] == "dtype" else ALIASES.get(x[1], x[1]))
        elif x[0] == "op":
            out.append(UNARY[x[1]] if len(x[2]) == 1 else OPERATORS[x[1]])
        elif x[0] == "idx":
            out.append("[]")
        elif x[0] == "attr":
            out.append("." + x[2])
    return out
