"""Whether the generator knows every layer and operator that the importer takes: the importer's tables are read from
its sources."""
import os
import re

import keras
import onnx

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "models")

# What is left out, and why.
KERAS_LEFT_OUT = {}
ONNX_LEFT_OUT = {
    "DynamicQuantizeLinear": "its scale is that of the whole batch: what a sample gives depends on the others",
}


def table(path, start, row):
    """The names in the rows of a table."""
    with open(os.path.join(SOURCE, path)) as f:
        text = f.read()
    at = text.index(start)
    return re.findall(row, text[at : text.index("\n};", at)], re.M)


def missing():
    """A line for each name that is in one table and not in the other."""
    lines = []
    layers = table("keras_layer.c", "static const plim__keras_row rows[]", r'^\s*\{"(\w+)"')
    ops = table("onnx_ops.c", "static const plim__onnx_op table[]", r'^\s*(?:\{|[A-Z_]+\()"(\w+)"')
    functions = table("keras_activation.c", "static const function functions[]", r'^\s*\{"(\w+)"')
    for what, have, known, left in (
        ("Keras layer", layers, keras.LAYERS, KERAS_LEFT_OUT),
        ("ONNX operator", ops, onnx.OPS, ONNX_LEFT_OUT),
        ("Keras activation", functions, keras.ACTIVATIONS, {}),
    ):
        if len(have) < 20:
            lines.append("the table of %ss was not found in the sources" % what)
        lines += [
            "%s %s: the importer takes it, the generator does not know it" % (what, n)
            for n in have
            if n not in known and n not in left
        ]
        lines += ["%s %s: the generator knows it, the importer does not" % (what, n) for n in known if n not in have]
        lines += [
            "%s %s: left out although the importer does not have it, or the generator knows it" % (what, n)
            for n in left
            if n not in have or n in known
        ]
    return lines
