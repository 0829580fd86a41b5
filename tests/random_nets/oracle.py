"""The same training in PyTorch, in float64: losses of every step. For nets of the operations below, without dropout,
in the file's order of samples.

KERAS and ONNX map an operation to a function (options, inputs, parameters) of tensors with their batch; parameters
are a dict by the names of keras.parameters and of
onnx.Builder.param. They are written from the definitions of Keras and ONNX, not from the importer.
"""
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

import files
import generate
import keras
import onnx

TOLERANCE = 1e-4
KERAS, ONNX = {}, {}


# ---------------------------------------------------------------------------------------------------------- activations
def hard_sigmoid(x, a, b):
    return (a * x + b).clamp(0, 1)


FUNCTIONS = {
    "linear": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "swish": F.silu,
    "silu": F.silu,
    "hard_swish": F.hardswish,
    "hard_silu": F.hardswish,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "exponential": torch.exp,
    "mish": F.mish,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "log_sigmoid": F.logsigmoid,
    "hard_tanh": F.hardtanh,
    "tanh_shrink": F.tanhshrink,
    "soft_shrink": lambda x: F.softshrink(x, 0.5),
    "hard_shrink": lambda x: F.hardshrink(x, 0.5),
    "squareplus": lambda x: (x + (x * x + 4).sqrt()) / 2,
}
# hard_sigmoid is not among them: Keras 2 and 3 differ


def activate(o, x):
    return FUNCTIONS[o["activation"]](x) if o.get("activation") else x


# --------------------------------------------------------------------------------------------------------------- images
def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def image(o, x):
    return x if o.get("data_format") == "channels_first" else first(x)


def back(o, x):
    return x if o.get("data_format") == "channels_first" else last(x)


def bordered(x, pairs, value=0.0):
    """pairs: (before, after) of every dimension of space"""
    flat = [n for pair in reversed(pairs) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def same_pairs(x, kernel, stride, dilation, padding):
    pairs = []
    for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation):
        reach = (k - 1) * d + 1
        if padding == "same":
            total = max((-(-n // s) - 1) * s + reach - n, 0)
            pairs.append((total // 2, total - total // 2))
        else:
            pairs.append((reach - 1, 0) if padding == "causal" else (0, 0))
    return pairs


CONV = [None, F.conv1d, F.conv2d, F.conv3d]
TRANSPOSE = [None, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
MAX = [None, F.max_pool1d, F.max_pool2d, F.max_pool3d]


def keras_conv(o, x, weight, bias, groups):
    space = len(o["kernel_size"])
    stride, dilation = o.get("strides", [1] * space), o.get("dilation_rate", [1] * space)
    x = bordered(x, same_pairs(x, o["kernel_size"], stride, dilation, o.get("padding", "valid")))
    return CONV[space](x, weight, bias, stride, 0, dilation, groups)


def turned(w):
    """[window..., in, out] as [out, in, window...]"""
    return w.permute(w.dim() - 1, w.dim() - 2, *range(w.dim() - 2))


def k_conv(o, ins, p):
    return activate(o, back(o, keras_conv(o, image(o, ins[0]), turned(p["kernel"]), p.get("bias"), o.get("groups", 1))))


def depthwise_weight(w):
    return turned(w.reshape(*w.shape[:-2], 1, w.shape[-2] * w.shape[-1]))


def k_depthwise(o, ins, p):
    x = image(o, ins[0])
    return activate(o, back(o, keras_conv(o, x, depthwise_weight(p["depthwise_kernel"]), p.get("bias"), x.shape[1])))


def k_separable(o, ins, p):
    x = image(o, ins[0])
    x = keras_conv(o, x, depthwise_weight(p["depthwise_kernel"]), None, x.shape[1])
    return activate(o, back(o, CONV[len(o["kernel_size"])](x, turned(p["pointwise_kernel"]), p.get("bias"))))


def k_transpose(o, ins, p):
    space = len(o["kernel_size"])
    if "output_padding" in o:
        raise NotImplementedError
    stride, dilation = o.get("strides", [1] * space), o.get("dilation_rate", [1] * space)
    x = image(o, ins[0])
    y = TRANSPOSE[space](x, turned(p["kernel"]), None, stride, 0, 0, 1, dilation)
    pairs = []
    for n, m, s in zip(x.shape[2:], y.shape[2:], stride):
        out = n * s if o.get("padding") == "same" else max(m, (n - 1) * s + s)
        cut = max(m - out, 0)
        pairs.append((-(cut // 2), -(cut - cut // 2)) if out <= m else (0, out - m))
    y = bordered(y, pairs)
    if "bias" in p:
        y = y + p["bias"].reshape(1, -1, *[1] * space)
    return activate(o, back(o, y))


def average(x, kernel, stride, pairs, dilation, count_border):
    """Means of windows; border counts, or not."""
    space = len(kernel)
    c = x.shape[1]
    ones = torch.ones(c, 1, *kernel, dtype=x.dtype)
    total = CONV[space](bordered(x, pairs), ones, None, stride, 0, dilation, c)
    if count_border:
        return total / keras.product(kernel)
    count = CONV[space](bordered(torch.ones_like(x), pairs), ones, None, stride, 0, dilation, c)
    return total / count


def k_pool(kind):
    def pool(o, ins, p):
        x, space = image(o, ins[0]), len(o["pool_size"])
        stride, ones = o.get("strides", o["pool_size"]), [1] * space
        pairs = same_pairs(x, o["pool_size"], stride, ones, o["padding"])
        if kind == "Max":
            return back(o, MAX[space](bordered(x, pairs, -math.inf), o["pool_size"], stride))
        return back(o, average(x, o["pool_size"], stride, pairs, ones, False))

    return pool


def k_global(kind):
    def pool(o, ins, p):
        x = image(o, ins[0])
        axes = tuple(range(2, x.dim()))
        y = x.amax(axes, keepdim=True) if kind == "Max" else x.mean(axes, keepdim=True)
        return back(o, y) if o.get("keepdims") else y.flatten(1)

    return pool


for _space in (1, 2, 3):
    KERAS["Conv%dD" % _space] = k_conv
    KERAS["Conv%dDTranspose" % _space] = k_transpose
    KERAS["DepthwiseConv%dD" % _space] = k_depthwise
    KERAS["SeparableConv%dD" % _space] = k_separable
    for _kind in ("Max", "Average"):
        KERAS["%sPooling%dD" % (_kind, _space)] = k_pool(_kind)
        KERAS["Global%sPooling%dD" % (_kind, _space)] = k_global(_kind)


def dense(o, ins, p):
    y = ins[0] @ p["kernel"]
    return activate(o, y + p["bias"] if "bias" in p else y)


def affine(y, p, axis):
    for name, add in (("gamma", False), ("beta", True)):
        if name in p:
            w = p[name].reshape([-1 if d == axis % y.dim() else 1 for d in range(y.dim())])
            y = y + w if add else y * w
    return y


def k_batch_norm(o, ins, p):
    x = ins[0]
    axis = o["axis"] % x.dim()
    others = [d for d in range(x.dim()) if d != axis]
    mean, variance = x.mean(others, keepdim=True), x.var(others, unbiased=False, keepdim=True)
    return affine((x - mean) / (variance + o["epsilon"]).sqrt(), p, axis)


def k_layer_norm(o, ins, p):
    x = ins[0]
    shape = x.shape[-1:] if o["axis"] == -1 else x.shape[o["axis"][0] :]
    return F.layer_norm(x, shape, p.get("gamma"), p.get("beta"), o["epsilon"])


def k_group_norm(o, ins, p):
    x = ins[0] if ins[0].dim() == 2 else first(ins[0])
    y = F.group_norm(x, x.shape[1] if o["groups"] == -1 else o["groups"], p.get("gamma"), p.get("beta"), o["epsilon"])
    return y if ins[0].dim() == 2 else last(y)


def k_attention(o, ins, p):
    query, value, key = ins[0], ins[1], ins[2] if len(ins) == 3 else ins[1]
    project = lambda x, name: torch.einsum("btd,dhk->bhtk", x, p[name + "_dense/kernel"]) + (
        p[name + "_dense/bias"].unsqueeze(1) if name + "_dense/bias" in p else 0
    )  # noqa: E731
    q, k, v = project(query, "query"), project(key, "key"), project(value, "value")
    weights = (q @ k.transpose(-1, -2) / math.sqrt(o["key_dim"])).softmax(-1)
    return torch.einsum("bhtk,hkd->btd", weights @ v, p["output_dense/kernel"]) + p.get("output_dense/bias", 0)


def k_relu(o, ins, p):
    x, threshold, slope = ins[0], o.get("threshold", 0), o.get("negative_slope", 0)
    y = torch.where(x >= threshold, x, slope * (x - threshold)) if threshold else F.leaky_relu(x, slope)
    return y.clamp(max=o["max_value"]) if "max_value" in o else y


def k_prelu(o, ins, p):
    return ins[0].clamp(min=0) + p["alpha"] * ins[0].clamp(max=0)


KERAS.update(
    {
        "Dense": dense,
        "Flatten": lambda o, i, p: (
            last(i[0]) if o.get("data_format") == "channels_first" and i[0].dim() > 2 else i[0]
        ).flatten(1),
        "Reshape": lambda o, i, p: i[0].reshape(i[0].shape[0], *o["target_shape"]),
        "Permute": lambda o, i, p: i[0].permute(0, *o["dims"]),
        "RepeatVector": lambda o, i, p: i[0].unsqueeze(1).repeat(1, o["n"], 1),
        "Embedding": lambda o, i, p: p["embeddings"][i[0]],
        "Activation": lambda o, i, p: activate(o, i[0]),
        "ReLU": k_relu,
        "LeakyReLU": lambda o, i, p: F.leaky_relu(i[0], o["negative_slope"]),
        "PReLU": k_prelu,
        "ELU": lambda o, i, p: F.elu(i[0], o["alpha"]),
        "ThresholdedReLU": lambda o, i, p: F.threshold(i[0], o["theta"], 0),
        "Softmax": lambda o, i, p: i[0].softmax(o["axis"]),
        "BatchNormalization": k_batch_norm,
        "LayerNormalization": k_layer_norm,
        "GroupNormalization": k_group_norm,
        "MultiHeadAttention": k_attention,
        "Add": lambda o, i, p: sum(i),
        "Subtract": lambda o, i, p: i[0] - i[1],
        "Multiply": lambda o, i, p: math.prod(i),
        "Average": lambda o, i, p: sum(i) / len(i),
        "Maximum": lambda o, i, p: torch.stack(i).amax(0) if len(i) > 2 else torch.maximum(*i),
        "Minimum": lambda o, i, p: torch.stack(i).amin(0) if len(i) > 2 else torch.minimum(*i),
        "Concatenate": lambda o, i, p: torch.cat(i, o["axis"]),
        "Rescaling": lambda o, i, p: i[0] * torch.tensor(o["scale"], dtype=i[0].dtype) + o["offset"],
        "UnitNormalization": lambda o, i, p: i[0] / (i[0] * i[0]).sum(o["axis"], keepdim=True).clamp(min=1e-12).sqrt(),
    }
)


# ----------------------------------------------------------------------------------------------------------------- ONNX
def onnx_pairs(o, x):
    space = len(o["kernel_shape"])
    stride, dilation = o.get("strides", [1] * space), o.get("dilations", [1] * space)
    how = o.get("auto_pad", "NOTSET")
    if how.startswith("SAME"):
        pairs = same_pairs(x, o["kernel_shape"], stride, dilation, "same")
        return stride, dilation, pairs if how == "SAME_UPPER" else [(b, a) for a, b in pairs]
    pads = o.get("pads", [0] * 2 * space)
    return stride, dilation, list(zip(pads[:space], pads[space:]))


def o_conv(o, ins, p):
    stride, dilation, pairs = onnx_pairs(o, ins[0])
    return CONV[len(pairs)](bordered(ins[0], pairs), p["w"], p.get("b"), stride, 0, dilation, o.get("group", 1))


def o_transpose(o, ins, p):
    if "auto_pad" in o:
        raise NotImplementedError
    stride, dilation, pairs = onnx_pairs(o, ins[0])
    extra = o.get("output_padding", [0] * len(pairs))
    y = TRANSPOSE[len(pairs)](ins[0], p["w"], None, stride, 0, 0, o.get("group", 1), dilation)
    y = bordered(y, [(-a, e - b) for (a, b), e in zip(pairs, extra)])
    return y + p["b"].reshape(1, -1, *[1] * len(pairs)) if "b" in p else y


def o_pool(kind):
    def pool(o, ins, p):
        if o.get("ceil_mode"):
            raise NotImplementedError
        stride, dilation, pairs = onnx_pairs(o, ins[0])
        if kind == "MaxPool":
            return MAX[len(pairs)](bordered(ins[0], pairs, -math.inf), o["kernel_shape"], stride, 0, dilation)
        return average(ins[0], o["kernel_shape"], stride, pairs, dilation, o.get("count_include_pad", 0))

    return pool


def o_batch_norm(o, ins, p):
    return k_batch_norm({"axis": 1, "epsilon": o["epsilon"]}, ins, {"gamma": p["scale"], "beta": p["shift"]})


def o_layer_norm(o, ins, p):
    x = ins[0]
    return F.layer_norm(
        x, x.shape[-1:] if o["axis"] == -1 else x.shape[o["axis"] :], p["scale"], p["shift"], o["epsilon"]
    )


def o_gemm(o, ins, p):
    y = o.get("alpha", 1.0) * (ins[0] @ (p["w"].t() if o.get("transB") else p["w"]))
    return y + o.get("beta", 1.0) * p["b"] if "b" in p else y


def o_matmul(o, ins, p):
    if len(ins) == 2:
        return ins[0] @ ins[1].transpose(-1, -2) * np.float32(1 / np.sqrt(ins[0].shape[-1]))
    y = ins[0] @ p["w"]
    return y + p["b"] if "b" in p else y


def o_einsum(o, ins, p):
    if len(ins) == 2:
        return torch.einsum("bij,bkj->bik", *ins) * np.float32(1 / np.sqrt(ins[0].shape[2]))
    return ins[0] @ p["w"]


def o_slice(o, ins, p):
    at = range(ins[0].shape[o["_axis"]])[slice(o["_start"], None if o["_end"] < 0 else o["_end"], o["_step"])]
    return ins[0].index_select(o["_axis"], torch.tensor(list(at)))


def o_pad(o, ins, p):
    rank = ins[0].dim() - 1
    if o["mode"] != "constant":
        raise NotImplementedError
    return F.pad(ins[0], [n for d in reversed(range(rank)) for n in (o["_pads"][d], o["_pads"][rank + d])])


def shrunk(x, d):
    return torch.where(x > d, x - d, torch.where(x < -d, x + d, torch.zeros_like(x)))


def positive(x):
    return F.softplus(x) + 0.5


def o_reduce(f, before=None, scaled=False):
    def reduce(o, ins, p):
        x = before(ins[0]) if before else ins[0]
        axes = tuple(o["_axes"])
        y = f(x, axes, bool(o["keepdims"]))
        return y / keras.product([x.shape[a] for a in axes]) if scaled else y

    return reduce


def gate(m, h, k):
    return m[:, k * h : (k + 1) * h]


def o_rnn(kind):
    def layer(o, ins, p):
        x, h = ins[0], o["hidden_size"]
        dirs = p["w"].shape[0]
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
        outs, ends = [], []
        for d in range(dirs):
            state = cell = x.new_zeros(x.shape[0], h)
            wb, rb = p["b"][d].split(gates * h) if "b" in p else (0, 0)
            steps = range(x.shape[1])
            steps = reversed(steps) if o["direction"] == "reverse" or d == 1 else steps
            made = [None] * x.shape[1]
            for t in steps:
                a, b = x[:, t] @ p["w"][d].t() + wb, state @ p["r"][d].t() + rb
                if kind == "RNN":
                    state = torch.tanh(a + b)
                elif kind == "LSTM":
                    i, out, f, g = (gate(a + b, h, k) for k in range(4))
                    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
                    state = torch.sigmoid(out) * torch.tanh(cell)
                else:
                    z, reset = torch.sigmoid(gate(a + b, h, 0)), torch.sigmoid(gate(a + b, h, 1))
                    if o["_late"]:
                        new = torch.tanh(gate(a, h, 2) + reset * gate(b, h, 2))
                    else:
                        new = torch.tanh(
                            gate(a, h, 2) + (reset * state) @ p["r"][d][2 * h :].t() + (rb[2 * h :] if "b" in p else 0)
                        )
                    state = (1 - z) * new + z * state
                made[t] = state
            outs.append(torch.stack(made, 1))
            ends.append(state)
        return torch.stack(ends, 1) if o["_last"] else torch.stack(outs, 2)

    return layer


def one(f):
    return lambda o, ins, p: f(ins[0])


ONNX.update(
    {
        "Conv": o_conv,
        "ConvTranspose": o_transpose,
        "MaxPool": o_pool("MaxPool"),
        "AveragePool": o_pool("AveragePool"),
        "BatchNormalization": o_batch_norm,
        "GlobalAveragePool": one(lambda x: x.mean(tuple(range(2, x.dim())), keepdim=True)),
        "GlobalMaxPool": one(lambda x: x.amax(tuple(range(2, x.dim())), keepdim=True)),
        "InstanceNormalization": lambda o, i, p: F.group_norm(
            i[0], i[0].shape[1], p["scale"], p["shift"], o["epsilon"]
        ),
        "LayerNormalization": o_layer_norm,
        "GroupNormalization": lambda o, i, p: F.group_norm(
            i[0],
            o["num_groups"],
            p["scale"].repeat_interleave(i[0].shape[1] // o["num_groups"]),
            p["shift"].repeat_interleave(i[0].shape[1] // o["num_groups"]),
            o["epsilon"],
        ),
        "LRN": lambda o, i, p: F.local_response_norm(i[0], o["size"], o["alpha"], o["beta"], o["bias"]),
        "Gemm": o_gemm,
        "MatMul": o_matmul,
        "Einsum": o_einsum,
        "Softmax": lambda o, i, p: i[0].softmax(o["axis"]),
        "LogSoftmax": lambda o, i, p: i[0].log_softmax(o["axis"]),
        "Relu": one(F.relu),
        "Elu": lambda o, i, p: F.elu(i[0], o["alpha"]),
        "Selu": one(F.selu),
        "Celu": lambda o, i, p: F.celu(i[0], o["alpha"]),
        "LeakyRelu": lambda o, i, p: F.leaky_relu(i[0], o["alpha"]),
        "HardSigmoid": lambda o, i, p: hard_sigmoid(i[0], o["alpha"], o["beta"]),
        "HardSwish": one(F.hardswish),
        "Sigmoid": one(torch.sigmoid),
        "Softplus": one(F.softplus),
        "Softsign": one(F.softsign),
        "Tanh": one(torch.tanh),
        "Mish": one(F.mish),
        "Identity": one(lambda x: x),
        "Gelu": lambda o, i, p: F.gelu(i[0], approximate=o.get("approximate", "none")),
        "ThresholdedRelu": lambda o, i, p: F.threshold(i[0], o["alpha"], 0),
        "Shrink": lambda o, i, p: shrunk(i[0], o["bias"]),
        "Clip": lambda o, i, p: i[0].clamp(o["_min"], o["_max"]),
        "Abs": one(torch.abs),
        "Neg": one(torch.neg),
        "Sin": one(torch.sin),
        "Cos": one(torch.cos),
        "Erf": one(torch.erf),
        "Atan": one(torch.atan),
        "Asinh": one(torch.asinh),
        "Exp": one(lambda x: (torch.tanh(x) * 1.5).exp()),
        "Log": one(lambda x: positive(x).log()),
        "Reciprocal": one(lambda x: 1 / positive(x)),
        "Cast": one(lambda x: x),
        "CastLike": one(lambda x: x),
        "Shape": one(lambda x: x),
        "PRelu": lambda o, i, p: torch.where(i[0] >= 0, i[0], p["slope"] * i[0]),
        "Add": lambda o, i, p: i[0] + i[1],
        "Sub": lambda o, i, p: i[0] - i[1],
        "Mul": lambda o, i, p: i[0] * i[1],
        "Div": lambda o, i, p: i[0] / positive(i[1]),
        "Sum": lambda o, i, p: sum(i),
        "Mean": lambda o, i, p: sum(i) / len(i),
        "Concat": lambda o, i, p: torch.cat(i, o["axis"]),
        "Split": lambda o, i, p: i[0].split(o["_sizes"], o["axis"])[o["_take"]],
        "Slice": o_slice,
        "Pad": o_pad,
        "Reshape": lambda o, i, p: i[0].reshape(i[0].shape[0], *o["_to"]),
        "Flatten": one(lambda x: x.flatten(1)),
        "Squeeze": lambda o, i, p: i[0].squeeze(o["_axis"]),
        "Unsqueeze": lambda o, i, p: i[0].unsqueeze(o["_axis"]),
        "Transpose": lambda o, i, p: i[0].permute(o["perm"]),
        "Tile": lambda o, i, p: torch.cat([i[0]] * o["_times"], o["_axis"]),
        "Expand": lambda o, i, p: torch.cat([i[0]] * o["_times"], o["_axis"]),
        "SpaceToDepth": None,
        "ReduceSum": o_reduce(lambda x, a, k: x.sum(a, keepdim=k), scaled=True),
        "ReduceMean": o_reduce(lambda x, a, k: x.mean(a, keepdim=k)),
        "ReduceMax": o_reduce(lambda x, a, k: x.amax(a, keepdim=k)),
        "ReduceMin": o_reduce(lambda x, a, k: x.amin(a, keepdim=k)),
        "ReduceL1": o_reduce(lambda x, a, k: x.abs().sum(a, keepdim=k), scaled=True),
        "ReduceL2": o_reduce(lambda x, a, k: (x * x).sum(a, keepdim=k).sqrt(), positive),
        "ReduceLogSumExp": o_reduce(lambda x, a, k: x.logsumexp(a, keepdim=k)),
        "ReduceLogSum": o_reduce(lambda x, a, k: x.sum(a, keepdim=k).log(), positive),
        "ReduceSumSquare": o_reduce(lambda x, a, k: (x * x).sum(a, keepdim=k), scaled=True),
        "RNN": o_rnn("RNN"),
        "GRU": o_rnn("GRU"),
        "LSTM": o_rnn("LSTM"),
        "Gather": lambda o, i, p: p["table"][i[0]]
        if "rows" in o
        else i[0].index_select(o["axis"], torch.tensor(o["_rows"])),
        "OneHot": lambda o, i, p: p["table"][i[0]],
        "GatherND": lambda o, i, p: p["table"][i[0]],
        "Trilu": lambda o, i, p: i[0].triu() if o["upper"] else i[0].tril(),
    }
)
del ONNX["SpaceToDepth"]


# ------------------------------------------------------------------------------------------------------------- training
def parameters(net, shapes, folder):
    """{name: float64 array}, as the file has them."""
    if net["dialect"] == "keras":
        return files.read_safetensors(os.path.join(folder, "w.safetensors"))
    return onnx.values(net, shapes)


def own(net, node, values):
    prefix = (node.get("share") or node["name"]) + ("." if net["dialect"] == "onnx" else "/")
    return {k[len(prefix) :]: v for k, v in values.items() if k.startswith(prefix)}


def forward(net, table, values, inputs):
    made = dict(inputs)
    for n in net["nodes"]:
        made[n["name"]] = table[n["op"]](n["attr"], [made[x] for x in n["in"]], own(net, n, values))
    return made[net["outputs"][0]]


NEAR = 1e-7  # how near to 0 and 1 a probability may come, as in Keras, unless it is known what it was made of


def makes_probabilities(net):
    """Whether the last layer is a softmax or a sigmoid: then the loss is computed from what goes into that."""
    last = next(n for n in net["nodes"] if n["name"] == net["outputs"][0])
    return str(last["attr"].get("activation") or last["op"]).lower() in ("softmax", "sigmoid")


def loss_of(kind, y, t, known):
    near = 0 if known else NEAR
    if kind == "mse":
        return ((y - t) ** 2).mean()
    if kind == "mae":
        return (y - t).abs().mean()
    if kind == "bce-logits":
        return F.binary_cross_entropy_with_logits(y, t)
    if kind == "bce":
        return F.binary_cross_entropy(y.clamp(near, 1 - near), t)
    logs = y.log_softmax(-1) if kind.endswith("logits") else y.clamp(near, 1 - near).log()
    if kind.startswith("sparse"):
        return -logs.gather(-1, t.unsqueeze(-1)).mean()
    return -(t * logs).sum(-1).mean()


def optimizer_of(name, trained, rate):
    kind, _, rest = name.partition(":")
    o = dict((k, float(v)) for k, v in (item.split("=") for item in rest.split(",") if item))
    decay = o.get("decay", 0.0)
    if kind in ("sgd", "momentum", "nesterov"):
        return torch.optim.SGD(
            trained,
            rate,
            0 if kind == "sgd" else o.get("momentum", 0.9),
            weight_decay=decay,
            nesterov=kind == "nesterov",
        )
    if kind == "rmsprop":
        return torch.optim.RMSprop(trained, rate, o.get("rho", 0.9), o.get("eps", 1e-8), decay)
    betas, eps = (o.get("beta1", 0.9), o.get("beta2", 0.999)), o.get("eps", 1e-8)
    return (
        torch.optim.AdamW(trained, rate, betas, eps, o.get("decay", 0.01))
        if kind == "adamw"
        else torch.optim.Adam(trained, rate, betas, eps, decay)
    )


def rate_at(t, step, steps):
    s = (t["schedule"] or "constant").split(":")
    if s[0] == "constant":
        return t["lr"]
    if s[0] == "step":
        return t["lr"] * float(s[2]) ** (step // int(s[1]))
    warm = int(s[1]) if len(s) > 1 else 0
    if step < warm:
        return t["lr"] * (step + 1) / (warm + 1)
    done = (step - warm) / max(steps - warm, 1)
    return t["lr"] * (1 - done if s[0] == "linear" else 0.5 * (1 + math.cos(math.pi * done)))


def losses(net, shapes, folder, steps):
    """@raise NotImplementedError, KeyError: not for this net"""
    table, t = KERAS if net["dialect"] == "keras" else ONNX, net["train"]
    values = {
        k: torch.tensor(
            v,
            dtype=torch.float64,
            requires_grad=not k.endswith(("/moving_mean", "/moving_variance", ".mean", ".variance")),
        )
        for k, v in parameters(net, shapes, folder).items()
    }
    trained = [v for v in values.values() if v.requires_grad]
    optimizer = optimizer_of(t["optimizer"], trained, t["lr"])
    data = {i["name"]: torch.from_numpy(np.load(os.path.join(folder, i["name"] + ".npy"))) for i in net["inputs"]}
    data = {k: v.double() if v.is_floating_point() else v.long() for k, v in data.items()}
    target = torch.from_numpy(np.load(os.path.join(folder, "y.npy")))
    target = target.double() if target.is_floating_point() else target
    per_epoch, out = t["samples"] // t["batch"], []
    for step in range(steps):
        at = step % per_epoch * t["batch"]
        cut = slice(at, at + t["batch"])
        optimizer.param_groups[0]["lr"] = rate_at(t, step, steps)
        optimizer.zero_grad()
        y = forward(net, table, values, {k: v[cut] for k, v in data.items()})
        loss = loss_of(t["loss"], y, target[cut], makes_probabilities(net))
        loss.backward()
        optimizer.step()
        out.append(float(loss.detach()))
    return out


def compare(judge, whole):
    """Fails the judge where losses are not PyTorch's."""
    net = judge.net
    table = KERAS if net["dialect"] == "keras" else ONNX
    if whole is None or net["train"]["shuffle"] or any(n["op"] not in table for n in net["nodes"]):
        return
    torch.set_num_threads(1)
    try:
        want = np.array(losses(net, generate.shapes_of(net), judge.folder, judge.total_steps()))
    except (NotImplementedError, KeyError, RuntimeError):  # the last: what this PyTorch does not do in float64
        return
    judge.compared = True
    got = np.array(whole.json["loss"], float)
    far = np.abs(want - got)
    if (~(far <= TOLERANCE * np.abs(want) + 1e-6)).any() and not judge.shaky("losses", far):
        import run

        judge.fail(
            "torch", "losses are not PyTorch's: %s, expected %s" % (got.tolist(), want.tolist()), run.shell(whole.argv)
        )
