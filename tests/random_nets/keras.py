"""Keras layers: for each a proposal of its options, its output's shape, and the architecture as JSON.

LAYERS maps a class name to a Layer. Shapes are without the batch. A layer's options are the `config` that goes into
the file, without the names.
"""
import json


class Bad(Exception):
    """These options do not go with these inputs."""


class Layer:
    """propose(rng, shapes): options, or None where there are none; infer(options, shapes): the output's shape; arity:
    how many inputs, at least and at most."""

    def __init__(self, propose, infer, arity=(1, 1), train=True, weight=1.0, drops=False):
        self.propose, self.infer, self.arity, self.train, self.weight, self.drops = (
            propose,
            infer,
            arity,
            train,
            weight,
            drops,
        )
        self.exact, self.trains = False, lambda o: True


LAYERS = {}
PLAIN = [
    "linear",
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "celu",
    "selu",
    "gelu",
    "sigmoid",
    "hard_sigmoid",
    "swish",
    "silu",
    "hard_swish",
    "hard_silu",
    "tanh",
    "softplus",
    "softsign",
    "mish",
    "log_sigmoid",
    "hard_tanh",
    "tanh_shrink",
    "soft_shrink",
    "squareplus",
]
OTHER = ["exponential", "softmax", "log_softmax", "hard_shrink"]
ACTIVATIONS = PLAIN + OTHER


def need(condition, text="does not fit"):
    if not condition:
        raise Bad(text)


def pick(r, options):
    return options[int(r.integers(len(options)))]


def chance(r, p):
    return bool(r.random() < p)


def activation(r):
    return pick(r, PLAIN) if chance(r, 0.7) else None


def product(s):
    n = 1
    for d in s:
        n *= int(d)
    return n


# --------------------------------------------------------------------------------------------------------------- images
def split(o, s, space):
    """(extents, channels) of an image of `space` dimensions."""
    need(len(s) == space + 1)
    return (s[1:], s[0]) if o.get("data_format") == "channels_first" else (s[:-1], s[-1])


def join(o, extents, channels):
    return [channels] + list(extents) if o.get("data_format") == "channels_first" else list(extents) + [channels]


def data_format(r, o):
    if chance(r, 0.12):
        o["data_format"] = "channels_first"
    return o


def window_out(n, k, stride, dilation, padding):
    reach = (k - 1) * dilation + 1
    if padding == "same":
        return -(-n // stride)
    if padding == "causal":
        return (n - 1) // stride + 1
    need(n >= reach)
    return (n - reach) // stride + 1


def conv_options(r, s, space, transposed=False):
    if len(s) != space + 1:
        return None
    o = data_format(r, {})
    extents, channels = split(o, s, space)
    o["kernel_size"] = [int(r.integers(1, 4 if space == 3 else 6)) for _ in range(space)]
    if chance(r, 0.35):
        o["strides"] = [int(r.integers(1, 4))] * space
    elif chance(r, 0.3):
        o["dilation_rate"] = [int(r.integers(1, 4))] * space
    o["padding"] = pick(r, ["same", "valid"] + (["causal"] if space == 1 and not transposed else []))
    if chance(r, 0.25):
        o["use_bias"] = False
    f = activation(r)
    if f:
        o["activation"] = f
    return o


def filters(r):
    return pick(r, [1, 2, 3, 4, 5, 8, 8, 12, 16, 16, 24, 32, 33, 48, 64])


def conv_extents(o, extents):
    space = len(extents)
    strides, dilation = o.get("strides", [1] * space), o.get("dilation_rate", [1] * space)
    return [
        window_out(n, k, t, d, o.get("padding", "valid"))
        for n, k, t, d in zip(extents, o["kernel_size"], strides, dilation)
    ]


def conv(space):
    def propose(r, shapes):
        o = conv_options(r, shapes[0], space)
        if o is None:
            return None
        extents, channels = split(o, shapes[0], space)
        o["filters"] = filters(r)
        if chance(r, 0.2):
            for g in (4, 3, 2):
                if channels % g == 0:
                    o["groups"] = g
                    o["filters"] = g * int(r.integers(1, 9))
                    break
        return o

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        groups = o.get("groups", 1)
        need(channels % groups == 0 and o["filters"] % groups == 0)
        return join(o, conv_extents(o, extents), o["filters"])

    LAYERS["Conv%dD" % space] = Layer(propose, infer, weight=3)


def depthwise(space, separable):
    def propose(r, shapes):
        o = conv_options(r, shapes[0], space)
        if o is None:
            return None
        if o["padding"] == "causal":
            o["padding"] = "same"
        if chance(r, 0.4):
            o["depth_multiplier"] = int(r.integers(1, 4))
        if separable:
            o["filters"] = filters(r)
        return o

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        return join(o, conv_extents(o, extents), o["filters"] if separable else channels * o.get("depth_multiplier", 1))

    LAYERS["%sConv%dD" % ("Separable" if separable else "Depthwise", space)] = Layer(propose, infer)


def conv_transpose(space):
    def propose(r, shapes):
        o = conv_options(r, shapes[0], space, transposed=True)
        if o is None:
            return None
        o["filters"] = filters(r)
        if "strides" in o and max(o["strides"]) > 1 and chance(r, 0.25):
            o["output_padding"] = [int(r.integers(0, t)) for t in o["strides"]]
        return o

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        out = []
        for d, n in enumerate(extents):
            stride, dilation = o.get("strides", [1] * space)[d], o.get("dilation_rate", [1] * space)[d]
            k = (o["kernel_size"][d] - 1) * dilation + 1
            same, tight = o.get("padding", "valid") == "same", (n - 1) * stride
            if "output_padding" in o:
                out.append(tight + (k % 2 if same else k) + o["output_padding"][d])
            else:
                out.append(n * stride if same else tight + max(k, stride))
        need(min(out) >= 1)
        return join(o, out, o["filters"])

    LAYERS["Conv%dDTranspose" % space] = Layer(propose, infer)


def pool(space, kind):
    def propose(r, shapes):
        if len(shapes[0]) != space + 1:
            return None
        o = data_format(r, {})
        o["pool_size"] = [int(r.integers(1, 4)) for _ in range(space)]
        if chance(r, 0.5):
            o["strides"] = [int(r.integers(1, 3)) for _ in range(space)]
        o["padding"] = pick(r, ["same", "valid"])
        return o

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        strides = o.get("strides", o["pool_size"])
        return join(
            o, [window_out(n, k, t, 1, o["padding"]) for n, k, t in zip(extents, o["pool_size"], strides)], channels
        )

    LAYERS["%sPooling%dD" % (kind, space)] = Layer(propose, infer, weight=0.7)


def pool_global(space, kind):
    def propose(r, shapes):
        if len(shapes[0]) != space + 1:
            return None
        return data_format(r, {"keepdims": True} if chance(r, 0.4) else {})

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        return join(o, [1] * space, channels) if o.get("keepdims") else [channels]

    LAYERS["Global%sPooling%dD" % (kind, space)] = Layer(propose, infer, weight=0.1)


def borders(space, crop):
    key = "cropping" if crop else "padding"

    def pairs(o):
        v = o[key]
        if isinstance(v, int):
            return [(v, v)] * space
        if space == 1:
            return [tuple(v)] if len(v) == 2 else [(v[0], v[0])]
        return [(e, e) if isinstance(e, int) else tuple(e) for e in v]

    def propose(r, shapes):
        if len(shapes[0]) != space + 1:
            return None
        form = int(r.integers(3))
        if form == 0:
            v = int(r.integers(0, 3))
        elif form == 1 and space > 1:
            v = [int(r.integers(0, 3)) for _ in range(space)]
        else:
            v = [[int(r.integers(0, 3)), int(r.integers(0, 3))] for _ in range(space)]
            v = v[0] if space == 1 else v
        return data_format(r, {key: v})

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        sign = -1 if crop else 1
        out = [n + sign * (a + b) for n, (a, b) in zip(extents, pairs(o))]
        need(min(out) >= 1)
        return join(o, out, channels)

    LAYERS["%s%dD" % ("Cropping" if crop else "ZeroPadding", space)] = Layer(propose, infer, weight=0.7)


def up_sampling(space):
    def propose(r, shapes):
        if len(shapes[0]) != space + 1:
            return None
        o = {"size": int(r.integers(1, 4)) if space == 1 else [int(r.integers(1, 4)) for _ in range(space)]}
        if space == 2 and chance(r, 0.4):
            o["interpolation"] = "bilinear"
        return data_format(r, o) if space > 1 else o

    def infer(o, shapes):
        extents, channels = split(o, shapes[0], space)
        size = [o["size"]] * space if isinstance(o["size"], int) else o["size"]
        return join(o, [n * k for n, k in zip(extents, size)], channels)

    LAYERS["UpSampling%dD" % space] = Layer(propose, infer)


def spatial_dropout(space):
    def propose(r, shapes):
        return {"rate": round(float(r.uniform(0.1, 0.5)), 3)} if len(shapes[0]) == space + 1 else None

    LAYERS["SpatialDropout%dD" % space] = Layer(propose, same_shape, weight=0.4, drops=True)


def same_shape(o, shapes):
    return list(shapes[0])


for _space in (1, 2, 3):
    conv(_space)
    conv_transpose(_space)
    if _space < 3:
        depthwise(_space, False)
        depthwise(_space, True)
    for _kind in ("Max", "Average"):
        pool(_space, _kind)
        pool_global(_space, _kind)
    borders(_space, False)
    borders(_space, True)
    up_sampling(_space)
    spatial_dropout(_space)


# ----------------------------------------------------------------------------------------------------- dense, embedding
def dense_propose(r, shapes):
    o = {"units": pick(r, [1, 2, 3, 5, 8, 10, 16, 24, 32, 64, 100, 128, 200, 256, 400])}
    if chance(r, 0.2):
        o["use_bias"] = False
    f = activation(r)
    if f:
        o["activation"] = f
    return o


def dense_infer(o, shapes):
    need(len(shapes[0]) >= 1)
    return shapes[0][:-1] + [o["units"]]


LAYERS["Dense"] = Layer(dense_propose, dense_infer, weight=2)


def attention_propose(r, shapes):
    if any(len(s) != 2 or s[0] > 128 for s in shapes):
        return None
    o = {"num_heads": int(r.integers(1, 5)), "key_dim": pick(r, [2, 4, 8, 16])}
    if chance(r, 0.3):
        o["value_dim"] = pick(r, [2, 4, 8, 12])
    if chance(r, 0.3):
        o["use_bias"] = False
    if chance(r, 0.2):
        o["output_shape"] = pick(r, [4, 8, 16])
    return o


def attention_infer(o, shapes):
    need(all(len(s) == 2 for s in shapes) and len(shapes) in (2, 3))
    need(len(shapes) == 2 or shapes[2][0] == shapes[1][0])
    width = o.get("output_shape", shapes[0][1])
    return [shapes[0][0], width]


LAYERS["MultiHeadAttention"] = Layer(attention_propose, attention_infer, (2, 3), weight=2)


# --------------------------------------------------------------------------------------------------------------- shapes
def divisor(r, n):
    return pick(r, [d for d in range(1, n + 1) if n % d == 0])


def reshape_propose(r, shapes):
    n = product(shapes[0])
    if n > 1 << 20 or len(shapes[0]) > 4:
        return None
    to, rest = [], n
    for _ in range(int(r.integers(0, 3))):
        d = divisor(r, rest) if rest < 5000 else shapes[0][0] if rest % shapes[0][0] == 0 else 1
        to.append(d)
        rest //= d
    to.append(rest)
    if chance(r, 0.3):
        to[int(r.integers(len(to)))] = -1
    return {"target_shape": to}


def reshape_infer(o, shapes):
    to, n = list(o["target_shape"]), product(shapes[0])
    if -1 in to:
        rest = -product(to)
        need(rest > 0 and n % rest == 0)
        to[to.index(-1)] = n // rest
    need(product(to) == n)
    return to


def permute_propose(r, shapes):
    if len(shapes[0]) < 2:
        return None
    return {"dims": [int(i) + 1 for i in r.permutation(len(shapes[0]))]}


def permute_infer(o, shapes):
    need(len(o["dims"]) == len(shapes[0]))
    return [shapes[0][i - 1] for i in o["dims"]]


LAYERS["Flatten"] = Layer(lambda r, s: data_format(r, {}), lambda o, s: [product(s[0])], weight=0.4)
LAYERS["Reshape"] = Layer(reshape_propose, reshape_infer)
LAYERS["Permute"] = Layer(permute_propose, permute_infer)


def repeat_infer(o, shapes):
    need(len(shapes[0]) == 1)
    return [o["n"], shapes[0][0]]


LAYERS["RepeatVector"] = Layer(lambda r, s: {"n": int(r.integers(1, 9))} if len(s[0]) == 1 else None, repeat_infer)


def embedding_infer(o, shapes):
    return list(shapes[0]) + [o["output_dim"]]


LAYERS["Embedding"] = Layer(
    lambda r, s: None, embedding_infer
)  # only behind an input of numbers of rows: see generate.py


def time_propose(r, shapes):
    s = shapes[0]
    if len(s) < 2 or s[0] > 64:
        return None
    inner = pick(r, ["Dense", "Conv1D", "Conv2D", "MaxPooling2D", "LayerNormalization", "Flatten", "Activation"])
    o = LAYERS[inner].propose(r, [s[1:]])
    if o is None:
        return None
    return {"layer": {"class_name": inner, "config": o}}


def time_infer(o, shapes):
    need(len(shapes[0]) >= 2)
    return [shapes[0][0]] + LAYERS[o["layer"]["class_name"]].infer(o["layer"]["config"], [shapes[0][1:]])


LAYERS["TimeDistributed"] = Layer(time_propose, time_infer)


# ---------------------------------------------------------------------------------------------------------- activations
def activation_propose(r, shapes):
    f = pick(r, ACTIVATIONS)
    if f == "exponential":
        return None if chance(r, 0.7) else {"activation": f}
    return {"activation": f}


def relu_propose(r, shapes):
    o = {}
    if chance(r, 0.4):
        o["max_value"] = round(float(r.uniform(0.5, 6)), 2)
    if chance(r, 0.4):
        o["negative_slope"] = round(float(r.uniform(0.01, 0.5)), 2)
    if chance(r, 0.3):
        o["threshold"] = round(float(r.uniform(-0.3, 0.5)), 2)
    return o


def prelu_propose(r, shapes):
    o = {"alpha_initializer": {"class_name": "RandomUniform", "config": {"minval": -0.2, "maxval": 0.2}}}
    if len(shapes[0]) > 1 and chance(r, 0.6):
        o["shared_axes"] = list(range(1, len(shapes[0])))
    elif product(shapes[0]) > 20000:
        return None
    return o


def softmax_propose(r, shapes):
    return {"axis": pick(r, [-1, -1, int(r.integers(1, len(shapes[0]) + 1))])}


def axis_infer(o, shapes):
    axis = o.get("axis", -1)
    need(-len(shapes[0]) <= axis <= len(shapes[0]) and axis != 0)
    return list(shapes[0])


LAYERS["Activation"] = Layer(activation_propose, same_shape, weight=2)
LAYERS["ReLU"] = Layer(relu_propose, same_shape)
LAYERS["LeakyReLU"] = Layer(lambda r, s: {"negative_slope": round(float(r.uniform(0.01, 0.5)), 2)}, same_shape)
LAYERS["ThresholdedReLU"] = Layer(lambda r, s: {"theta": round(float(r.uniform(0, 1)), 2)}, same_shape, weight=0.4)
LAYERS["PReLU"] = Layer(prelu_propose, same_shape)
LAYERS["ELU"] = Layer(lambda r, s: {"alpha": round(float(r.uniform(0.3, 1.5)), 2)}, same_shape)
LAYERS["Softmax"] = Layer(softmax_propose, axis_infer)


# ------------------------------------------------------------------------------------------------------- normalisations
def affine(r, o):
    if chance(r, 0.2):
        o["center"] = False
    if chance(r, 0.2):
        o["scale"] = False
    return o


def norm_axis(r, shapes):
    return pick(r, [-1, -1, -1, int(r.integers(1, len(shapes[0]) + 1))])


def batch_norm_propose(r, shapes):
    return affine(
        r, {"axis": norm_axis(r, shapes), "momentum": round(float(r.uniform(0.5, 0.99)), 2), "epsilon": 0.001}
    )


def layer_norm_propose(r, shapes):
    rank = len(shapes[0])
    first = int(r.integers(1, rank + 1))
    axis = -1 if chance(r, 0.6) else list(range(first, rank + 1))
    if product(shapes[0] if axis != -1 else shapes[0][-1:]) > 50000:
        return None
    return affine(r, {"axis": axis, "epsilon": 0.001})


def layer_norm_infer(o, shapes):
    rank = len(shapes[0])
    need(o["axis"] == -1 or o["axis"] == list(range(rank + 1 - len(o["axis"]), rank + 1)))
    return list(shapes[0])


def group_norm_propose(r, shapes):
    channels = shapes[0][-1]
    space = product(shapes[0][:-1])  # a group of one element has no variance
    groups = [
        g for g in (-1, 1, 2, 3, 4, 8) if (space > 1 if g < 0 else channels % g == 0 and channels // g * space > 1)
    ]
    if not groups:
        return None
    groups = pick(r, groups)
    return affine(r, {"groups": groups, "epsilon": 0.001})


def group_norm_infer(o, shapes):
    need(o["groups"] == -1 or shapes[0][-1] % o["groups"] == 0)
    need(product(shapes[0]) > (shapes[0][-1] if o["groups"] == -1 else o["groups"]))
    return list(shapes[0])


def rescaling_propose(r, shapes):
    n = shapes[0][-1]
    if n <= 64 and chance(r, 0.3):
        return {
            "scale": [round(float(v), 3) for v in r.uniform(0.5, 1.5, n)],
            "offset": round(float(r.uniform(-0.5, 0.5)), 3),
        }
    return {"scale": round(float(r.uniform(0.3, 1.5)), 3), "offset": round(float(r.uniform(-0.5, 0.5)), 3)}


def constants_infer(*keys):
    def infer(o, shapes):
        need(all(not isinstance(o.get(k), list) or len(o[k]) == shapes[0][-1] for k in keys))
        return list(shapes[0])

    return infer


def normalization_propose(r, shapes):
    n = shapes[0][-1]
    o = {"invert": True} if chance(r, 0.2) else {}
    if chance(r, 0.5) or n > 64:
        return dict(o, axis=-1)
    return dict(
        o,
        axis=-1,
        mean=[round(float(v), 3) for v in r.uniform(-0.5, 0.5, n)],
        variance=[round(float(v), 3) for v in r.uniform(0.5, 1.5, n)],
    )


LAYERS["BatchNormalization"] = Layer(batch_norm_propose, axis_infer, weight=3)
LAYERS["LayerNormalization"] = Layer(layer_norm_propose, layer_norm_infer, weight=2)
LAYERS["GroupNormalization"] = Layer(group_norm_propose, group_norm_infer, weight=2)
LAYERS["UnitNormalization"] = Layer(lambda r, s: {"axis": norm_axis(r, s)}, axis_infer)
LAYERS["Rescaling"] = Layer(rescaling_propose, constants_infer("scale", "offset"))
LAYERS["Normalization"] = Layer(normalization_propose, constants_infer("mean", "variance"), weight=0.5)
LAYERS["Dropout"] = Layer(
    lambda r, s: {"rate": round(float(r.uniform(0.05, 0.5)), 3)}, same_shape, weight=0.7, drops=True
)

# Layers that are the identity outside of training and are refused in it.
LAYERS["GaussianNoise"] = Layer(lambda r, s: {"stddev": 0.1}, same_shape, train=False)
LAYERS["GaussianDropout"] = Layer(lambda r, s: {"rate": 0.1}, same_shape, train=False)
LAYERS["AlphaDropout"] = Layer(lambda r, s: {"rate": 0.1}, same_shape, train=False)
LAYERS["ActivityRegularization"] = Layer(lambda r, s: {"l1": 0.01, "l2": 0.01}, same_shape, train=False)


# --------------------------------------------------------------------------------------------------------------- merges
def merge_infer(o, shapes):
    need(all(s == shapes[0] for s in shapes))
    return list(shapes[0])


def concat_propose(r, shapes):
    rank = len(shapes[0])
    axes = [
        a
        for a in range(rank)
        if all(len(s) == rank and s[:a] + s[a + 1 :] == shapes[0][:a] + shapes[0][a + 1 :] for s in shapes)
    ]
    if not axes:
        return None
    axis = axes[-1] if chance(r, 0.6) else pick(r, axes)
    return {"axis": axis + 1}


def concat_infer(o, shapes):
    a = o["axis"] - 1
    need(0 <= a < len(shapes[0]))
    need(all(len(s) == len(shapes[0]) and s[:a] + s[a + 1 :] == shapes[0][:a] + shapes[0][a + 1 :] for s in shapes))
    return shapes[0][:a] + [sum(s[a] for s in shapes)] + shapes[0][a + 1 :]


def dot_propose(r, shapes):
    a, b = shapes
    if len(a) != len(b) or len(a) not in (1, 2):
        return None
    pairs = [(i + 1, j + 1) for i in range(len(a)) for j in range(len(b)) if a[i] == b[j]]
    if not pairs:
        return None
    return {"axes": list(pick(r, pairs)), "normalize": chance(r, 0.4)}


def dot_infer(o, shapes):
    a, b = shapes
    need(len(a) == len(b) and len(a) in (1, 2))
    i, j = o["axes"]
    need(1 <= i <= len(a) and 1 <= j <= len(b) and a[i - 1] == b[j - 1])
    return [1] if len(a) == 1 else [a[2 - i], b[2 - j]]


for _name, _most in (("Add", 4), ("Subtract", 2), ("Multiply", 3), ("Average", 3), ("Maximum", 3), ("Minimum", 3)):
    LAYERS[_name] = Layer(lambda r, s: {} if all(t == s[0] for t in s) else None, merge_infer, (2, _most))
LAYERS["Concatenate"] = Layer(concat_propose, concat_infer, (2, 3), weight=2)
LAYERS["Dot"] = Layer(dot_propose, dot_infer, (2, 2))


# ---------------------------------------------------------------------------------------------------------------- sizes
def cost(node, shapes, out):
    """(parameters, multiplications of a sample), roughly: to keep nets small."""
    o, kind = node["attr"], node["op"]
    if kind == "TimeDistributed":
        inner = {"op": o["layer"]["class_name"], "attr": o["layer"]["config"]}
        p, m = cost(inner, [shapes[0][1:]], out[1:])
        return p, m * shapes[0][0]
    if kind == "Dense":
        p = shapes[0][-1] * o["units"]
        return p, p * product(shapes[0][:-1])
    if "kernel_size" in o:
        space = len(o["kernel_size"])
        channels = split(o, shapes[0], space)[1]
        window = product(o["kernel_size"])
        if kind.startswith("Depthwise"):
            return window * channels * o.get("depth_multiplier", 1), product(out) * window
        if kind.startswith("Separable"):
            wide = channels * o.get("depth_multiplier", 1)
            return window * wide + wide * o["filters"], product(out) // o["filters"] * (
                window * wide + wide * o["filters"]
            )
        p = window * channels * o["filters"] // o.get("groups", 1)
        many = product(shapes[0]) // channels if kind.endswith("Transpose") else product(out) // o["filters"]
        return p, p * many
    if kind == "MultiHeadAttention":
        t, d = shapes[0]
        wide = o["num_heads"] * o["key_dim"]
        return 4 * d * wide, 4 * t * d * wide + 2 * t * shapes[1][0] * wide
    if kind == "Embedding":
        return o["input_dim"] * o["output_dim"], product(out)
    if kind == "PReLU":
        return product([1 if d + 1 in o.get("shared_axes", []) else n for d, n in enumerate(shapes[0])]), product(out)
    if kind == "Dot":
        return 0, product(out) * shapes[0][o["axes"][0] - 1]
    return 0, product(out)


# ----------------------------------------------------------------------------------------------------------------- file
def layer_json(form, kind, name, config):
    full = dict({"name": name, "trainable": True, "dtype": "float32"}, **config)
    if "layer" in full:
        inner = full["layer"]
        full["layer"] = layer_json(form, inner["class_name"], name + "_inner", inner["config"])
    out = {"class_name": kind, "config": full}
    if form == 3:
        out = {"module": "keras.layers", "class_name": kind, "config": full, "registered_name": None}
    return out


def input_json(form, i):
    shape = {"batch_shape" if form == 3 else "batch_input_shape": [None] + i["shape"]}
    return layer_json(form, "InputLayer", i["name"], dict(shape, dtype="int32" if i["rows"] else "float32"))


def architecture(net, shapes):
    """The text of the JSON file. Nodes of a layer that is shared are calls of one layer."""
    form = net["form"]
    chain = form == 3 and net.get("sequential") and is_chain(net)
    if chain:
        layers = [input_json(form, net["inputs"][0])] + [
            layer_json(form, n["op"], n["name"], n["attr"]) for n in net["nodes"]
        ]
        return json.dumps(
            {
                "module": "keras",
                "class_name": "Sequential",
                "registered_name": None,
                "config": {"name": "net", "layers": layers},
            }
        )
    layers, at, calls = [], {}, {}
    for i in net["inputs"]:
        j = dict(input_json(form, i), name=i["name"], inbound_nodes=[])
        layers.append(j)
        at[i["name"]] = [i["name"], 0, 0]
    for n in net["nodes"]:
        owner = n.get("share") or n["name"]
        if owner not in calls:
            calls[owner] = dict(layer_json(form, n["op"], owner, n["attr"]), name=owner, inbound_nodes=[])
            layers.append(calls[owner])
        at[n["name"]] = [owner, len(calls[owner]["inbound_nodes"]), 0]
        if form == 2:
            node = [at[x] + [{}] for x in n["in"]]
        else:
            tensors = [
                {
                    "class_name": "__keras_tensor__",
                    "config": {"shape": [None] + shapes[x], "dtype": "float32", "keras_history": at[x]},
                }
                for x in n["in"]
            ]
            separate = n["op"] in ("MultiHeadAttention",)
            node = {"args": tensors if len(tensors) == 1 or separate else [tensors], "kwargs": {}}
        calls[owner]["inbound_nodes"].append(node)
    ends = [at[o] for o in net["outputs"]]
    config = {
        "name": "net",
        "trainable": True,
        "layers": layers,
        "input_layers": [at[i["name"]] for i in net["inputs"]],
        "output_layers": ends,
    }
    if form == 3:
        return json.dumps({"module": "keras", "class_name": "Functional", "config": config, "registered_name": None})
    return json.dumps(
        {"class_name": "Functional", "config": config, "keras_version": "2.12.0", "backend": "tensorflow"}
    )


def is_chain(net):
    if len(net["inputs"]) != 1 or len(net["outputs"]) != 1 or any("share" in n for n in net["nodes"]):
        return False
    before = net["inputs"][0]["name"]
    for n in net["nodes"]:
        if n["in"] != [before]:
            return False
        before = n["name"]
    return before == net["outputs"][0]


# -------------------------------------------------------------------------------------------- what generate.py asks for
def parameters(node, shapes):
    """{name: shape} of what a layer has in the file: trained weights and running statistics."""
    o, kind, s = node["attr"], node["op"], shapes[0]
    if kind == "TimeDistributed":
        inner = parameters({"op": o["layer"]["class_name"], "attr": o["layer"]["config"]}, [s[1:]])
        return {"%s/" + k: v for k, v in inner.items()}  # %s: the name of the layer inside
    if kind == "Dense":
        return with_bias(o, {"kernel": [s[-1], o["units"]]}, o["units"])
    if "kernel_size" in o:
        return conv_parameters(o, kind, split(o, s, len(o["kernel_size"]))[1])
    if kind == "MultiHeadAttention":
        return attention_parameters(o, shapes)
    if kind == "Embedding":
        return {"embeddings": [o["input_dim"], o["output_dim"]]}
    if kind == "PReLU":
        return {"alpha": [1 if d + 1 in o.get("shared_axes", []) else n for d, n in enumerate(s)]}
    if kind == "BatchNormalization":
        n = [s[o["axis"] - (o["axis"] > 0)]]
        return dict(affine_parameters(o, n), moving_mean=n, moving_variance=n)
    if kind == "LayerNormalization":
        return affine_parameters(o, s[-1:] if o["axis"] == -1 else s[o["axis"][0] - 1 :])
    if kind == "GroupNormalization":
        return affine_parameters(o, s[-1:])
    if kind == "Normalization" and "mean" not in o:
        return {"mean": s[-1:], "variance": s[-1:]}
    return {}


def with_bias(o, weights, n):
    return dict(weights, bias=[n]) if o.get("use_bias", True) else weights


def affine_parameters(o, n):
    return {k: list(n) for k, flag in (("gamma", "scale"), ("beta", "center")) if o.get(flag, True)}


def conv_parameters(o, kind, channels):
    window = list(o["kernel_size"])
    if kind.startswith(("Depthwise", "Separable")):
        wide = channels * o.get("depth_multiplier", 1)
        weights = {"depthwise_kernel": window + [channels, o.get("depth_multiplier", 1)]}
        if kind.startswith("Depthwise"):
            return with_bias(o, weights, wide)
        return with_bias(o, dict(weights, pointwise_kernel=[1] * len(window) + [wide, o["filters"]]), o["filters"])
    if kind.endswith("Transpose"):
        return with_bias(o, {"kernel": window + [o["filters"], channels]}, o["filters"])
    return with_bias(o, {"kernel": window + [channels // o.get("groups", 1), o["filters"]]}, o["filters"])


def attention_parameters(o, shapes):
    heads, key, out = o["num_heads"], o["key_dim"], {}
    value, width = o.get("value_dim", key), o.get("output_shape", shapes[0][1])
    for name, s, n in (("query", shapes[0], key), ("key", shapes[-1], key), ("value", shapes[1], value)):
        out[name + "_dense/kernel"] = [s[1], heads, n]
        if o.get("use_bias", True):
            out[name + "_dense/bias"] = [heads, n]
    out["output_dense/kernel"] = [heads, value, width]
    if o.get("use_bias", True):
        out["output_dense/bias"] = [width]
    return out


def weight_shapes(node, shapes):
    """Shapes of the trained weights; empty: it has none."""
    frozen = ("moving_mean", "moving_variance", "mean", "variance")
    return {k: v for k, v in parameters(node, shapes).items() if k not in frozen}


def weights(net, shapes, r):
    """Values for every parameter, by the names that a safetensors file has."""
    import numpy as np

    out = {}
    for n in net["nodes"]:
        if n.get("share"):
            continue
        for name, shape in parameters(n, [shapes[x] for x in n["in"]]).items():
            name = n["name"] + "/" + (name % (n["name"] + "_inner") if "%s" in name else name)
            last, v = name.split("/")[-1], r.standard_normal(shape, dtype=np.float32)
            if last in ("gamma", "moving_variance", "variance"):
                v = 1 + 0.2 * np.clip(v, -2, 2)
            elif last in ("bias", "beta", "moving_mean", "mean", "alpha"):
                v = 0.1 * v
            elif last == "embeddings":
                v = 0.5 * v
            else:
                fan = product(shape) / (shape[0] if n["op"].endswith("Transpose") else shape[-1])
                if last == "depthwise_kernel":
                    fan = product(shape[:-2])
                elif "query_" in name or "key_" in name or "value_" in name:
                    fan = shape[0]
                elif n["op"].endswith("Transpose"):
                    fan = product(shape[:-2]) * shape[-1]
                v = v / np.sqrt(max(fan, 1))
            out[name] = v.astype(np.float32)
    return out


def narrow(r, shape):
    """Layers that make a vector of any tensor."""
    space = len(shape) - 1
    if space == 0:
        return []
    if space in (1, 2, 3) and (product(shape) > 20000 or chance(r, 0.4)):
        return [("Global%sPooling%dD" % (pick(r, ["Max", "Average"]), space), {})]
    return [("Flatten", {})]


def dense(units):
    return "Dense", {"units": units}


def softmax(x):
    return "Activation", [x], {"activation": "softmax"}


def sigmoid(x):
    return "Activation", [x], {"activation": "sigmoid"}
