"""Files of tensors: .safetensors in and out, and the initializers of an ONNX file, which may be in a file beside it."""
import json
import os
import struct

import numpy as np

ONNX_TYPES = {1: np.float32, 7: np.int64}


def safetensors_read(path):
    """Name: array, mapped from the file: only what is used is read."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(size))
    data = np.memmap(path, np.uint8, "r")[8 + size:]
    kinds = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    return {name: data[t["data_offsets"][0]:t["data_offsets"][1]].view(kinds[t["dtype"]]).reshape(t["shape"])
            for name, t in head.items() if name != "__metadata__"}


def safetensors_write(path, tensors):
    """@param tensors  pairs of a name and an f32 array: a list, or a function that gives them anew, so that they need not be there all at once"""
    each = tensors if callable(tensors) else lambda: tensors
    head, at = {}, 0
    for name, a in each():
        head[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, a in each():
            np.ascontiguousarray(a, "<f4").tofile(f)
    os.rename(path + ".part", path)


# ---------------------------------------------------------------------------------------------------- ONNX

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of one protobuf message: an int, or the bytes of what is inside."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def initializer(message, folder):
    """Name, array, and where its data lies (a file and an offset; None: in the ONNX file). Dims stand unpacked, data raw or outside."""
    dims, name, kind, raw, place = [], None, None, None, {}
    for number, value in fields(message):
        if number == 1:
            dims.append(value)
        elif number == 2:
            kind = ONNX_TYPES[value]
        elif number == 8:
            name = bytes(value).decode()
        elif number == 9:
            raw = value
        elif number == 13:
            pair = dict(fields(value))
            place[bytes(pair[1]).decode()] = bytes(pair[2]).decode()
    if raw is not None:
        return name, np.frombuffer(raw, kind).reshape(dims), None
    path, offset = os.path.join(folder, place["location"]), int(place["offset"])
    return name, np.memmap(path, kind, "r", offset, tuple(dims)), (path, offset)


def onnx_initializers(path):
    """All of them, as initializer() has them."""
    with open(path, "rb") as f:
        model = memoryview(f.read())
    graph = dict(fields(model))[7]
    return [initializer(value, os.path.dirname(path)) for number, value in fields(graph) if number == 5]
