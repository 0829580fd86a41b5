#!/usr/bin/python3
"""Writes tests in the ONNX project's layout: make_cases.py FOLDER [MODEL.onnx OUTPUT.pb DIMS]...  Plain Python, no onnx.

Without further words: small tests of what plimsoll-conformance says of each of them:

    passes    Relu, two data sets          differs   Relu with one wrong element in its output
    refused   an operator that is none     cut       Relu, the input's file ends too early
    strings   Identity of strings          dtype     Relu, the output expected in another dtype

With them: for each model (its name is the test's) a test that feeds it float32 arange(n)/n in the shape DIMS, such as 1x3x224x224.
"""
import array
import os
import shutil
import struct
import sys

from make_gpt import message, tensor

FLOAT, STRING, DOUBLE = 1, 8, 11


def port(name, kind, dims):
    shape = message(*[(1, message((1, d))) for d in dims])
    return message((1, name), (2, message((1, message((1, kind), (2, shape))))))


def model(op, kind, dims):
    node = message((1, "x"), (2, "y"), (4, op))
    graph = message((1, node), (2, op), (11, port("x", kind, dims)), (12, port("y", kind, dims)))
    return message((1, 8), (8, message((1, ""), (2, 13))), (7, graph))


def write(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


def case(folder, op, have, expected, kind=FLOAT, sets=1):
    write(folder, "model.onnx", model(op, kind, [2, 2]))
    for n in range(sets):
        write(folder, "test_data_set_%d/input_0.pb" % n, have)
        write(folder, "test_data_set_%d/output_0.pb" % n, expected)


def small(folder):
    x = tensor("x", FLOAT, [2, 2], floats(-1, 2, float("nan"), -3))
    y = tensor("y", FLOAT, [2, 2], floats(0, 2.001, float("nan"), 0))
    case(os.path.join(folder, "passes"), "Relu", x, y, sets=2)
    case(os.path.join(folder, "differs"), "Relu", x, tensor("y", FLOAT, [2, 2], floats(0, 2.01, float("nan"), 0)))
    case(os.path.join(folder, "dtype"), "Relu", x, tensor("y", DOUBLE, [2, 2], struct.pack("<4d", 0, 2, 0, 0)))
    case(os.path.join(folder, "refused"), "NoSuchOperator", x, y)
    case(os.path.join(folder, "cut"), "Relu", x[:-3], y)
    case(os.path.join(folder, "strings"), "Identity", x, y, kind=STRING)


def network(folder, path, expected, dims):
    dims = [int(d) for d in dims.split("x")]
    count = 1
    for d in dims:
        count *= d
    data = array.array("f", (i / count for i in range(count)))
    folder = os.path.join(folder, os.path.splitext(os.path.basename(path))[0])
    write(folder, "test_data_set_0/input_0.pb", tensor("", FLOAT, dims, data.tobytes()))
    shutil.copy(path, os.path.join(folder, "model.onnx"))
    shutil.copy(expected, os.path.join(folder, "test_data_set_0", "output_0.pb"))


def main():
    folder, words = sys.argv[1], sys.argv[2:]
    if not words:
        small(folder)
    for i in range(0, len(words), 3):
        network(folder, *words[i : i + 3])


if __name__ == "__main__":
    main()
