"""ONNX operators: for each a proposal of its options, its output's shape, and the nodes that it becomes.

OPS maps a type to an Op. Shapes are without the batch, which is the first dimension of every tensor and is only named
in the file. Options whose names begin with an
underscore are the generator's own; others are attributes of the node. An operator that takes or gives something else
than floats (comparisons, indices, quantised
numbers) is written with the nodes around it that make floats of it again; one that is not continuous is applied to
inputs of the model only (`exact`), where every
budget has the same bits.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from keras import chance, need, pick, product  # noqa: E402
from make_gpt import message, port, tensor  # noqa: E402

KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float64": 11}
FLOAT, INT64, BOOL = 1, 7, 9
OPSET = 20


class Op:
    def __init__(
        self, propose, infer, emit, arity=(1, 1), train=True, weight=1.0, drops=False, exact=False, rows=False
    ):
        self.propose, self.infer, self.emit, self.arity, self.train, self.weight, self.drops = (
            propose,
            infer,
            emit,
            arity,
            train,
            weight,
            drops,
        )
        self.exact, self.rows, self.trains = exact, rows, lambda o: True


OPS = {}


# -------------------------------------------------------------------------------------------------------------- writing
def attribute(name, value):
    if isinstance(value, float):
        return message((1, name), (2, value), (20, 1))
    if isinstance(value, (int, np.integer)):
        return message((1, name), (3, int(value)), (20, 2))
    if isinstance(value, str):
        return message((1, name), (4, value), (20, 3))
    if isinstance(value, np.ndarray):
        return message((1, name), (5, tensor("", KINDS[value.dtype.name], value.shape, value.tobytes())), (20, 4))
    if value and isinstance(value[0], float):
        return message((1, name), *[(7, v) for v in value], (20, 6))
    return message((1, name), *[(8, int(v)) for v in value], (20, 7))


class Builder:
    """Collects nodes and initializers. r: where values come from; None: only shapes are wanted."""

    def __init__(self, r=None, opset=OPSET):
        self.r, self.opset, self.nodes, self.tensors, self.params, self.values, self.count = r, opset, [], [], {}, {}, 0
        self.owner = self.out = ""

    def node(self, op, ins, out=None, n_out=1, take=0, **attrs):
        """One node. @return the name of its output number `take`"""
        self.count += 1
        outs = ["%s_t%d_%d" % (self.out, self.count, k) for k in range(n_out)]
        if out:
            outs[take] = out
        name = "%s_n%d" % (self.out, self.count)
        self.nodes.append(
            message(
                *[(1, i) for i in ins],
                *[(2, o) for o in outs],
                (3, name),
                (4, op),
                *[(5, attribute(k, v)) for k, v in attrs.items()]
            )
        )
        return outs[take]

    def param(self, suffix, shape, fan=None, mean=0.0, scale=1.0):
        """A parameter, one of the owner's: made once, however many nodes share it."""
        name = "%s.%s" % (self.owner, suffix)
        if name not in self.params:
            self.params[name] = list(shape)
            if self.r is not None:
                v = self.r.standard_normal(shape, dtype=np.float32)
                v = mean + scale * (np.clip(v, -2, 2) if fan is None else v / np.sqrt(max(fan, 1)))
                self.values[name] = v.astype(np.float32)
                self.tensors.append(tensor(name, FLOAT, shape, self.values[name].tobytes()))
        return name

    def const(self, value):
        """Numbers that are not trained: whole ones as an initializer, others as a node."""
        a = np.ascontiguousarray(value)
        if a.dtype == np.float64:
            a = a.astype(np.float32)
        a = a.reshape(np.shape(value))
        if a.dtype.kind == "f":
            return self.node("Constant", [], value=a)
        self.count += 1
        name = "%s_c%d" % (self.out, self.count)
        self.tensors.append(tensor(name, KINDS[a.dtype.name], a.shape, a.tobytes()))
        return name

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def number(self, v):
        return self.const(np.array(v, np.float32))

    def cast(self, x, kind=FLOAT):
        return self.node("Cast", [x], to=kind)


def emit_node(b, node, shapes):
    b.owner, b.out = node.get("share") or node["name"], node["name"]
    op = OPS[node["op"]]
    result = op.emit(b, node["attr"], node["in"], [shapes[x] for x in node["in"]])
    b.node("Identity", [result], out=node["name"])


def parameters(node, ins):
    b = Builder()
    names = ["x%d" % k for k in range(len(ins))]
    emit_node(b, dict(node, **{"in": names, "share": None, "name": "n"}), dict(zip(names, ins)))
    return {k[2:]: v for k, v in b.params.items()}


def weight_shapes(node, ins):
    return {k: v for k, v in parameters(node, ins).items() if k not in ("mean", "variance")}


def build(net, shapes):
    b = Builder(np.random.default_rng([net["data_seed"], 2]), net.get("opset", OPSET))
    for n in net["nodes"]:
        emit_node(b, n, shapes)
    return b


def values(net, shapes):
    """{name: what the file has for it} of every parameter."""
    return build(net, shapes).values


def model(net, shapes):
    """The bytes of the file."""
    b = build(net, shapes)
    ports = [(11, port(i["name"], INT64 if i["rows"] else FLOAT, ["N"] + i["shape"])) for i in net["inputs"]]
    ports += [(12, port(o, FLOAT, ["N"] + shapes[o])) for o in net["outputs"]]
    graph = message(*[(1, n) for n in b.nodes], (2, "net"), *[(5, t) for t in b.tensors], *ports)
    return message((1, 8), (8, message((1, ""), (2, b.opset))), (7, graph))


def plain(attr):
    """The attributes of the node."""
    return {k: v for k, v in attr.items() if not k.startswith("_")}


def unit(r, low, high, digits=2):
    return round(float(r.uniform(low, high)), digits)


def same(o, shapes):
    return list(shapes[0])


def always(r, shapes):
    return {}


# ---------------------------------------------------------------------------------------------------------- elementwise
def unary(kind, domain=None, weight=0.25, propose=always, exact=False, train=True, emit=None):
    """domain: what is done before, so that the input is where the function is smooth: (operator, factor, offset)"""

    def build(b, o, ins, shapes):
        x = ins[0]
        if domain:
            op, factor, offset = domain
            x = b.node(op, [x])
            if factor != 1:
                x = b.node("Mul", [x, b.number(factor)])
            if offset:
                x = b.node("Add", [x, b.number(offset)])
        return emit(b, o, x) if emit else b.node(kind, [x], **plain(o))

    OPS[kind] = Op(propose, same, build, exact=exact, weight=weight, train=train)


for _name, _domain in (
    ("Abs", None),
    ("Acos", ("Tanh", 0.8, 0)),
    ("Acosh", ("Softplus", 1, 1.2)),
    ("Asin", ("Tanh", 0.8, 0)),
    ("Asinh", None),
    ("Atan", None),
    ("Atanh", ("Tanh", 0.8, 0)),
    ("Cos", None),
    ("Cosh", ("Tanh", 1.5, 0)),
    ("Erf", None),
    ("Exp", ("Tanh", 1.5, 0)),
    ("Log", ("Softplus", 1, 0.5)),
    ("Neg", None),
    ("Reciprocal", ("Softplus", 1, 0.5)),
    ("Sin", None),
    ("Sinh", ("Tanh", 1.5, 0)),
    ("Sqrt", ("Softplus", 1, 0.1)),
    ("Tan", ("Tanh", 1, 0)),
    ("HardSwish", None),
    ("Sigmoid", None),
    ("Softplus", None),
    ("Softsign", None),
    ("Tanh", None),
    ("Mish", None),
    ("Identity", None),
):
    unary(_name, _domain)
unary("Relu", weight=1.5)
unary("Gelu", weight=0.7, propose=lambda r, s: {"approximate": "tanh"} if chance(r, 0.4) else {})
unary("Elu", propose=lambda r, s: {"alpha": unit(r, 0.5, 1.5)})
unary("Selu")
unary("Celu", propose=lambda r, s: {"alpha": unit(r, 0.5, 1.5)})
unary("LeakyRelu", propose=lambda r, s: {"alpha": unit(r, 0.01, 0.4)})
unary("HardSigmoid", propose=lambda r, s: {"alpha": unit(r, 0.1, 0.4), "beta": unit(r, 0.3, 0.7)})
unary("ThresholdedRelu", propose=lambda r, s: {"alpha": unit(r, 0.1, 1)}, exact=True)
unary("Shrink", propose=lambda r, s: (lambda v: {"bias": v, "lambd": v})(unit(r, 0.1, 0.6)))
for _name in ("Ceil", "Floor", "Round", "Sign"):
    unary(_name, exact=True, weight=0.15)
unary("IsNaN", emit=lambda b, o, x: b.node("Where", [b.node("IsNaN", [x]), b.number(0), x]))
unary("IsInf", emit=lambda b, o, x: b.node("Where", [b.node("IsInf", [x]), b.number(0), x]))
unary("CastLike", emit=lambda b, o, x: b.node("CastLike", [b.cast(x, 11), b.number(1)]))
unary("Cast", emit=lambda b, o, x: b.cast(b.cast(x, 11)))
unary("Shape", emit=lambda b, o, x: b.node("Reshape", [x, b.node("Shape", [x])]))
unary(
    "Constant",
    emit=lambda b, o, x: b.node("Add", [x, b.number(o["_value"])]),
    propose=lambda r, s: {"_value": unit(r, -0.5, 0.5)},
)
unary(
    "ConstantOfShape",
    emit=lambda b, o, x: b.node("Add", [x, b.node("ConstantOfShape", [b.ints(1)], value=np.array([0.25], np.float32))]),
)
unary("Size", emit=lambda b, o, x: b.node("Div", [x, b.cast(b.node("Size", [b.ints(1, 2, 3)]))]))
unary("Not", exact=True, emit=lambda b, o, x: b.cast(b.node("Not", [b.node("Greater", [x, b.number(0)])])))
unary(
    "BitShift",
    exact=True,
    emit=lambda b, o, x: b.cast(
        b.node("BitShift", [b.cast(b.node("Abs", [x]), 2), b.const(np.array(1, np.uint8))], direction=o["direction"])
    ),
    propose=lambda r, s: {"direction": pick(r, ["LEFT", "RIGHT"])},
)
unary(
    "Mod",
    exact=True,
    emit=lambda b, o, x: b.node("Mod", [x, b.number(o["_by"])], fmod=1),
    propose=lambda r, s: {"_by": unit(r, 0.3, 1.5)},
)


def clip_emit(b, o, ins, shapes):
    return b.node("Clip", [ins[0], b.number(o["_min"]), b.number(o["_max"])])


OPS["Clip"] = Op(lambda r, s: {"_min": unit(r, -1.5, -0.2), "_max": unit(r, 0.2, 1.5)}, same, clip_emit, weight=0.5)


def prelu_emit(b, o, ins, shapes):
    return b.node("PRelu", [ins[0], b.param("slope", [shapes[0][0]] + [1] * (len(shapes[0]) - 1), scale=0.2)])


OPS["PRelu"] = Op(lambda r, s: {} if s[0] else None, same, prelu_emit, weight=0.5)


def all_same(o, shapes):
    need(all(s == shapes[0] for s in shapes))
    return list(shapes[0])


def equal_shapes(r, shapes):
    return {} if all(s == shapes[0] for s in shapes) else None


def positive(b, x):
    return b.node("Add", [b.node("Softplus", [x]), b.number(0.5)])


def binary(kind, emit, exact=False, weight=0.6):
    OPS[kind] = Op(equal_shapes, all_same, emit, (2, 2), exact=exact, weight=weight)


for _name in ("Add", "Sub", "Mul"):
    binary(_name, lambda b, o, ins, shapes, k=_name: b.node(k, ins), weight=1.5 if _name == "Add" else 0.6)
binary("Div", lambda b, o, ins, shapes: b.node("Div", [ins[0], positive(b, ins[1])]))
for _name in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"):
    binary(_name, lambda b, o, ins, shapes, k=_name: b.node("Where", [b.node(k, ins)] + list(ins)), weight=0.15)
for _name in ("And", "Or", "Xor"):
    binary(
        _name,
        lambda b, o, ins, shapes, k=_name: b.cast(b.node(k, [b.node("Greater", [x, b.number(0)]) for x in ins])),
        exact=True,
        weight=0.15,
    )
binary("Where", lambda b, o, ins, shapes: b.node("Where", [b.node("Less", ins)] + list(ins)))
for _name, _most in (("Max", 3), ("Min", 3), ("Mean", 3), ("Sum", 4)):
    OPS[_name] = Op(equal_shapes, all_same, lambda b, o, ins, shapes, k=_name: b.node(k, ins), (2, _most), weight=0.6)


def pow_emit(b, o, ins, shapes):
    if o.get("_square"):
        return b.node("Pow", [b.node("Tanh", [ins[0]]), b.number(2)])
    return b.node("Pow", [positive(b, ins[0]), b.number(o["_by"])])


OPS["Pow"] = Op(lambda r, s: {"_square": 1} if chance(r, 0.4) else {"_by": unit(r, 0.3, 2)}, same, pow_emit, weight=0.4)


# -------------------------------------------------------------------------------------------------------------- windows
def pads_out(o, d, n, space):
    """The output's extent in dimension d; n: the input's"""
    k, stride, dilation = o["kernel_shape"][d], o.get("strides", [1] * space)[d], o.get("dilations", [1] * space)[d]
    if o.get("auto_pad", "NOTSET").startswith("SAME"):
        return -(-n // stride)
    pads = o.get("pads", [0] * (2 * space))
    reach = (k - 1) * dilation + 1
    room = n + pads[d] + pads[space + d] - reach
    need(room >= 0)
    out = room // stride + 1
    if o.get("ceil_mode"):
        out = -(-room // stride) + 1
        if (out - 1) * stride >= n + pads[d]:
            out -= 1
    return out


def window_propose(r, space, least=1, most=5):
    o = {"kernel_shape": [int(r.integers(least, most + 1 if space < 3 else 4)) for _ in range(space)]}
    if chance(r, 0.4):
        o["strides"] = [int(r.integers(1, 4)) for _ in range(space)]
    if chance(r, 0.25):
        o["dilations"] = [int(r.integers(1, 4)) for _ in range(space)]
    how = int(r.integers(4))
    if how == 0 and "dilations" not in o:
        o["auto_pad"] = pick(r, ["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif how > 1:
        o["pads"] = [int(r.integers(0, max(1, k // 2 + 1))) for k in o["kernel_shape"]] * 2
        if how == 3:
            o["pads"] = [int(r.integers(0, max(1, k // 2 + 1))) for k in o["kernel_shape"] * 2]
    return o


CHANNELS = [1, 2, 3, 4, 5, 8, 8, 12, 16, 16, 24, 32, 33, 48, 64]


def space_of(shape):
    return len(shape) - 1


def conv_propose(r, shapes):
    space = space_of(shapes[0])
    if space not in (1, 2, 3):
        return None
    o = dict(window_propose(r, space), _filters=pick(r, CHANNELS))
    channels = shapes[0][0]
    if chance(r, 0.3):
        groups = pick(r, [g for g in (2, 3, 4, channels) if channels % g == 0] or [1])
        o.update(group=groups, _filters=groups * int(r.integers(1, 4 if groups > 8 else 9)))
    if chance(r, 0.25):
        o["_bias"] = False
    return o


def conv_infer(o, shapes):
    space = space_of(shapes[0])
    need(
        space == len(o["kernel_shape"])
        and shapes[0][0] % o.get("group", 1) == 0
        and o["_filters"] % o.get("group", 1) == 0
    )
    return [o["_filters"]] + [pads_out(o, d, n, space) for d, n in enumerate(shapes[0][1:])]


def conv_emit(b, o, ins, shapes):
    each = shapes[0][0] // o.get("group", 1)
    w = b.param("w", [o["_filters"], each] + o["kernel_shape"], fan=each * product(o["kernel_shape"]))
    bias = [b.param("b", [o["_filters"]], scale=0.1)] if o.get("_bias", True) else []
    return b.node("Conv", [ins[0], w] + bias, **plain(o))


OPS["Conv"] = Op(conv_propose, conv_infer, conv_emit, weight=6)


def transpose_propose(r, shapes):
    o = conv_propose(r, shapes)
    if o is None:
        return None
    if "strides" in o and chance(r, 0.3):
        o["output_padding"] = [int(r.integers(0, s)) for s in o["strides"]]
    return o


def transpose_infer(o, shapes):
    space = space_of(shapes[0])
    need(
        space == len(o["kernel_shape"])
        and shapes[0][0] % o.get("group", 1) == 0
        and o["_filters"] % o.get("group", 1) == 0
    )
    out = []
    for d, n in enumerate(shapes[0][1:]):
        stride, dilation = o.get("strides", [1] * space)[d], o.get("dilations", [1] * space)[d]
        full = stride * (n - 1) + o.get("output_padding", [0] * space)[d] + (o["kernel_shape"][d] - 1) * dilation + 1
        if o.get("auto_pad", "NOTSET").startswith("SAME"):
            need(full >= n * stride)
            out.append(n * stride)
        else:
            pads = o.get("pads", [0] * (2 * space))
            out.append(full - pads[d] - pads[space + d])
    need(min(out) >= 1)
    return [o["_filters"]] + out


def transpose_emit(b, o, ins, shapes):
    group = o.get("group", 1)
    w = b.param(
        "w",
        [shapes[0][0], o["_filters"] // group] + o["kernel_shape"],
        fan=shapes[0][0] // group * product(o["kernel_shape"]),
    )
    bias = [b.param("b", [o["_filters"]], scale=0.1)] if o.get("_bias", True) else []
    return b.node("ConvTranspose", [ins[0], w] + bias, **plain(o))


OPS["ConvTranspose"] = Op(transpose_propose, transpose_infer, transpose_emit, weight=2)


def pool_propose(kind):
    def propose(r, shapes):
        space = space_of(shapes[0])
        if space not in (1, 2, 3):
            return None
        o = window_propose(r, space, 1, 3)
        if chance(r, 0.3):
            o["ceil_mode"] = 1
            o.pop("auto_pad", None)
        if kind == "AveragePool" and chance(r, 0.4):
            o["count_include_pad"] = 1
        return o

    return propose


def pool_infer(o, shapes):
    space = space_of(shapes[0])
    need(space == len(o["kernel_shape"]))
    pads = o.get("pads", [0] * (2 * space))
    need(all(pads[d] < o["kernel_shape"][d] and pads[space + d] < o["kernel_shape"][d] for d in range(space)))
    # A window that holds nothing but border has no maximum.
    need("dilations" not in o or max(o["dilations"]) == 1 or max(pads) == 0)
    return [shapes[0][0]] + [pads_out(o, d, n, space) for d, n in enumerate(shapes[0][1:])]


for _name in ("MaxPool", "AveragePool"):
    OPS[_name] = Op(
        pool_propose(_name), pool_infer, lambda b, o, ins, shapes, k=_name: b.node(k, ins, **plain(o)), weight=1.5
    )


def global_infer(o, shapes):
    need(len(shapes[0]) >= 2)
    return [shapes[0][0]] + [1] * (len(shapes[0]) - 1)


for _name in ("GlobalAveragePool", "GlobalMaxPool"):
    OPS[_name] = Op(
        lambda r, s: {} if len(s[0]) >= 2 else None,
        global_infer,
        lambda b, o, ins, shapes, k=_name: b.node(k, ins),
        weight=0.1,
    )


def lrn_infer(o, shapes):
    need(len(shapes[0]) >= 2)
    return list(shapes[0])


OPS["LRN"] = Op(
    lambda r, s: {"size": pick(r, [1, 3, 5]), "alpha": unit(r, 0.01, 0.3), "beta": 0.75, "bias": unit(r, 1, 2)}
    if len(s[0]) >= 2
    else None,
    lrn_infer,
    lambda b, o, ins, shapes: b.node("LRN", ins, **plain(o)),
    weight=0.5,
)


# ------------------------------------------------------------------------------------------------------- normalisations
def batch_norm_emit(b, o, ins, shapes):
    n = [shapes[0][0]]
    return b.node(
        "BatchNormalization",
        [
            ins[0],
            b.param("scale", n, mean=1.0, scale=0.2),
            b.param("shift", n, scale=0.1),
            b.param("mean", n, scale=0.1),
            b.param("variance", n, mean=1.0, scale=0.2),
        ],
        **plain(o)
    )


def some_shape(least):
    def infer(o, shapes):
        need(len(shapes[0]) >= least)
        return list(shapes[0])

    return infer


OPS["BatchNormalization"] = Op(
    lambda r, s: {"epsilon": 0.001, "momentum": unit(r, 0.5, 0.95)} if s[0] else None,
    some_shape(1),
    batch_norm_emit,
    weight=2.5,
)


def affine(b, n, rank=None):
    return [b.param("scale", n, mean=1.0, scale=0.2), b.param("shift", n, scale=0.1)]


def spatial_norm(r, shapes):
    return len(shapes[0]) >= 2 and product(shapes[0][1:]) > 1


OPS["InstanceNormalization"] = Op(
    lambda r, s: {"epsilon": 0.001} if spatial_norm(r, s) else None,
    some_shape(2),
    lambda b, o, ins, shapes: b.node("InstanceNormalization", ins + affine(b, [shapes[0][0]]), **plain(o)),
)


def group_norm_propose(r, shapes):
    if not spatial_norm(r, shapes):
        return None
    return {"num_groups": pick(r, [g for g in (1, 2, 3, 4, 8) if shapes[0][0] % g == 0]), "epsilon": 0.001}


def group_norm_infer(o, shapes):
    need(len(shapes[0]) >= 2 and shapes[0][0] % o["num_groups"] == 0)
    return list(shapes[0])


OPS["GroupNormalization"] = Op(
    group_norm_propose,
    group_norm_infer,
    lambda b, o, ins, shapes: b.node(
        "GroupNormalization", ins + affine(b, [shapes[0][0] if b.opset >= 21 else o["num_groups"]]), **plain(o)
    ),
)


def layer_norm_propose(r, shapes):
    rank = len(shapes[0])
    if rank == 0:
        return None
    axis = -1 if chance(r, 0.6) else int(r.integers(1, rank + 1))
    if product(shapes[0] if axis != -1 else shapes[0][-1:]) > 50000 or shapes[0][-1] < 2:
        return None
    return {"axis": axis, "epsilon": 0.001}


def layer_norm_emit(b, o, ins, shapes):
    n = shapes[0][-1:] if o["axis"] == -1 else shapes[0][o["axis"] - 1 :]
    return b.node("LayerNormalization", ins + affine(b, n), **plain(o))


def axis_infer(o, shapes):
    need(o["axis"] == -1 and shapes[0] or 1 <= o["axis"] <= len(shapes[0]))
    return list(shapes[0])


def axis_propose(r, shapes):
    if not shapes[0]:
        return None
    return {"axis": pick(r, [-1, int(r.integers(1, len(shapes[0]) + 1))])}


OPS["LayerNormalization"] = Op(layer_norm_propose, axis_infer, layer_norm_emit, weight=1.5)
OPS["LpNormalization"] = Op(
    lambda r, s: dict(axis_propose(r, s) or {}, p=int(r.integers(1, 3))) if s[0] and min(s[0]) > 1 else None,
    axis_infer,
    lambda b, o, ins, shapes: b.node("LpNormalization", ins, **plain(o)),
    weight=0.4,
)


def mvn_propose(r, shapes):
    rank = len(shapes[0])
    if not rank or product(shapes[0]) < 8:
        return None
    return {"axes": list(range(1 + (rank > 1), rank + 1))}


def mvn_infer(o, shapes):
    need(max(o["axes"]) == len(shapes[0]) and product(shapes[0][o["axes"][0] - 1 :]) >= 4)
    return list(shapes[0])


OPS["MeanVarianceNormalization"] = Op(
    mvn_propose, mvn_infer, lambda b, o, ins, shapes: b.node("MeanVarianceNormalization", ins, **plain(o)), weight=0.4
)
for _name in ("Softmax", "LogSoftmax"):
    OPS[_name] = Op(axis_propose, axis_infer, lambda b, o, ins, shapes, k=_name: b.node(k, ins, **plain(o)), weight=0.6)
OPS["Hardmax"] = Op(
    axis_propose, axis_infer, lambda b, o, ins, shapes: b.node("Hardmax", ins, **plain(o)), exact=True, weight=0.2
)
OPS["Dropout"] = Op(
    lambda r, s: {"_ratio": unit(r, 0.05, 0.5)},
    same,
    lambda b, o, ins, shapes: b.node("Dropout", [ins[0], b.number(o["_ratio"])]),
    weight=0.5,
    drops=True,
)


# ------------------------------------------------------------------------------------------------------------- products
UNITS = [1, 2, 3, 5, 8, 10, 16, 24, 32, 64, 100, 128, 200, 256, 400]


def gemm_infer(o, shapes):
    need(len(shapes[0]) == 1)
    return [o["_units"]]


def gemm_emit(b, o, ins, shapes):
    n, units = shapes[0][0], o["_units"]
    w = b.param("w", [units, n] if o.get("transB") else [n, units], fan=n)
    bias = [b.param("b", [units], scale=0.1)] if o.get("_bias", True) else []
    return b.node("Gemm", [ins[0], w] + bias, **plain(o))


def gemm_propose(r, shapes):
    if len(shapes[0]) != 1:
        return None
    o = {"_units": pick(r, UNITS), "transB": int(r.integers(2))}
    if chance(r, 0.2):
        o.update(alpha=unit(r, 0.5, 1.5), beta=unit(r, 0.5, 1.5))
    if chance(r, 0.2):
        o["_bias"] = False
    return o


OPS["Gemm"] = Op(gemm_propose, gemm_infer, gemm_emit, weight=3)


def matmul_emit(b, o, ins, shapes):
    if "_units" in o:
        y = b.node("MatMul", [ins[0], b.param("w", [shapes[0][-1], o["_units"]], fan=shapes[0][-1])])
        return b.node("Add", [y, b.param("b", [o["_units"]], scale=0.1)]) if o.get("_bias", True) else y
    rank = len(shapes[1]) + 1
    perm = list(range(rank - 2)) + [rank - 1, rank - 2]
    y = b.node("MatMul", [ins[0], b.node("Transpose", [ins[1]], perm=perm)])
    return b.node("Mul", [y, b.number(1 / np.sqrt(shapes[0][-1]))])


def matmul_infer(o, shapes):
    need(len(shapes[0]) >= 1)
    if "_units" in o:
        need(len(shapes) == 1)
        return shapes[0][:-1] + [o["_units"]]
    need(
        len(shapes) == 2
        and len(shapes[0]) == len(shapes[1]) >= 2
        and shapes[0][:-2] == shapes[1][:-2]
        and shapes[0][-1] == shapes[1][-1]
    )
    return shapes[0][:-1] + [shapes[1][-2]]


def matmul_propose(r, shapes):
    if len(shapes) == 2:
        a, c = shapes
        ok = len(a) == len(c) >= 2 and a[:-2] == c[:-2] and a[-1] == c[-1]
        return {"_pair": 1} if ok else None
    if not shapes[0]:
        return None
    o = {"_units": pick(r, UNITS)}
    if chance(r, 0.2):
        o["_bias"] = False
    return o


OPS["MatMul"] = Op(matmul_propose, matmul_infer, matmul_emit, (1, 2), weight=3)


def einsum_propose(r, shapes):
    a = shapes[0]
    if len(shapes) == 1:
        return {"_units": pick(r, UNITS)} if len(a) in (1, 2, 3) else None
    return {"_pair": 1} if len(a) == len(shapes[1]) == 2 and a[1] == shapes[1][1] else None


def einsum_infer(o, shapes):
    if len(shapes) == 1:
        need(len(shapes[0]) in (1, 2, 3) and "_units" in o)
        return shapes[0][:-1] + [o["_units"]]
    need(len(shapes[0]) == len(shapes[1]) == 2 and shapes[0][1] == shapes[1][1] and "_pair" in o)
    return [shapes[0][0], shapes[1][0]]


def einsum_emit(b, o, ins, shapes):
    if len(ins) == 2:
        return b.node("Mul", [b.node("Einsum", ins, equation="bij,bkj->bik"), b.number(1 / np.sqrt(shapes[0][1]))])
    keep = "bij"[: len(shapes[0])]
    return b.node(
        "Einsum",
        [ins[0], b.param("w", [shapes[0][-1], o["_units"]], fan=shapes[0][-1])],
        equation="%sx,xy->%sy" % (keep, keep),
    )


OPS["Einsum"] = Op(einsum_propose, einsum_infer, einsum_emit, (1, 2))


# --------------------------------------------------------------------------------------------------------------- shapes
def concat_propose(r, shapes):
    rank = len(shapes[0])
    axes = [
        a
        for a in range(rank)
        if all(len(s) == rank and s[:a] + s[a + 1 :] == shapes[0][:a] + shapes[0][a + 1 :] for s in shapes)
    ]
    return {"axis": 1 + (axes[0] if chance(r, 0.6) else pick(r, axes))} if axes else None


def concat_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]))
    need(all(len(s) == len(shapes[0]) and s[:a] + s[a + 1 :] == shapes[0][:a] + shapes[0][a + 1 :] for s in shapes))
    return shapes[0][:a] + [sum(s[a] for s in shapes)] + shapes[0][a + 1 :]


OPS["Concat"] = Op(
    concat_propose, concat_infer, lambda b, o, ins, shapes: b.node("Concat", ins, **plain(o)), (2, 3), weight=1.5
)


def split_propose(r, shapes):
    axes = [a for a, n in enumerate(shapes[0]) if n >= 2]
    if not axes:
        return None
    a = pick(r, axes)
    first = int(r.integers(1, shapes[0][a]))
    return {"axis": a + 1, "_sizes": [first, shapes[0][a] - first], "_take": int(r.integers(2))}


def split_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]) and sum(o["_sizes"]) == shapes[0][a])
    return shapes[0][:a] + [o["_sizes"][o["_take"]]] + shapes[0][a + 1 :]


OPS["Split"] = Op(
    split_propose,
    split_infer,
    lambda b, o, ins, shapes: b.node("Split", [ins[0], b.ints(*o["_sizes"])], n_out=2, take=o["_take"], **plain(o)),
    weight=0.7,
)


def slice_propose(r, shapes):
    if not shapes[0]:
        return None
    a = int(r.integers(len(shapes[0])))
    n = shapes[0][a]
    start = int(r.integers(0, n))
    step = pick(r, [1, 1, 2, 3])
    o = {"_axis": a + 1, "_start": start, "_end": int(r.integers(start + 1, n + 1)), "_step": step}
    if chance(r, 0.25):
        o.update(_start=-1, _end=-(1 << 62), _step=-1)
    return o


def slice_infer(o, shapes):
    a = o["_axis"] - 1
    need(0 <= a < len(shapes[0]))
    count = len(range(shapes[0][a])[slice(o["_start"], None if o["_end"] < 0 else o["_end"], o["_step"])])
    need(count >= 1)
    return shapes[0][:a] + [count] + shapes[0][a + 1 :]


OPS["Slice"] = Op(
    slice_propose,
    slice_infer,
    lambda b, o, ins, shapes: b.node(
        "Slice", [ins[0], b.ints(o["_start"]), b.ints(o["_end"]), b.ints(o["_axis"]), b.ints(o["_step"])]
    ),
)


def pad_propose(r, shapes):
    if not shapes[0]:
        return None
    mode = pick(r, ["constant", "constant", "reflect", "edge"])
    most = [min(3, n - 1) if mode == "reflect" else 3 for n in shapes[0]]
    pads = [int(r.integers(0, m + 1)) if chance(r, 0.5) else 0 for m in most + most]
    return {"mode": mode, "_pads": pads}


def pad_infer(o, shapes):
    rank = len(shapes[0])
    need(2 * rank == len(o["_pads"]))
    need(o["mode"] != "reflect" or all(max(o["_pads"][d], o["_pads"][rank + d]) < n for d, n in enumerate(shapes[0])))
    return [n + o["_pads"][d] + o["_pads"][rank + d] for d, n in enumerate(shapes[0])]


def pad_emit(b, o, ins, shapes):
    rank = len(shapes[0])
    return b.node("Pad", [ins[0], b.ints(0, *o["_pads"][:rank], 0, *o["_pads"][rank:])], **plain(o))


OPS["Pad"] = Op(pad_propose, pad_infer, pad_emit)
OPS["Pad"].trains = lambda o: o["mode"] == "constant"  # others pass no gradient


def reshape_propose(r, shapes):
    n = product(shapes[0])
    if n > 1 << 20:
        return None
    to, rest = [], n
    for _ in range(int(r.integers(0, 3))):
        options = (
            [d for d in range(1, rest + 1) if rest % d == 0]
            if rest < 5000
            else [d for d in shapes[0] if rest % d == 0] or [1]
        )
        to.append(pick(r, options))
        rest //= to[-1]
    return {"_to": to + [rest]}


def reshape_infer(o, shapes):
    need(product(o["_to"]) == product(shapes[0]))
    return list(o["_to"])


OPS["Reshape"] = Op(
    reshape_propose, reshape_infer, lambda b, o, ins, shapes: b.node("Reshape", [ins[0], b.ints(0, *o["_to"])])
)
OPS["Flatten"] = Op(
    lambda r, s: {"axis": 1} if len(s[0]) > 1 else None,
    lambda o, s: [product(s[0])],
    lambda b, o, ins, shapes: b.node("Flatten", ins, **plain(o)),
    weight=0.4,
)


def squeeze_propose(r, shapes):
    ones = [a for a, n in enumerate(shapes[0]) if n == 1]
    return {"_axis": pick(r, ones) + 1} if ones and len(shapes[0]) > 1 else None


def squeeze_infer(o, shapes):
    a = o["_axis"] - 1
    need(0 <= a < len(shapes[0]) and len(shapes[0]) > 1 and shapes[0][a] == 1)
    return shapes[0][:a] + shapes[0][a + 1 :]


def unsqueeze_infer(o, shapes):
    a = o["_axis"] - 1
    need(0 <= a <= len(shapes[0]) < 4)
    return shapes[0][:a] + [1] + shapes[0][a:]


OPS["Squeeze"] = Op(
    squeeze_propose, squeeze_infer, lambda b, o, ins, shapes: b.node("Squeeze", [ins[0], b.ints(o["_axis"])])
)
OPS["Unsqueeze"] = Op(
    lambda r, s: {"_axis": int(r.integers(1, len(s[0]) + 2))} if len(s[0]) < 4 else None,
    unsqueeze_infer,
    lambda b, o, ins, shapes: b.node("Unsqueeze", [ins[0], b.ints(o["_axis"])]),
    weight=0.5,
)


def perm_infer(o, shapes):
    need(len(o["perm"]) == len(shapes[0]) + 1)
    return [shapes[0][i - 1] for i in o["perm"][1:]]


OPS["Transpose"] = Op(
    lambda r, s: {"perm": [0] + [int(i) + 1 for i in r.permutation(len(s[0]))]} if len(s[0]) > 1 else None,
    perm_infer,
    lambda b, o, ins, shapes: b.node("Transpose", ins, **plain(o)),
)


def expand_propose(r, shapes):
    ones = [a for a, n in enumerate(shapes[0]) if n == 1]
    return {"_axis": pick(r, ones) + 1, "_times": int(r.integers(2, 6))} if ones else None


def times_infer(only_ones):
    def infer(o, shapes):
        a = o["_axis"] - 1
        need(0 <= a < len(shapes[0]) and (not only_ones or shapes[0][a] == 1))
        return shapes[0][:a] + [shapes[0][a] * o["_times"]] + shapes[0][a + 1 :]

    return infer


def expand_emit(b, o, ins, shapes):
    to = [1] * (len(shapes[0]) + 1)
    to[o["_axis"]] = o["_times"]
    return b.node("Expand", [ins[0], b.ints(*to)])


def tile_emit(b, o, ins, shapes):
    to = [1] * (len(shapes[0]) + 1)
    to[o["_axis"]] = o["_times"]
    return b.node("Tile", [ins[0], b.ints(*to)])


OPS["Expand"] = Op(expand_propose, times_infer(True), expand_emit)
OPS["Tile"] = Op(
    lambda r, s: {"_axis": int(r.integers(1, len(s[0]) + 1)), "_times": int(r.integers(2, 4))} if s[0] else None,
    times_infer(False),
    tile_emit,
    weight=0.5,
)


def depth_propose(r, shapes):
    if len(shapes[0]) != 3:
        return None
    k = pick(r, [2, 3])
    return {"blocksize": k, "mode": pick(r, ["DCR", "CRD"])} if shapes[0][0] % (k * k) == 0 else None


def depth_infer(o, shapes):
    k = o["blocksize"]
    need(len(shapes[0]) == 3 and shapes[0][0] % (k * k) == 0)
    return [shapes[0][0] // (k * k), shapes[0][1] * k, shapes[0][2] * k]


def space_infer(o, shapes):
    k = o["blocksize"]
    need(len(shapes[0]) == 3 and shapes[0][1] % k == 0 and shapes[0][2] % k == 0)
    return [shapes[0][0] * k * k, shapes[0][1] // k, shapes[0][2] // k]


OPS["DepthToSpace"] = Op(depth_propose, depth_infer, lambda b, o, ins, shapes: b.node("DepthToSpace", ins, **plain(o)))
OPS["SpaceToDepth"] = Op(
    lambda r, s: {"blocksize": pick(r, [2, 3])} if len(s[0]) == 3 else None,
    space_infer,
    lambda b, o, ins, shapes: b.node("SpaceToDepth", ins, **plain(o)),
)


def trilu_infer(o, shapes):
    need(len(shapes[0]) >= 2)
    return list(shapes[0])


OPS["Trilu"] = Op(
    lambda r, s: {"upper": int(r.integers(2))} if len(s[0]) >= 2 else None,
    trilu_infer,
    lambda b, o, ins, shapes: b.node("Trilu", ins, **plain(o)),
    weight=0.4,
)


# ------------------------------------------------------------------------------------------------------------- resizing
def resize_propose(r, shapes):
    space = space_of(shapes[0])
    if space not in (1, 2, 3):
        return None
    o = {"mode": pick(r, ["nearest", "linear", "linear"] + (["cubic"] if space == 2 else []))}
    o["coordinate_transformation_mode"] = pick(r, ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    if o["mode"] == "nearest":
        o["nearest_mode"] = pick(r, ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if chance(r, 0.5):
        o["_sizes"] = [int(r.integers(max(1, n // 2), 2 * n + 2)) for n in shapes[0][1:]]
    else:
        fractions = (
            [] if o["coordinate_transformation_mode"] == "align_corners" else [0.5, 1.5]
        )  # whose extents it takes only where they are whole
        o["_scales"] = [pick(r, [1.0, 2.0, 3.0] + fractions) for _ in range(space)]
    return o


def resize_infer(o, shapes):
    space = space_of(shapes[0])
    need(space in (1, 2, 3) and len(o.get("_sizes", o.get("_scales"))) == space)
    out = list(o["_sizes"]) if "_sizes" in o else [int(n * f) for n, f in zip(shapes[0][1:], o["_scales"])]
    need(min(out) >= 1)
    return [shapes[0][0]] + out


def resize_emit(b, o, ins, shapes):
    if "_sizes" in o:  # the batch is not known: only the dimensions of space are given
        space = space_of(shapes[0])
        return b.node("Resize", [ins[0], "", "", b.ints(*o["_sizes"])], axes=list(range(2, 2 + space)), **plain(o))
    return b.node("Resize", [ins[0], "", b.const(np.array([1, 1] + o["_scales"], np.float32))], **plain(o))


OPS["Resize"] = Op(resize_propose, resize_infer, resize_emit, weight=1.5)


def upsample_propose(r, shapes):
    space = space_of(shapes[0])
    return (
        {"mode": pick(r, ["nearest", "linear"]), "_scales": [pick(r, [1.0, 2.0, 3.0]) for _ in range(space)]}
        if space in (1, 2, 3)
        else None
    )


OPS["Upsample"] = Op(
    upsample_propose,
    resize_infer,
    lambda b, o, ins, shapes: b.node(
        "Upsample", [ins[0], b.const(np.array([1, 1] + o["_scales"], np.float32))], **plain(o)
    ),
)


def grid_propose(r, shapes):
    if len(shapes[0]) != 3:
        return None
    return {
        "mode": pick(r, ["bilinear", "nearest"]),
        "padding_mode": pick(r, ["zeros", "border", "reflection"]),
        "align_corners": int(r.integers(2)),
        "_size": [int(r.integers(2, 9)), int(r.integers(2, 9))],
        "_seed": int(r.integers(1000)),
    }


def grid_infer(o, shapes):
    need(len(shapes[0]) == 3)
    return [shapes[0][0]] + o["_size"]


def grid_emit(b, o, ins, shapes):
    """The same places in every sample: a constant, added to zeros of the batch."""
    h, w = o["_size"]
    grid = np.random.default_rng(o["_seed"]).uniform(-1.1, 1.1, [1, h, w, 2]).astype(np.float32)
    batch = b.node("ReduceSum", [ins[0], b.ints(1, 2, 3)], keepdims=1)
    zero = b.node("Mul", [batch, b.number(0)])
    return b.node("GridSample", [ins[0], b.node("Add", [zero, b.const(grid)])], **plain(o))


OPS["GridSample"] = Op(grid_propose, grid_infer, grid_emit, weight=0.6)


# ------------------------------------------------------------------------------------------------------------- reducing
def reduce_propose(r, shapes):
    rank = len(shapes[0])
    if rank == 0:
        return None
    axes = sorted(int(a) + 1 for a in r.permutation(rank)[: int(r.integers(1, rank + 1))])
    keep = int(r.integers(2)) if len(axes) < rank else 1
    return {"keepdims": keep, "_axes": axes}


def reduce_infer(o, shapes):
    need(max(o["_axes"]) <= len(shapes[0]))
    out = (
        [1 if d + 1 in o["_axes"] else n for d, n in enumerate(shapes[0])]
        if o["keepdims"]
        else [n for d, n in enumerate(shapes[0]) if d + 1 not in o["_axes"]]
    )
    need(out)
    return out


def reduce_emit(kind):
    def emit(b, o, ins, shapes):
        x = ins[0]
        if kind in ("ReduceLogSum", "ReduceProd", "ReduceL2"):
            x = positive(b, x)
        if kind == "ReduceProd":  # of numbers about 1
            x = b.node("Exp", [b.node("Mul", [b.node("Tanh", [x]), b.number(0.01)])])
        y = b.node(kind, [x, b.ints(*o["_axes"])], **plain(o))
        many = product([shapes[0][a - 1] for a in o["_axes"]])
        if kind in ("ReduceL1", "ReduceSum", "ReduceSumSquare"):
            y = b.node("Mul", [y, b.number(1 / many)])
        return y

    return emit


for _name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
    OPS["Reduce" + _name] = Op(reduce_propose, reduce_infer, reduce_emit("Reduce" + _name), weight=0.08)


def arg_propose(r, shapes):
    return {"axis": int(r.integers(1, len(shapes[0]) + 1)), "keepdims": 1} if shapes[0] else None


def arg_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]))
    return shapes[0][:a] + [1] + shapes[0][a + 1 :]


for _name in ("ArgMax", "ArgMin"):
    OPS[_name] = Op(
        arg_propose,
        arg_infer,
        lambda b, o, ins, shapes, k=_name: b.cast(b.node(k, ins, **plain(o))),
        exact=True,
        weight=0.2,
    )


def topk_propose(r, shapes):
    if not shapes[0]:
        return None
    a = int(r.integers(len(shapes[0])))
    return {"axis": a + 1, "largest": int(r.integers(2)), "_k": int(r.integers(1, min(6, shapes[0][a]) + 1))}


def topk_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]) and o["_k"] <= shapes[0][a])
    return shapes[0][:a] + [o["_k"]] + shapes[0][a + 1 :]


OPS["TopK"] = Op(
    topk_propose,
    topk_infer,
    lambda b, o, ins, shapes: b.node("TopK", [ins[0], b.ints(o["_k"])], n_out=2, **plain(o)),
    exact=True,
    weight=0.4,
)


def cumsum_emit(b, o, ins, shapes):
    y = b.node("CumSum", [ins[0], whole(b, o["_axis"])], **plain(o))
    return b.node("Mul", [y, b.number(1 / np.sqrt(shapes[0][o["_axis"] - 1]))])


def inner_axis(o, shapes):
    need(1 <= o["_axis"] <= len(shapes[0]))
    return list(shapes[0])


OPS["CumSum"] = Op(
    lambda r, s: {
        "_axis": int(r.integers(1, len(s[0]) + 1)),
        "exclusive": int(r.integers(2)),
        "reverse": int(r.integers(2)),
    }
    if s[0]
    else None,
    inner_axis,
    cumsum_emit,
    weight=0.6,
)


# ------------------------------------------------------------------------------------------------------------- indexing
def take_propose(r, shapes):
    if not shapes[0]:
        return None
    a = int(r.integers(len(shapes[0])))
    return {"axis": a + 1, "_rows": [int(v) for v in r.integers(0, shapes[0][a], int(r.integers(1, 6)))]}


def take_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]) and max(o["_rows"]) < shapes[0][a])
    return shapes[0][:a] + [len(o["_rows"])] + shapes[0][a + 1 :]


def gather_infer(o, shapes):
    if "rows" in o:
        return list(shapes[0]) + [o["width"]]
    return take_infer(o, shapes)


def gather_emit(b, o, ins, shapes):
    if "rows" in o:
        return b.node("Gather", [b.param("table", [o["rows"], o["width"]], scale=0.5), ins[0]])
    return b.node("Gather", [ins[0], b.ints(*o["_rows"])], **plain(o))


OPS["Gather"] = Op(take_propose, gather_infer, gather_emit, weight=0.7)


def rows_infer(o, shapes):
    return list(shapes[0]) + [o["width"]]


def onehot_emit(b, o, ins, shapes):
    hot = b.node("OneHot", [ins[0], b.ints(o["rows"]), b.const(np.array([0, 1], np.float32))])
    return b.node("MatMul", [hot, b.param("table", [o["rows"], o["width"]], scale=0.5)])


def gather_nd_emit(b, o, ins, shapes):
    return b.node(
        "GatherND", [b.param("table", [o["rows"], o["width"]], scale=0.5), b.node("Unsqueeze", [ins[0], b.ints(-1)])]
    )


def scatter_nd_emit(b, o, ins, shapes):
    table = b.node(
        "ScatterND",
        [
            b.param("table", [o["rows"], o["width"]], scale=0.5),
            b.const(np.array([[1], [3]], np.int64)),
            b.param("new", [2, o["width"]], scale=0.5),
        ],
    )
    return b.node("Gather", [table, ins[0]])


def nothing(r, shapes):
    return None


# Behind an input of numbers of rows: see generate.py.
OPS["OneHot"] = Op(nothing, rows_infer, onehot_emit, rows=True)
OPS["GatherND"] = Op(nothing, rows_infer, gather_nd_emit, rows=True)
OPS["ScatterND"] = Op(nothing, rows_infer, scatter_nd_emit, rows=True)


def best(b, o, x):
    return b.node("ArgMax", [x], axis=o["axis"], keepdims=1)


OPS["GatherElements"] = Op(
    arg_propose,
    arg_infer,
    lambda b, o, ins, shapes: b.node("GatherElements", [ins[0], best(b, o, ins[0])], axis=o["axis"]),
    weight=0.4,
)


def scatter_emit(kind):
    def emit(b, o, ins, shapes):
        new = b.node("Mul", [b.node("ReduceMean", [ins[0], b.ints(o["axis"])], keepdims=1), b.number(0.5)])
        return b.node(kind, [ins[0], best(b, o, ins[0]), new], axis=o["axis"])

    return emit


for _name in ("ScatterElements", "Scatter"):
    OPS[_name] = Op(
        lambda r, s: {"axis": int(r.integers(1, len(s[0]) + 1))} if s[0] else None,
        lambda o, s: axis_infer(o, s),
        scatter_emit(_name),
        exact=True,
        weight=0.2,
    )


def compress_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]) and len(o["_keep"]) == shapes[0][a] and any(o["_keep"]))
    return shapes[0][:a] + [sum(o["_keep"])] + shapes[0][a + 1 :]


def compress_propose(r, shapes):
    if not shapes[0]:
        return None
    a = int(r.integers(len(shapes[0])))
    if shapes[0][a] > 64:
        return None
    return {"axis": a + 1, "_keep": [1] + [int(v) for v in r.integers(0, 2, shapes[0][a] - 1)]}


OPS["Compress"] = Op(
    compress_propose,
    compress_infer,
    lambda b, o, ins, shapes: b.node("Compress", [ins[0], b.const(np.array(o["_keep"], bool))], **plain(o)),
    weight=0.4,
)


def nonzero_emit(b, o, ins, shapes):
    rows = b.node("Squeeze", [b.node("NonZero", [b.ints(*o["_keep"])]), b.ints(0)])
    return b.node("Gather", [ins[0], rows], axis=o["axis"])


OPS["NonZero"] = Op(compress_propose, compress_infer, nonzero_emit, weight=0.3)


def reverse_emit(b, o, ins, shapes):
    """Lengths are equal in all samples: made of zeros of the batch."""
    n = shapes[0][0]
    rank = len(shapes[0])
    zero = b.node("Mul", [b.node("ReduceSum", [ins[0], b.ints(*range(1, rank + 1))], keepdims=0), b.number(0)])
    return b.node(
        "ReverseSequence",
        [ins[0], b.cast(b.node("Add", [zero, b.number(max(1, n * 2 // 3))]), INT64)],
        batch_axis=0,
        time_axis=1,
    )


OPS["ReverseSequence"] = Op(lambda r, s: {} if s[0] else None, some_shape(1), reverse_emit, weight=0.3)


# ------------------------------------------------------------------------------------------------------------ sequences
def rnn_propose(r, shapes):
    if len(shapes[0]) != 2 or shapes[0][0] > 24:
        return None
    o = {
        "hidden_size": pick(r, [2, 4, 8, 16]),
        "direction": pick(r, ["forward", "reverse", "bidirectional"]),
        "_bias": int(r.integers(2)),
        "_last": int(r.integers(2)),
    }
    return o


def rnn_infer(o, shapes):
    need(len(shapes[0]) == 2)
    dirs = 2 if o["direction"] == "bidirectional" else 1
    return [dirs, o["hidden_size"]] if o["_last"] else [shapes[0][0], dirs, o["hidden_size"]]


def rnn_emit(kind, gates):
    def emit(b, o, ins, shapes):
        dirs, n, h = 2 if o["direction"] == "bidirectional" else 1, shapes[0][1], o["hidden_size"]
        w = [b.param("w", [dirs, gates * h, n], fan=n), b.param("r", [dirs, gates * h, h], fan=h)]
        if o["_bias"]:
            w.append(b.param("b", [dirs, 2 * gates * h], scale=0.1))
        extra = {"linear_before_reset": o["_late"]} if "_late" in o else {}
        return b.node(
            kind, [ins[0]] + w, n_out=3 if kind == "LSTM" else 2, take=o["_last"], layout=1, **plain(o), **extra
        )

    return emit


OPS["RNN"] = Op(rnn_propose, rnn_infer, rnn_emit("RNN", 1), weight=0.7)
OPS["GRU"] = Op(
    lambda r, s: (lambda o: o and dict(o, _late=int(r.integers(2))))(rnn_propose(r, s)),
    rnn_infer,
    rnn_emit("GRU", 3),
    weight=0.7,
)
OPS["LSTM"] = Op(rnn_propose, rnn_infer, rnn_emit("LSTM", 4), weight=0.7)


# -------------------------------------------------------------------------------------------------------------- signals
def dft_emit(b, o, ins, shapes):
    x = b.node("Unsqueeze", [ins[0], b.ints(2)])
    y = b.node("DFT", [x], axis=1, onesided=o["onesided"])
    return b.node("Mul", [y, b.number(1 / np.sqrt(shapes[0][0]))])


def dft_infer(o, shapes):
    need(len(shapes[0]) == 1)
    n = shapes[0][0]
    return [n // 2 + 1 if o["onesided"] else n, 2]


OPS["DFT"] = Op(
    lambda r, s: {"onesided": int(r.integers(2))} if len(s[0]) == 1 and s[0][0] <= 512 else None, dft_infer, dft_emit
)


def stft_emit(b, o, ins, shapes):
    return b.node(
        "STFT",
        [b.node("Unsqueeze", [ins[0], b.ints(2)]), whole(b, o["_step"]), b.node("HannWindow", [whole(b, o["_frame"])])],
        onesided=1,
    )


def stft_infer(o, shapes):
    need(len(shapes[0]) == 1 and shapes[0][0] >= o["_frame"])
    return [(shapes[0][0] - o["_frame"]) // o["_step"] + 1, o["_frame"] // 2 + 1, 2]


OPS["STFT"] = Op(
    lambda r, s: {"_frame": pick(r, [4, 8, 16]), "_step": int(r.integers(1, 6))}
    if len(s[0]) == 1 and s[0][0] >= 16
    else None,
    stft_infer,
    stft_emit,
)


def whole(b, v):
    return b.const(np.array(v, np.int64))


def last_emit(make):
    """A vector that the file computes, multiplied along the last dimension."""
    return lambda b, o, ins, shapes: b.node("Mul", [ins[0], make(b, o, shapes[0][-1])])


for _name in ("BlackmanWindow", "HammingWindow", "HannWindow"):
    OPS[_name] = Op(
        lambda r, s: {"periodic": int(r.integers(2))} if s[0] and s[0][-1] > 1 else None,
        some_shape(1),
        last_emit(lambda b, o, n, k=_name: b.node(k, [whole(b, n)], **plain(o))),
        weight=0.2,
    )
OPS["Range"] = Op(
    lambda r, s: {} if s[0] else None,
    some_shape(1),
    last_emit(
        lambda b, o, n: b.node(
            "Mul", [b.cast(b.node("Range", [whole(b, 0), whole(b, n), whole(b, 1)])), b.number(2 / n)]
        )
    ),
    weight=0.2,
)
OPS["EyeLike"] = Op(
    lambda r, s: {"k": pick(r, [0, 0, 1, -1])} if s[0] and s[0][-1] <= 128 else None,
    some_shape(1),
    lambda b, o, ins, shapes: b.node(
        "MatMul", [ins[0], b.node("EyeLike", [b.const(np.zeros([shapes[0][-1]] * 2, np.int64))], dtype=1, **plain(o))]
    ),
    weight=0.2,
)


def mel_emit(b, o, ins, shapes):
    m = b.node(
        "MelWeightMatrix",
        [whole(b, o["_bins"]), whole(b, 2 * (shapes[0][-1] - 1)), whole(b, 8192), b.number(0), b.number(4096)],
    )
    return b.node("MatMul", [ins[0], m])


def mel_infer(o, shapes):
    need(shapes[0] and shapes[0][-1] >= 3)
    return shapes[0][:-1] + [o["_bins"]]


OPS["MelWeightMatrix"] = Op(
    lambda r, s: {"_bins": int(r.integers(2, 8))} if s[0] and 3 <= s[0][-1] <= 300 else None,
    mel_infer,
    mel_emit,
    weight=0.2,
)


# --------------------------------------------------------------------------------------------------------------- losses
def labels(b, x):
    return b.node("ArgMax", [x], axis=1, keepdims=0)


def loss_infer(o, shapes):
    need(len(shapes[0]) >= 2)
    return shapes[0][1:]


OPS["SoftmaxCrossEntropyLoss"] = Op(
    lambda r, s: {} if len(s[0]) >= 2 and s[0][0] > 1 else None,
    loss_infer,
    lambda b, o, ins, shapes: b.node("SoftmaxCrossEntropyLoss", [ins[0], labels(b, ins[0])], reduction="none"),
    exact=True,
    weight=0.2,
)
OPS["NegativeLogLikelihoodLoss"] = Op(
    lambda r, s: {} if len(s[0]) >= 2 and s[0][0] > 1 else None,
    loss_infer,
    lambda b, o, ins, shapes: b.node(
        "NegativeLogLikelihoodLoss", [b.node("LogSoftmax", [ins[0]], axis=1), labels(b, ins[0])], reduction="none"
    ),
    exact=True,
    weight=0.2,
)


# --------------------------------------------------------------------------------------------------------- quantisation
def quantised(b, x):
    return b.node("QuantizeLinear", [x, b.number(0.05), b.const(np.array(128, np.uint8))])


def whole_weights(b, shape, seed):
    return b.const(np.random.default_rng(seed).integers(-20, 20, shape).astype(np.int8))


SCALE = {"b": 0.05, "w": 0.01}


def quantise_emit(kind):
    def emit(b, o, ins, shapes):
        q = quantised(b, ins[0])
        zero, zero_w = b.const(np.array(128, np.uint8)), b.const(np.array(0, np.int8))
        if kind in ("QuantizeLinear", "DequantizeLinear"):
            return b.node("DequantizeLinear", [q, b.number(0.05), zero])
        if kind == "ConvInteger":
            w = whole_weights(b, [o["_filters"], shapes[0][0]] + o["kernel_shape"], o["_seed"])
            return b.node("Mul", [b.cast(b.node("ConvInteger", [q, w, zero], **plain(o))), b.number(0.0005)])
        if kind == "QLinearConv":
            w = whole_weights(b, [o["_filters"], shapes[0][0]] + o["kernel_shape"], o["_seed"])
            y = b.node(
                "QLinearConv", [q, b.number(0.05), zero, w, b.number(0.01), zero_w, b.number(0.1), zero], **plain(o)
            )
            return b.node("DequantizeLinear", [y, b.number(0.1), zero])
        w = whole_weights(b, [shapes[0][-1], o["_units"]], o["_seed"])
        if kind == "MatMulInteger":
            return b.node("Mul", [b.cast(b.node("MatMulInteger", [q, w, zero])), b.number(0.0005)])
        y = b.node("QLinearMatMul", [q, b.number(0.05), zero, w, b.number(0.01), zero_w, b.number(0.1), zero])
        return b.node("DequantizeLinear", [y, b.number(0.1), zero])

    return emit


for _name in ("QuantizeLinear", "DequantizeLinear"):
    OPS[_name] = Op(always, same, quantise_emit(_name), exact=True, weight=0.2)
for _name in ("ConvInteger", "QLinearConv"):
    OPS[_name] = Op(
        lambda r, s: (lambda o: o and "group" not in o and dict(o, _seed=int(r.integers(1000))) or None)(
            conv_propose(r, s)
        ),
        conv_infer,
        quantise_emit(_name),
        exact=True,
        weight=0.5,
    )
for _name in ("MatMulInteger", "QLinearMatMul"):
    OPS[_name] = Op(
        lambda r, s: {"_units": pick(r, UNITS[:8]), "_seed": int(r.integers(1000))} if s[0] else None,
        matmul_infer,
        quantise_emit(_name),
        exact=True,
        weight=0.3,
    )


# -------------------------------------------------------------------------------------------- what generate.py asks for
def cost(node, shapes, out):
    o, kind = node["attr"], node["op"]
    count = sum(product(s) for s in parameters(node, shapes).values())
    if kind in ("Conv", "QLinearConv", "ConvInteger"):
        return count, product(out) * shapes[0][0] // o.get("group", 1) * product(o["kernel_shape"])
    if kind == "ConvTranspose":
        return count, product(shapes[0]) * o["_filters"] // o.get("group", 1) * product(o["kernel_shape"])
    if kind in ("RNN", "GRU", "LSTM"):
        return count, 4 * count * shapes[0][0]
    if kind in ("Gemm", "MatMul", "Einsum", "QLinearMatMul", "MatMulInteger", "EyeLike"):
        return count, product(out) * shapes[0][-1]
    if kind in ("DFT", "STFT"):
        return count, product(out) * shapes[0][0]
    return count, 2 * product(out)


def narrow(r, shape):
    if len(shape) < 2:
        return []
    if product(shape) > 20000 or chance(r, 0.4):
        return [(pick(r, ["GlobalAveragePool", "GlobalMaxPool"]), {}), ("Flatten", {"axis": 1})]
    return [("Flatten", {"axis": 1})]


def dense(units):
    return "MatMul", {"_units": units}


def softmax(x):
    return "Softmax", [x], {"axis": -1}


def sigmoid(x):
    return "Sigmoid", [x], {}
