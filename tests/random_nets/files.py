"""The files of a net: the model, its data, safetensors."""
import json
import os
import struct

import numpy as np

import generate
import keras
import onnx


def read_safetensors(path):
    kinds = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "F16": np.float16}
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        data = f.read()
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"]) for k, v in head.items() if k != "__metadata__"}


def write_safetensors(path, tensors):
    head, data = {}, b""
    names = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "float16": "F16"}
    for name, a in tensors.items():
        head[name] = {"dtype": names[a.dtype.name], "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += np.ascontiguousarray(a).tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def input_values(r, i, n, wide):
    if i["rows"]:
        return r.integers(0, i["rows"], [n] + i["shape"]).astype(np.int64 if wide else np.int32)
    return r.standard_normal([n] + i["shape"], dtype=np.float32)


def target_values(r, loss, shape, n):
    """What the loss compares with; classes stand in the last dimension."""
    if loss.startswith("sparse"):
        return r.integers(0, shape[-1], [n] + shape[:-1]).astype(np.int64)
    if loss.startswith("ce"):
        return np.eye(shape[-1], dtype=np.float32)[r.integers(0, shape[-1], [n] + shape[:-1])]
    if loss.startswith("bce"):
        return r.integers(0, 2, [n] + shape).astype(np.float32)
    return r.standard_normal([n] + shape, dtype=np.float32)


def model_name(net):
    return "net.onnx" if net["dialect"] == "onnx" else "net.json"


def write(net, folder):
    """The model, in0.npy ..., y.npy, and v_in0.npy ..., v_y.npy to validate with."""
    shapes = generate.shapes_of(net)
    if net["dialect"] == "onnx":
        with open(os.path.join(folder, "net.onnx"), "wb") as f:
            f.write(onnx.model(net, shapes))
    else:
        with open(os.path.join(folder, "net.json"), "w") as f:
            f.write(keras.architecture(net, shapes))
    with open(os.path.join(folder, "description.json"), "w") as f:
        json.dump(net, f, indent=1)
    t = net["train"]
    sets = [("", t["samples"]), ("v_", t["validate"])] if t else [("", net["infer"]["samples"])]
    for k, (prefix, n) in enumerate(sets):
        r = np.random.default_rng([net["data_seed"], k])
        if n == 0:
            continue
        for i in net["inputs"]:
            np.save(os.path.join(folder, prefix + i["name"] + ".npy"), input_values(r, i, n, net["dialect"] == "onnx"))
        if t:
            np.save(os.path.join(folder, prefix + "y.npy"), target_values(r, t["loss"], shapes[net["outputs"][0]], n))
    if net["dialect"] == "keras":
        write_safetensors(os.path.join(folder, "w.safetensors"), keras.weights(net, shapes, np.random.default_rng([net["data_seed"], 2])))
