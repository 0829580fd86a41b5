#!/usr/bin/python3
"""Writes gpt.onnx and gpt.bin: make_gpt.py FOLDER. Plain Python, no onnx: protobuf's wire format by hand (field numbers are onnx.proto's).

A decoder as small language models have it: int64 ids [N, 256], 6 layers of width 384 with 6 heads, a vocabulary of 5000, learned positions,
norms before the blocks, logits [N, 256, 5000].

Parameters: 101 tensors with 14,585,856 numbers
    embeddings     5000*384 tokens + 256*384 positions                                              2,018,304
    6 layers of    2 norms of 2*384, 4*(384*384 + 384), 384*1536 + 1536, 1536*384 + 384             1,774,464 each
    the end        a norm of 2*384, 384*5000 to the logits                                          1,920,768
gpt.bin holds them as zeros, 58,343,424 bytes: a sparse file, so that it costs nothing. The causal mask is a constant of the graph.
"""
import os
import struct
import sys

TOKENS, LAYERS, WIDTH, HEADS, VOCABULARY = 256, 6, 384, 6, 5000
FLOAT, INT64 = 1, 7


# ---- protobuf: a message is bytes, a field is (number, int, float, str, bytes or message)
def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(*fields):
    return b"".join(field(number, value) for number, value in fields)


# ---- onnx.proto
def tensor(name, kind, dims, raw):
    return message(*[(1, d) for d in dims], (2, kind), (8, name), (9, raw))


def attribute(name, value):
    if isinstance(value, float):
        return message((1, name), (2, value), (20, 1))
    if isinstance(value, int):
        return message((1, name), (3, value), (20, 2))
    if isinstance(value, bytes):
        return message((1, name), (5, value), (20, 4))
    return message((1, name), *[(8, v) for v in value], (20, 7))


def port(name, kind, dims):
    shape = message(*[(1, message((2 if isinstance(d, str) else 1, d))) for d in dims])
    return message((1, name), (2, message((1, message((1, kind), (2, shape))))))


class Graph:
    def __init__(self):
        self.nodes, self.initializers, self.bytes = [], [], 0

    def node(self, op, inputs, name, **attributes):
        """One node with one output, which has its name. Returns that."""
        fields = [(1, i) for i in inputs] + [(2, name), (3, name), (4, op)]
        self.nodes.append(message(*fields, *[(5, attribute(k, v)) for k, v in attributes.items()]))
        return name

    def param(self, name, *dims):
        """A parameter in gpt.bin, behind the last one."""
        count = 1
        for d in dims:
            count *= d
        places = [("location", "gpt.bin"), ("offset", str(self.bytes)), ("length", str(4 * count))]
        fields = [(1, d) for d in dims] + [(2, FLOAT), (8, name)] + [(13, message((1, k), (2, v))) for k, v in places] + [(14, 1)]
        self.initializers.append(message(*fields))
        self.bytes += 4 * count
        return name

    def number(self, name, value):
        self.initializers.append(tensor(name, FLOAT, [], struct.pack("<f", value)))
        return name

    def shape(self, name, *dims):
        self.initializers.append(tensor(name, INT64, [len(dims)], struct.pack("<%dq" % len(dims), *dims)))
        return name

    # ---- layers
    def norm(self, x, name):
        scale, shift = self.param(name + ".scale", WIDTH), self.param(name + ".shift", WIDTH)
        return self.node("LayerNormalization", [x, scale, shift], name, axis=-1, epsilon=1e-5)

    def dense(self, x, inputs, outputs, name):
        x = self.node("MatMul", [x, self.param(name + ".weight", inputs, outputs)], name + ".product")
        return self.node("Add", [x, self.param(name + ".bias", outputs)], name)

    def heads(self, x, name, perm):
        x = self.dense(x, WIDTH, WIDTH, name)
        x = self.node("Reshape", [x, "shape.heads"], name + ".heads")
        return self.node("Transpose", [x], name + ".turned", perm=perm)

    def attention(self, x, name):
        q = self.heads(x, name + ".q", [0, 2, 1, 3])
        k = self.heads(x, name + ".k", [0, 2, 3, 1])
        v = self.heads(x, name + ".v", [0, 2, 1, 3])
        x = self.node("MatMul", [q, k], name + ".scores")
        x = self.node("Mul", [x, "scale"], name + ".scaled")
        x = self.node("Add", [x, "mask"], name + ".masked")
        x = self.node("Softmax", [x], name + ".weights", axis=-1)
        x = self.node("MatMul", [x, v], name + ".mixed")
        x = self.node("Transpose", [x], name + ".back", perm=[0, 2, 1, 3])
        x = self.node("Reshape", [x, "shape.joined"], name + ".joined")
        return self.dense(x, WIDTH, WIDTH, name + ".out")

    def gelu(self, x, name):
        e = self.node("Div", [x, "root2"], name + ".div")
        e = self.node("Erf", [e], name + ".erf")
        e = self.node("Add", [e, "one"], name + ".plus")
        e = self.node("Mul", [x, e], name + ".times")
        return self.node("Mul", [e, "half"], name)

    def block(self, x, name):
        y = self.attention(self.norm(x, name + ".norm1"), name + ".attention")
        x = self.node("Add", [x, y], name + ".sum1")
        y = self.dense(self.norm(x, name + ".norm2"), WIDTH, 4 * WIDTH, name + ".up")
        y = self.dense(self.gelu(y, name + ".gelu"), 4 * WIDTH, WIDTH, name + ".down")
        return self.node("Add", [x, y], name + ".sum2")


def gpt():
    g = Graph()
    for name, value in [("scale", (WIDTH // HEADS) ** -0.5), ("root2", 2 ** 0.5), ("one", 1.0), ("half", 0.5)]:
        g.number(name, value)
    g.shape("shape.heads", 0, 0, HEADS, WIDTH // HEADS)
    g.shape("shape.joined", 0, 0, WIDTH)
    rows = [[0.0] * (i + 1) + [float("-inf")] * (TOKENS - 1 - i) for i in range(TOKENS)]
    mask = b"".join(struct.pack("<%df" % TOKENS, *row) for row in rows)
    g.node("Constant", [], "mask", value=tensor("", FLOAT, [TOKENS, TOKENS], mask))
    x = g.node("Gather", [g.param("tokens", VOCABULARY, WIDTH), "ids"], "embedded", axis=0)
    x = g.node("Add", [x, g.param("positions", TOKENS, WIDTH)], "placed")
    for i in range(LAYERS):
        x = g.block(x, "layer%d" % i)
    x = g.norm(x, "norm")
    g.node("MatMul", [x, g.param("head.weight", WIDTH, VOCABULARY)], "logits")
    return g


def main():
    folder = sys.argv[1]
    g = gpt()
    graph = [(1, n) for n in g.nodes] + [(2, "gpt")] + [(5, t) for t in g.initializers]
    graph += [(11, port("ids", INT64, ["N", TOKENS])), (12, port("logits", FLOAT, ["N", TOKENS, VOCABULARY]))]
    with open(os.path.join(folder, "gpt.onnx"), "wb") as f:
        f.write(message((1, 8), (8, message((1, ""), (2, 17))), (7, message(*graph))))
    with open(os.path.join(folder, "gpt.bin"), "wb") as f:
        f.truncate(g.bytes)


if __name__ == "__main__":
    main()
