"""Image models as ONNX files with random weights: resnet50, vgg16, mobilenet_v2, unet. Written down from the papers; no network, no onnx package.

resnet50 has its batch normalisations as nodes of their own, as training frameworks have them; in mobilenet_v2 they are part of the convolutions, as
exporters leave them. Weights are in the file itself, scaled so that activations keep their size from layer to layer."""
import math
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "models"))

from make_gpt import FLOAT, attribute, message, port, tensor  # noqa: E402


class Net:
    """A graph that grows at its end; `x` are names of values, and shapes are known: [C, H, W] or [C]."""

    def __init__(self, channels, size):
        self.nodes, self.initializers, self.rng = [], [], np.random.default_rng(20)
        self.shape = {"x": [channels, size, size]}

    def param(self, name, array):
        self.initializers.append(tensor(name, FLOAT, array.shape, np.ascontiguousarray(array, "<f4").tobytes()))
        return name

    def node(self, op, inputs, shape, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        fields = [(1, i) for i in inputs] + [(2, name), (3, name), (4, op)]
        self.nodes.append(message(*fields, *[(5, attribute(k, v)) for k, v in attributes.items()]))
        self.shape[name] = shape
        return name

    def weights(self, *shape, fan):
        return self.param(f"w{len(self.initializers)}", self.rng.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / fan)))

    def bias(self, n):
        return self.param(f"b{len(self.initializers)}", self.rng.standard_normal(n, np.float32) * np.float32(0.05))

    def conv(self, x, filters, size, stride=1, pad=None, groups=1, bias=True):
        c, h, w = self.shape[x]
        pad = size // 2 if pad is None else pad
        kernel = self.weights(filters, c // groups, size, size, fan=c // groups * size * size)
        out = [(n + 2 * pad - size) // stride + 1 for n in (h, w)]
        return self.node("Conv", [x, kernel] + ([self.bias(filters)] if bias else []), [filters, *out], kernel_shape=[size, size],
                         strides=[stride, stride], pads=[pad] * 4, group=groups)

    def norm(self, x, scale=1.0):
        n, k = self.shape[x][0], len(self.initializers)
        parts = [np.full(n, scale), self.rng.normal(0, 0.05, n), self.rng.normal(0, 0.05, n), self.rng.uniform(0.8, 1.2, n)]
        names = [self.param(f"bn{k}.{what}", a) for what, a in zip(("scale", "shift", "mean", "variance"), parts)]
        return self.node("BatchNormalization", [x, *names], self.shape[x], epsilon=1e-5)

    def relu(self, x):
        return self.node("Relu", [x], self.shape[x])

    def relu6(self, x):
        return self.node("Clip", [x, "zero", "six"], self.shape[x])

    def add(self, x, y):
        return self.node("Add", [x, y], self.shape[x])

    def max_pool(self, x, size, stride, pad=0):
        c, h, w = self.shape[x]
        out = [(n + 2 * pad - size) // stride + 1 for n in (h, w)]
        return self.node("MaxPool", [x], [c, *out], kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)

    def average(self, x):
        c = self.shape[x][0]
        return self.node("Flatten", [self.node("GlobalAveragePool", [x], [c, 1, 1])], [c], axis=1)

    def dense(self, x, units):
        n = self.shape[x][0]
        return self.node("Gemm", [x, self.weights(units, n, fan=n), self.bias(units)], [units], transB=1)

    def write(self, path, last):
        graph = [(1, n) for n in self.nodes] + [(2, os.path.basename(path))] + [(5, t) for t in self.initializers]
        graph += [(11, port("x", FLOAT, [1, *self.shape["x"]])), (12, port(last, FLOAT, [1, *self.shape[last]]))]
        with open(path + ".part", "wb") as f:
            f.write(message((1, 8), (8, message((1, ""), (2, 17))), (7, message(*graph))))
        os.rename(path + ".part", path)


def resnet50(size=224):
    g = Net(3, size)
    x = g.relu(g.norm(g.conv("x", 64, 7, 2, bias=False)))
    x = g.max_pool(x, 3, 2, 1)
    for stage, n in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(n):
            stride = 2 if stage and not block else 1
            skip = x if block else g.norm(g.conv(x, 4 * width, 1, stride, bias=False))
            y = g.relu(g.norm(g.conv(x, width, 1, bias=False)))
            y = g.relu(g.norm(g.conv(y, width, 3, stride, bias=False)))
            y = g.norm(g.conv(y, 4 * width, 1, bias=False), 0.3)
            x = g.relu(g.add(y, skip))
    return g, g.dense(g.average(x), 1000)


def vgg16(size=224):
    g, x = Net(3, size), "x"
    for level in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
        for filters in level:
            x = g.relu(g.conv(x, filters, 3))
        x = g.max_pool(x, 2, 2)
    x = g.node("Flatten", [x], [math.prod(g.shape[x])], axis=1)
    for _ in range(2):
        x = g.relu(g.dense(x, 4096))
    return g, g.dense(x, 1000)


def mobilenet_v2(size=224):
    g = Net(3, size)
    g.param("zero", np.array(0.0))
    g.param("six", np.array(6.0))
    x = g.relu6(g.conv("x", 32, 3, 2))
    for expand, channels, n, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(n):
            stride, inside = 1 if block else first, g.shape[x][0] * expand
            y = g.relu6(g.conv(x, inside, 1)) if expand > 1 else x
            y = g.relu6(g.conv(y, inside, 3, stride, groups=inside))
            y = g.conv(y, channels, 1)
            x = g.add(x, y) if block else y
    x = g.relu6(g.conv(x, 1280, 1))
    return g, g.dense(g.average(x), 1000)


def unet(size):
    """The net of tests/models/unet.json."""
    g, x, skips = Net(3, size), "x", []
    for level in range(4):
        if level:
            x = g.max_pool(x, 2, 2)
        for _ in range(2):
            x = g.relu(g.conv(x, 16 << level, 3))
        skips.append(x)
    for level in range(2, -1, -1):
        c, h, w = g.shape[x]
        filters = 16 << level
        parts = [x, g.weights(c, filters, 2, 2, fan=c), g.bias(filters)]
        x = g.node("ConvTranspose", parts, [filters, 2 * h, 2 * w], kernel_shape=[2, 2], strides=[2, 2])
        x = g.node("Concat", [skips[level], x], [2 * filters, 2 * h, 2 * w], axis=1)
        for _ in range(2):
            x = g.relu(g.conv(x, filters, 3))
    x = g.conv(x, 1, 1)
    return g, g.node("Sigmoid", [x], g.shape[x])


NETS = {"resnet50": resnet50, "vgg16": vgg16, "mobilenet_v2": mobilenet_v2, "unet": unet}


def make(folder, name, size):
    """Writes the net for images of size x size, where it is not there yet. @return its path"""
    path = os.path.join(folder, f"{name}-{size}.onnx")
    if not os.path.exists(path):
        g, last = NETS[name](size)
        g.write(path, last)
    return path
