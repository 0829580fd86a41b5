#!/usr/bin/python3
"""Writes tests of ONNX operators whose expected outputs NumPy computes here: onnx_cases.py FOLDER. For plimsoll-conformance.

The ONNX project's own tests are few for each operator, and small: a recurrent layer sees one step in time. These go where those do not: several steps and
directions, reductions of what meets at one place, windows that reach over the end, integers below zero.
"""
import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from make_cases import message, port, tensor, write  # noqa: E402

KINDS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}
rng = np.random.default_rng(7)
INT_MAX = 2**63 - 1


def attribute(name, value):
    if isinstance(value, float):
        return message((1, name), (2, value), (20, 1))
    if isinstance(value, int):
        return message((1, name), (3, value), (20, 2))
    if isinstance(value, str):
        return message((1, name), (4, value), (20, 3))
    if value and isinstance(value[0], float):
        return message((1, name), *[(7, v) for v in value], (20, 6))
    return message((1, name), *[(8, v) for v in value], (20, 7))


def as_tensor(name, a):
    return tensor(name, KINDS[a.dtype.name], a.shape, np.ascontiguousarray(a).tobytes())


def case(name, op, inputs, outputs, opset=17, **attributes):
    """One node. An input or output that is None is left out."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    inputs = [None if i is None else np.asarray(i) for i in inputs]
    outputs = [None if o is None else np.asarray(o) for o in outputs]
    ins = ["" if a is None else "x%d" % i for i, a in enumerate(inputs)]
    outs = ["" if a is None else "y%d" % i for i, a in enumerate(outputs)]
    node = message(*[(1, i) for i in ins], *[(2, o) for o in outs], (4, op), *[(5, attribute(k, v)) for k, v in attributes.items()])
    here = [(n, a) for n, a in zip(ins, inputs) if a is not None]
    made = [(n, a) for n, a in zip(outs, outputs) if a is not None]
    ports = [(11, port(n, KINDS[a.dtype.name], a.shape)) for n, a in here] + [(12, port(n, KINDS[a.dtype.name], a.shape)) for n, a in made]
    folder = os.path.join(sys.argv[1], "%s_%s" % (op.lower(), name))
    write(folder, "model.onnx", message((1, 8), (8, message((1, ""), (2, opset))), (7, message((1, node), (2, name), *ports))))
    for kind, files in [("input", here), ("output", made)]:
        for i, (n, a) in enumerate(files):
            write(folder, "test_data_set_0/%s_%d.pb" % (kind, i), as_tensor(n, a))


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(lo, hi, shape, dtype=np.int64):
    return rng.integers(lo, hi, shape).astype(dtype)


def scalar(v, dtype=np.int64):
    return np.array(v, dtype)


def i64(*v):
    return np.array(v, np.int64)


# ---- recurrent layers
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(kind, x, h, c, w, r, wb, rb, late):
    """One step: the new h and c."""
    n = h.shape[1]
    gate = lambda m, i: m[..., i * n : (i + 1) * n]  # noqa: E731
    a, b = x @ w.T + wb, h @ r.T + rb
    if kind == "RNN":
        return np.tanh(a + b), c
    if kind == "LSTM":
        i, o, f, g = (gate(a + b, k) for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    z, reset = sigmoid(gate(a + b, 0)), sigmoid(gate(a + b, 1))
    if late:
        new = np.tanh(gate(a, 2) + reset * gate(b, 2))
    else:
        new = np.tanh(gate(a, 2) + (reset * h) @ r[2 * n :].T + gate(rb, 2))
    return (1 - z) * new + z * h, c


def recurrent(kind, direction, bias, state, layout, late=0):
    gates, dirs, steps, batch, size, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 2 if direction == "bidirectional" else 1, 4, 3, 2, 5
    x, w, r = f32(steps, batch, size), f32(dirs, gates * hidden, size), f32(dirs, gates * hidden, hidden)
    b = f32(dirs, 2 * gates * hidden) if bias else None
    h0 = f32(dirs, batch, hidden) if state else None
    c0 = f32(dirs, batch, hidden) if state and kind == "LSTM" else None
    y, last_h, last_c = np.zeros((steps, dirs, batch, hidden), np.float32), [], []
    for d in range(dirs):
        h = h0[d] if state else np.zeros((batch, hidden), np.float32)
        c = c0[d] if c0 is not None else np.zeros((batch, hidden), np.float32)
        wb, rb = np.split(b[d], 2) if bias else (np.zeros(gates * hidden), np.zeros(gates * hidden))
        back = direction == "reverse" or d == 1
        for t in reversed(range(steps)) if back else range(steps):
            h, c = cell(kind, x[t], h, c, w[d], r[d], wb, rb, late)
            y[t, d] = h
        last_h.append(h)
        last_c.append(c)
    turn = (lambda a: None if a is None else a.swapaxes(0, 1)) if layout else (lambda a: a)
    outs = [y.transpose(2, 0, 1, 3) if layout else y, turn(np.stack(last_h).astype(np.float32))]
    ins = [turn(x), w, r, b, None, turn(h0)]
    extra = {"linear_before_reset": late} if kind == "GRU" else {}
    if kind == "LSTM":
        outs.append(turn(np.stack(last_c).astype(np.float32)))
        ins.append(turn(c0))
    while ins[-1] is None:
        ins.pop()
    name = "%s_bias%d_state%d_layout%d_late%d" % (direction, bias, state, layout, late)
    case(name, kind, ins, outs, hidden_size=hidden, direction=direction, layout=layout, **extra)


def recurrent_cases():
    for kind in ["RNN", "GRU", "LSTM"]:
        for direction in ["forward", "reverse", "bidirectional"]:
            for late in [0, 1] if kind == "GRU" else [0]:
                recurrent(kind, direction, 1, 1, 0, late)
                recurrent(kind, direction, 0, 0, 1, late)
                recurrent(kind, direction, 1, 0, 1, late)


# ---- indexing
def scatter_elements(data, index, updates, axis, reduction):
    out = data.copy()
    fold = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": min, "max": max}[reduction]
    for at in np.ndindex(index.shape):
        to = list(at)
        to[axis] = index[at]
        out[tuple(to)] = fold(out[tuple(to)], updates[at])
    return out


def scatter_nd(data, index, updates, reduction):
    out = data.copy()
    for at in np.ndindex(index.shape[:-1]):
        to = tuple(index[at])
        new = {"none": updates[at], "add": out[to] + updates[at], "mul": out[to] * updates[at], "min": np.minimum(out[to], updates[at]),
               "max": np.maximum(out[to], updates[at])}[reduction]
        out[to] = new
    return out


def index_cases():
    data, index, updates = f32(4, 5, 3), ints(-5, 5, (3, 4, 2)), f32(3, 4, 2)
    for reduction in ["none", "add", "mul", "min", "max"]:
        case("axis1_" + reduction, "ScatterElements", [data, index, updates], scatter_elements(data, index, updates, 1, reduction), opset=18, axis=1,
             reduction=reduction)
        at, new = np.stack([ints(-4, 4, (2, 6)), ints(0, 5, (2, 6))], -1), f32(2, 6, 3)
        case(reduction, "ScatterND", [data, at, new], scatter_nd(data, at, new, reduction), opset=18, reduction=reduction)
    whole = ints(-100, 100, (4, 5))
    at, new = ints(0, 4, (4, 5)), ints(-2**62, 2**62, (4, 5))
    case("int64", "ScatterElements", [whole, at, new], scatter_elements(whole, at, new, 0, "none"), opset=18, axis=0)
    at = ints(-4, 4, (2, 3, 1))
    case("slices", "GatherND", [data, at], data[at[..., 0]])
    at = np.stack([ints(0, 4, (3,)), ints(0, 5, (3,)), ints(0, 3, (3,))], -1)
    case("elements", "GatherND", [data, at], data[at[:, 0], at[:, 1], at[:, 2]])
    at = ints(0, 3, (4, 5, 2, 1))
    case("two_batches", "GatherND", [data, at], np.take_along_axis(data, at[..., 0], 2), batch_dims=2)
    at = ints(-5, 5, (4, 2, 3), np.int32)
    case("axis1", "GatherElements", [data, at], np.take_along_axis(data, at, 1), axis=1)
    at = ints(-3, 3, (2, 2), np.int32)
    case("last", "Gather", [data, at], np.take(data, at, 2), axis=-1)
    hot = ints(-4, 6, (2, 3))
    expected = np.where((np.where(hot < 0, hot + 4, hot))[:, None, :] == np.arange(4)[None, :, None], np.float32(7), np.float32(-1))
    case("some_nowhere", "OneHot", [hot, scalar(4), np.array([-1, 7], np.float32)], expected, axis=1)
    x = f32(3, 4, 2)
    lengths, expected = i64(1, 4, 3), x.copy()
    for n, length in enumerate(lengths):
        expected[n, :length] = x[n, :length][::-1]
    case("batch_first", "ReverseSequence", [x, lengths], expected, batch_axis=0, time_axis=1)
    case("last", "Compress", [x, np.array([1, 0, 1, 1], bool)], x[:, [0, 2, 3]], axis=1)


# ---- products
def product_cases():
    a, b, c = f32(2, 3, 4), f32(2, 4, 5), f32(5, 6)
    for name, equation, ins in [("chain", "bij,bjk,kl->bil", [a, b, c]), ("implied", "bij,bjk", [a, b]), ("outer", "i,j->ij", [f32(3), f32(4)]),
                                ("total", "ij->", [c]), ("heads", "bhid,bhjd->bhij", [f32(2, 3, 4, 5), f32(2, 3, 6, 5)]),
                                ("lost", "ij,kl->k", [f32(2, 3), f32(4, 5)]), ("moved", "bij,bjk->kib", [a, b])]:
        case(name, "Einsum", ins, np.einsum(equation, *ins).astype(np.float32), equation=equation)
    x, y = ints(-9, 9, (2, 1, 3, 4)), ints(-9, 9, (5, 4, 2))
    case("integers", "MatMul", [x, y], x @ y)
    case("vector", "MatMul", [f := f32(4), g := f32(3, 4, 2)], f @ g)
    m, n, add = f32(4, 3), f32(5, 4), f32(5)
    case("turned", "Gemm", [m, n, add], (0.5 * m.T @ n.T + 2 * add).astype(np.float32), alpha=0.5, beta=2.0, transA=1, transB=1)
    u, v = ints(0, 256, (3, 4), np.uint8), ints(-128, 128, (4, 2), np.int8)
    zu, zv = ints(0, 256, (3,), np.uint8), ints(-128, 128, (2,), np.int8)
    exact = (u.astype(np.int32) - zu[:, None]) @ (v.astype(np.int32) - zv)
    case("rows_and_columns", "MatMulInteger", [u, v, zu, zv], exact.astype(np.int32))
    su, sv, sy, zy = np.float32(0.03), f32(2) ** 2 + np.float32(0.01), np.float32(0.7), np.int8(-4)
    scaled = np.clip(np.rint(exact * (su * sv / sy)) + zy, -128, 127).astype(np.int8)
    case("columns", "QLinearMatMul", [u, su, zu, v, sv, zv, sy, zy], scaled)


# ---- few bits
def quant_cases():
    x, scale, zero = 40 * f32(3, 4, 2), np.array([0.5, 0.1, 2], np.float32), np.array([-3, 0, 100], np.int8)
    q = np.clip(np.rint(x / scale[:, None, None]) + zero[:, None, None], -128, 127).astype(np.int8)
    case("axis0", "QuantizeLinear", [x, scale, zero], q, axis=0)
    case("halves", "QuantizeLinear", [np.arange(-3, 4, dtype=np.float32), np.float32(2)], np.array([0, 0, 0, 0, 0, 1, 2], np.uint8))
    case("axis0", "DequantizeLinear", [q, scale, zero], ((q.astype(np.float32) - zero[:, None, None]) * scale[:, None, None]), axis=0)
    case("int32", "DequantizeLinear", [np.full(5, 70001, np.int32), np.float32(0.5)], np.full(5, 35000.5, np.float32))
    u, w = ints(0, 256, (2, 4, 5, 6), np.uint8), ints(-128, 128, (6, 2, 3, 3), np.int8)
    zw = ints(-9, 9, (6,), np.int8)
    padded = np.pad(u.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = conv(padded, w.astype(np.int64) - zw[:, None, None, None], 2)
    case("groups", "ConvInteger", [u, w, np.uint8(7), zw], y.astype(np.int32), group=2, pads=[1, 1, 1, 1])
    bias, sw, sy = ints(-999, 999, (6,), np.int32), np.abs(f32(6)) + np.float32(0.01), np.float32(20)
    real = (y + bias[:, None, None]) * (np.float32(0.02) * sw / sy)[:, None, None]
    case("channels", "QLinearConv", [u, np.float32(0.02), np.uint8(7), w, sw, zw, sy, np.uint8(128), bias],
         np.clip(np.rint(real) + 128, 0, 255).astype(np.uint8), group=2, pads=[1, 1, 1, 1])


def conv(x, w, groups):
    """Correlation without a border, stride 1."""
    n, _, height, width = x.shape
    o, each, kh, kw = w.shape
    y = np.zeros((n, o, height - kh + 1, width - kw + 1), np.result_type(x, w))
    for k in range(o):
        first = k // (o // groups) * each
        for i, j in np.ndindex(kh, kw):
            part = x[:, first : first + each, i : i + y.shape[2], j : j + y.shape[3]]
            y[:, k] += (part * w[k, :, i, j][None, :, None, None]).sum(1)
    return y


# ---- space
def pool(x, size, stride, dilation, pads, ceil, how, count_border):
    """One dimension after the other would not do for averages: all windows at once."""
    space = x.shape[2:]
    out = []
    for d, n in enumerate(space):
        room = n + pads[d] + pads[len(space) + d] - (size[d] - 1) * dilation[d] - 1
        steps = (math.ceil if ceil else math.floor)(room / stride[d]) + 1
        out.append(steps - (ceil and (steps - 1) * stride[d] >= n + pads[d]))
    y = np.zeros(x.shape[:2] + tuple(out), np.float32)
    for at in np.ndindex(*out):
        inside, border = [], 0
        for k in np.ndindex(*size):
            p = [a * s + i * d - b for a, s, i, d, b in zip(at, stride, k, dilation, pads)]
            if all(0 <= q < n for q, n in zip(p, space)):
                inside.append(x[(slice(None), slice(None)) + tuple(p)])
            elif all(q < n + e for q, n, e in zip(p, space, pads[len(space) :])):
                border += 1
        stack = np.stack(inside)
        y[(slice(None), slice(None)) + at] = stack.max(0) if how == "max" else stack.sum(0) / (len(inside) + (border if count_border else 0))
    return y


def conv_transpose(x, w, stride, dilation, pads, extra, groups):
    n, channels, height, width = x.shape
    _, each, kh, kw = w.shape
    full = np.zeros((n, each * groups, stride[0] * (height - 1) + (kh - 1) * dilation[0] + 1 + extra[0],
                     stride[1] * (width - 1) + (kw - 1) * dilation[1] + 1 + extra[1]), np.float32)
    for c in range(channels):
        first = c // (channels // groups) * each
        for i, j in np.ndindex(height, width):
            for ki, kj in np.ndindex(kh, kw):
                full[:, first : first + each, i * stride[0] + ki * dilation[0], j * stride[1] + kj * dilation[1]] += x[:, c, i, j, None] * w[c, :, ki, kj]
    return full[:, :, pads[0] : full.shape[2] - pads[2], pads[1] : full.shape[3] - pads[3]]


def keys(a, x):
    x = abs(x)
    return (a + 2) * x**3 - (a + 3) * x**2 + 1 if x <= 1 else a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0


def grid_sample(x, grid, mode, pad, corners):
    n, channels, height, width = x.shape
    y = np.zeros((n, channels) + grid.shape[1:3], np.float32)

    def bring(p, extent):
        if pad == "reflection":
            lo, hi = (0, extent - 1) if corners else (-0.5, extent - 0.5)
            span = hi - lo
            q = abs(p - lo)
            p = 0 if span == 0 else lo + (q % span if int(q // span) % 2 == 0 else span - q % span)
        return p if pad == "zeros" else min(max(p, 0), extent - 1)

    def taps(g, extent):
        p = (g + 1) / 2 * (extent - 1) if corners else ((g + 1) * extent - 1) / 2
        if mode == "bicubic":
            f = math.floor(p)
            return [(bring(f + k, extent), keys(-0.75, p - f - k)) for k in range(-1, 3)]
        p = bring(p, extent)
        if mode == "nearest":
            return [(np.rint(p), 1)]
        f = math.floor(p)
        return [(f, f + 1 - p), (f + 1, p - f)]

    for b, i, j in np.ndindex(n, *grid.shape[1:3]):
        for py, wy in taps(float(grid[b, i, j, 1]), height):
            for px, wx in taps(float(grid[b, i, j, 0]), width):
                if 0 <= py < height and 0 <= px < width:
                    y[b, :, i, j] += np.float32(wy * wx) * x[b, :, int(py), int(px)]
    return y


def cubic_matrix(n, out, scale, a, exclude):
    m = np.zeros((out, n))
    for i in range(out):
        p = (i + 0.5) / scale - 0.5
        f = math.floor(p)
        w = [(f + k, keys(a, p - f - k)) for k in range(-1, 3)]
        w = [(t, v) for t, v in w if not exclude or 0 <= t < n]
        for t, v in w:
            m[i, min(max(t, 0), n - 1)] += v / (sum(v for _, v in w) if exclude else 1)
    return m


def space_cases():
    x = f32(2, 2, 7, 6)
    for i, (size, stride, dilation, pads, ceil) in enumerate([
            ([3, 3], [2, 2], [1, 1], [1, 1, 1, 1], 1), ([2, 3], [3, 2], [1, 1], [0, 1, 1, 0], 1), ([3, 2], [2, 3], [1, 1], [0, 0, 0, 0], 0),
            ([3, 3], [3, 3], [1, 1], [2, 2, 2, 2], 1)]):
        attrs = dict(kernel_shape=size, strides=stride, pads=pads, ceil_mode=ceil, opset=19)
        case("windows%d" % i, "MaxPool", [x], pool(x, size, stride, dilation, pads, ceil, "max", False), **attrs)
        case("windows%d" % i, "AveragePool", [x], pool(x, size, stride, dilation, pads, ceil, "mean", False), **attrs)
        case("border%d" % i, "AveragePool", [x], pool(x, size, stride, dilation, pads, ceil, "mean", True), count_include_pad=1, **attrs)
    case("dilated", "MaxPool", [x], pool(x, [2, 3], [2, 1], [3, 2], [1, 1, 0, 2], 0, "max", False), kernel_shape=[2, 3], strides=[2, 1], dilations=[3, 2],
         pads=[1, 1, 0, 2], opset=12)
    for border in [0, 1]:
        case("dilated%d" % border, "AveragePool", [x], pool(x, [2, 3], [2, 1], [3, 2], [1, 1, 0, 2], 0, "mean", border), kernel_shape=[2, 3], strides=[2, 1],
             dilations=[3, 2], pads=[1, 1, 0, 2], count_include_pad=border, opset=19)
    case("lower", "AveragePool", [x], pool(x, [4, 4], [2, 2], [1, 1], [2, 1, 1, 1], 0, "mean", False), kernel_shape=[4, 4], strides=[2, 2],
         auto_pad="SAME_LOWER")
    w = f32(2, 3, 3, 2)
    for i, (stride, dilation, pads, extra) in enumerate([([2, 3], [1, 1], [1, 0, 0, 1], [1, 2]), ([1, 2], [2, 1], [2, 1, 1, 0], [0, 1])]):
        case("windows%d" % i, "ConvTranspose", [x, w], conv_transpose(x, w, stride, dilation, pads, extra, 1), strides=stride, dilations=dilation, pads=pads,
             output_padding=extra)
        case("groups%d" % i, "ConvTranspose", [x, w], conv_transpose(x, w, stride, dilation, pads, extra, 2), strides=stride, dilations=dilation, pads=pads,
             output_padding=extra, group=2)
    grid = (1.6 * rng.random((2, 3, 5, 2)) - 0.8).astype(np.float32) * 2
    for mode in ["bilinear", "nearest", "bicubic"]:
        for pad in ["zeros", "border", "reflection"]:
            for corners in [0, 1]:
                case("%s_%s_%d" % (mode, pad, corners), "GridSample", [x, grid], grid_sample(x, grid, mode, pad, corners), mode=mode, padding_mode=pad,
                     align_corners=corners)
    z = f32(3, 1, 5, 4)
    for exclude in [0, 1]:
        ky, kx = cubic_matrix(5, 8, 1.7, -0.5, exclude), cubic_matrix(4, 2, 0.6, -0.5, exclude)
        case("cubic_exclude%d" % exclude, "Resize", [z, None, np.array([1, 1, 1.7, 0.6], np.float32)],
             np.einsum("ip,ncpq,jq->ncij", ky, z, kx).astype(np.float32), opset=13, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=exclude)
    five = f32(2, 2, 2, 3, 2)
    case("many", "Resize", [five, None, None, i64(2, 4, 4, 6, 4)], five.repeat(2, 1).repeat(2, 2).repeat(2, 3).repeat(2, 4), opset=13, mode="nearest",
         coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    sq = f32(2, 7, 3, 3)
    for size in [3, 4]:
        sums = np.zeros_like(sq)
        for k in range(7):
            sums[:, k] = (sq[:, max(0, k - (size - 1) // 2) : min(7, k + -(-(size - 1) // 2) + 1)] ** 2).sum(1)
        case("size%d" % size, "LRN", [sq], sq / (2 + 0.5 / size * sums) ** 0.6, size=size, alpha=0.5, beta=0.6, bias=2.0)
    blocks = f32(1, 8, 2, 3)
    case("crd", "DepthToSpace", [blocks], blocks.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6), blocksize=2, mode="CRD")


# ---- shapes
def shape_cases():
    x = f32(3, 4, 5)
    case("negative", "Pad", [x, i64(-1, 2, 0, 1, 0, -2), np.float32(9)], np.pad(x[1:, :, :3], ((0, 1), (2, 0), (0, 0)), constant_values=9), opset=13)
    case("axes", "Pad", [x, i64(1, 2), None, i64(-2)], np.pad(x, ((0, 0), (1, 2), (0, 0)), mode="reflect"), opset=18, mode="reflect")
    case("edge", "Pad", [x, i64(0, 7, 1, 2, 0, 9)], np.pad(x, ((0, 2), (7, 0), (1, 9)), mode="edge"), opset=13, mode="edge")
    case("far", "Slice", [x, i64(-INT_MAX, INT_MAX), i64(INT_MAX, -INT_MAX), i64(0, 2), i64(2, -2)], x[::2, :, ::-2])
    case("nothing", "Slice", [x, i64(2), i64(1)], x[2:1])
    case("uneven", "Split", [x], [x[:, :2], x[:, 2:4]], opset=18, axis=1, num_outputs=2)
    case("short_last", "Split", [x], [x[:, :, :3], x[:, :, 3:]], opset=18, axis=2, num_outputs=2)
    case("zeros", "Tile", [x, i64(2, 1, 3)], np.tile(x, (2, 1, 3)))
    case("both", "Expand", [np.ones((3, 1), np.float32), i64(2, 1, 4)], np.ones((2, 3, 4), np.float32))
    case("below", "EyeLike", [ints(0, 9, (3, 5))], np.eye(3, 5, -1, np.float32), k=-1, dtype=1)
    case("lower", "Trilu", [x, scalar(-1)], np.tril(x, -1), upper=0)
    case("down", "Range", [np.float32(5), np.float32(-1), np.float32(-1.5)], np.arange(5, -1, -1.5, dtype=np.float32))


# ---- reductions
def reduce_cases():
    x, whole = f32(3, 4, 5), ints(-50, 50, (3, 4, 5), np.int32)
    positive = np.abs(x) + np.float32(0.1)
    case("integers", "ReduceProd", [whole], whole.prod(1, dtype=np.int32), axes=[1], keepdims=0, opset=13)
    case("integers", "ReduceMax", [whole], whole.max(1), axes=[1], keepdims=0, opset=13)
    case("integers", "ReduceMin", [whole], whole.min(1), axes=[-2], keepdims=0, opset=13)
    case("integers", "ReduceSum", [whole, i64(-2)], whole.sum(1, dtype=np.int32, keepdims=True), opset=13)
    case("none", "ReduceSum", [x, np.zeros(0, np.int64)], x, opset=13, noop_with_empty_axes=1)
    case("all", "ReduceSum", [x, np.zeros(0, np.int64)], x.sum(keepdims=True), opset=13)
    case("integers", "ReduceMean", [whole], np.trunc(whole.sum(2) / 5).astype(np.int32), axes=[2], keepdims=0, opset=13)
    case("input", "ReduceMean", [x, i64(0, 2)], x.mean((0, 2), keepdims=True), opset=18)
    case("l1", "ReduceL1", [whole], np.abs(whole).sum((0, 1), dtype=np.int32), axes=[0, 1], keepdims=0, opset=13)
    case("l2", "ReduceL2", [x], np.sqrt((x**2).sum(1, keepdims=True)), axes=[1], opset=13)
    case("squares", "ReduceSumSquare", [x], (x**2).sum(), keepdims=0, opset=13)
    case("log", "ReduceLogSum", [positive], np.log(positive.sum(2)), axes=[-1], keepdims=0, opset=13)
    case("large", "ReduceLogSumExp", [x + 1000], (np.log(np.exp(x.astype(np.float64)).sum(2)) + 1000).astype(np.float32), axes=[2], keepdims=0, opset=13)
    ties = np.array([[3, 1, 3, 1], [0, 0, 0, 0]], np.int32)
    case("ties", "ArgMax", [ties], i64(0, 0), axis=1, keepdims=0)
    case("last_ties", "ArgMax", [ties], i64(2, 3), axis=1, keepdims=0, select_last_index=1)
    case("last_ties", "ArgMin", [ties], i64(3, 3), axis=-1, keepdims=0, select_last_index=1)
    order = np.argsort(ties, 1, kind="stable")[:, :3]
    case("smallest", "TopK", [ties, i64(3)], [np.take_along_axis(ties, order, 1), order], largest=0)
    order = np.argsort(-x, 0, kind="stable")[:2]
    case("first", "TopK", [x, i64(2)], [np.take_along_axis(x, order, 0), order], axis=0)
    case("back", "CumSum", [x, scalar(1)], np.flip(np.flip(x, 1).cumsum(1), 1), reverse=1)
    shifted = np.concatenate([np.zeros((3, 4, 1), np.int32), whole.cumsum(2, dtype=np.int32)[..., :-1]], 2)
    case("exclusive", "CumSum", [whole, scalar(-1, np.int32)], shifted, exclusive=1)
    both = np.flip(np.concatenate([np.zeros((1, 4, 5)), np.flip(x, 0).astype(np.float64).cumsum(0)[:-1]], 0), 0).astype(np.float32)
    case("both", "CumSum", [x, scalar(0)], both, exclusive=1, reverse=1)


# ---- numbers
def number_cases():
    a, b = np.array([7, -7, 7, -7, 0, 5], np.int32), np.array([2, 2, -2, -2, 3, 5], np.int32)
    case("toward_zero", "Div", [a, b], np.trunc(a / b).astype(np.int32))
    case("python", "Mod", [a, b], np.mod(a, b))
    case("c", "Mod", [a, b], np.fmod(a, b), fmod=1)
    u, v = np.array([200, 255, 3], np.uint8), np.array([100, 1, 5], np.uint8)
    case("wraps", "Add", [u, v], u + v, opset=14)
    case("wraps", "Sub", [v, u], v - u, opset=14)
    x = f32(2, 3, 4)
    case("unordered", "Clip", [x, np.float32(1), np.float32(-1)], np.full_like(x, -1), opset=13)
    case("old", "Clip", [x], np.clip(x, -0.5, 0.25), opset=6, min=-0.5, max=0.25)
    case("halves", "Round", [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)], np.array([-2, -2, -0.0, 0, 2, 2], np.float32), opset=11)
    case("soft", "Shrink", [x], np.where(x < -0.3, x + np.float32(0.2), np.where(x > 0.3, x - np.float32(0.2), np.float32(0))), opset=9, lambd=0.3, bias=0.2)
    case("per_channel", "PRelu", [x, s := f32(3, 1)], np.where(x > 0, x, x * s), opset=16)
    case("alpha", "Celu", [x], np.maximum(x, 0) + np.minimum(0, 2 * (np.exp(x / 2) - 1)), opset=12, alpha=2.0)
    flat = x.reshape(2, 12)
    e = np.exp(flat - flat.max(1, keepdims=True))
    case("old", "Softmax", [x], (e / e.sum(1, keepdims=True)).reshape(x.shape), opset=11, axis=1)
    case("ties", "Hardmax", [np.array([[1, 3, 3], [2, 2, 1]], np.float32)], np.array([[0, 1, 0], [1, 0, 0]], np.float32), opset=13)
    case("one", "LpNormalization", [x], x / np.abs(x).sum(1, keepdims=True), opset=7, axis=1, p=1)
    group, scale, shift = f32(2, 6, 4), f32(6), f32(6)
    parts = group.reshape(2, 3, 8)
    normal = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 0.01)).reshape(group.shape)
    case("groups", "GroupNormalization", [group, scale, shift], normal * scale[:, None] + shift[:, None], opset=21, num_groups=3, epsilon=0.01)
    half = f32(3, 4).astype(np.float16)
    case("half", "Mul", [half, half], half * half, opset=14)
    case("half", "Exp", [half], np.exp(half.astype(np.float32)).astype(np.float16), opset=13)
    case("half", "ReduceSum", [half, i64(1)], half.astype(np.float32).sum(1, keepdims=True).astype(np.float16), opset=13)
    case("base_int", "Pow", [np.array([2, -3, 5], np.int64), np.array([3, 3, 0], np.int32)], i64(8, -27, 1), opset=15)


# ---- signals
def signal_cases():
    x = f32(2, 8, 3, 1)
    y = np.fft.rfft(x[..., 0], axis=1)
    case("onesided", "DFT", [x], np.stack([y.real, y.imag], -1).astype(np.float32), axis=1, onesided=1)
    z = f32(2, 5, 2)
    y = np.fft.fft(z[..., 0] + 1j * z[..., 1], n=7, axis=1)
    case("longer", "DFT", [z, scalar(7)], np.stack([y.real, y.imag], -1).astype(np.float32), axis=1)
    y = np.fft.ifft(z[..., 0] + 1j * z[..., 1], n=4, axis=1)
    case("shorter_inverse", "DFT", [z, scalar(4)], np.stack([y.real, y.imag], -1).astype(np.float32), axis=1, inverse=1)
    s, window = f32(2, 20, 1), np.abs(f32(6))
    frames = np.stack([s[:, i : i + 6, 0] * window for i in range(0, 15, 4)], 1)
    for onesided in [0, 1]:
        y = np.fft.fft(frames, axis=2)[..., : 4 if onesided else 6]
        case("onesided%d" % onesided, "STFT", [s, scalar(4), window], np.stack([y.real, y.imag], -1).astype(np.float32), onesided=onesided)


# ---- losses
def loss_cases():
    x, target, weight = f32(4, 3, 2, 5), ints(0, 3, (4, 2, 5)), np.abs(f32(3))
    log_prob = x - np.log(np.exp(x).sum(1, keepdims=True))
    for ignore in [None, 1, -7]:
        t = np.where(rng.random(target.shape) < 0.3, ignore, target) if ignore is not None else target
        safe, keep = np.clip(t, 0, 2), np.ones(t.shape) if ignore is None else t != ignore
        extra = {} if ignore is None else {"ignore_index": ignore}
        for w in [None, weight]:
            factor = (np.ones(t.shape) if w is None else w[safe]) * keep
            for op, values, outs in [("NegativeLogLikelihoodLoss", x, []), ("SoftmaxCrossEntropyLoss", log_prob, [log_prob])]:
                each = -np.take_along_axis(values, safe[:, None], 1)[:, 0] * factor
                for reduction, y in [("none", each), ("sum", each.sum()), ("mean", each.sum() / factor.sum())]:
                    name = "%s_ignore%s_weight%d" % (reduction, ignore, w is not None)
                    case(name.replace("-", "m"), op, [x, t.astype(np.int32), w][: 2 + (w is not None)], [np.asarray(y, np.float32)] + outs, opset=13,
                         reduction=reduction, **extra)


def main():
    loss_cases()
    recurrent_cases()
    index_cases()
    product_cases()
    quant_cases()
    space_cases()
    shape_cases()
    reduce_cases()
    number_cases()
    signal_cases()


main()
