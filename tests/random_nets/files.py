"""The files of a net: the model, its data, safetensors."""
import io
import json
import os
import re
import struct
import zipfile

import numpy as np

try:
    import h5py
except ImportError:
    h5py = None

import generate
import keras
import onnx


def read_safetensors(path):
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?"} | {k + str(8 * n): "<" + k.lower() + str(n) for k in "IU" for n in (1, 2, 4, 8)}
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        data = f.read()
    return {
        k: np.frombuffer(data[v["data_offsets"][0] : v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"])
        for k, v in head.items()
        if k != "__metadata__"
    }


def write_safetensors(path, tensors):
    head, data = {}, b""
    names = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "float16": "F16"}
    for name, a in tensors.items():
        head[name] = {
            "dtype": names[a.dtype.name],
            "shape": list(a.shape),
            "data_offsets": [len(data), len(data) + a.nbytes],
        }
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


def is_archive(net):
    """Whether the model is a .keras file: only where h5py can write one, else it is JSON and its weights lie beside
    it."""
    return bool(h5py and net.get("archive") and net.get("form") == 3)


def model_name(net):
    return "net.onnx" if net["dialect"] == "onnx" else "net.keras" if is_archive(net) else "net.json"


def snake_case(name):
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def write_archive(net, path, text, weights):
    """As Keras 3 saves it: layers are known by their class and how many of it came before."""
    memory, count = io.BytesIO(), {}
    with h5py.File(memory, "w") as f:
        for n in net["nodes"]:
            if n.get("share"):
                continue
            k = count[n["op"]] = count.get(n["op"], -1) + 1
            group, slots = "layers/%s%s" % (snake_case(n["op"]), "_%d" % k if k else ""), {}
            for name, a in weights.items():
                if not name.startswith(n["name"] + "/"):
                    continue
                inner = name.split("/")[1:-1]
                part = "/".join([group] + ["layer" if p == n["name"] + "_inner" else p for p in inner])
                slots[part] = slots.get(part, -1) + 1
                f["%s/vars/%d" % (part, slots[part])] = a
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, data in (
            ("metadata.json", '{"keras_version": "3.3.3", "date_saved": "2024-05-01@12:00:00"}'),
            ("config.json", text),
            ("model.weights.h5", memory.getvalue()),
        ):
            z.writestr(zipfile.ZipInfo(name), data)


def write(net, folder):
    """The model, in0.npy ..., y.npy, and v_in0.npy ..., v_y.npy to validate with."""
    shapes = generate.shapes_of(net)
    if net["dialect"] == "onnx":
        with open(os.path.join(folder, "net.onnx"), "wb") as f:
            f.write(onnx.model(net, shapes))
    else:
        text = keras.architecture(net, shapes)
        weights = keras.weights(net, shapes, np.random.default_rng([net["data_seed"], 2]))
        write_safetensors(os.path.join(folder, "w.safetensors"), weights)
        if is_archive(net):
            write_archive(net, os.path.join(folder, "net.keras"), text, weights)
        else:
            with open(os.path.join(folder, "net.json"), "w") as f:
                f.write(text)
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
