"""A network of two dense layers, trained by hand in NumPy: data, initial weights and losses for tests of `plimsoll train`.

    train_check.py make FOLDER                      x.npy, y.npy (classes), t.npy (one-hot), net.json, w.safetensors; vx.npy, vy.npy (to validate with);
                                                    wide.json (3 MB with what adam keeps); norm.json (normalisation and dropout); conv.json with images xi.npy, vi.npy; xm.npy, ym.npy (512 samples)
                                                    and small.safetensors, with which gradients of the first layer are about 1e-9
    train_check.py validation X Y WEIGHTS REPORT [TOL]  whether a report's last validation of net.json or norm.json is right for these weights
    train_check.py moved BEFORE A B NAME TOL        whether tensor NAME of three safetensors files went from BEFORE to A as far as to B, and at all
    train_check.py measured P Y REPORT [TOL]        the same from the model's outputs
    train_check.py losses FOLDER OPTIMIZER STEPS    the losses, one per line: in order, batches of 8, rate 0.05, cross-entropy
    train_check.py compare FILE.json FILE [TOL]     whether the losses of a report are those of a file
    train_check.py same A.safetensors B.safetensors [TOL]
"""
import json
import struct
import sys

import numpy as np

SAMPLES, VALIDATION, INPUTS, HIDDEN, CLASSES, BATCH, RATE = 40, 29, 12, 16, 5, 8, 0.05


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        data = f.read()
    kinds = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in head.items() if k != "__metadata__"}


def write_safetensors(path, tensors):
    head, data = {}, b""
    for name, a in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.astype("<f4").tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def layer(kind, config):
    return {"module": "keras.layers", "class_name": kind, "config": config, "registered_name": None}


def dense(name, units, activation):
    return layer("Dense", {"name": name, "trainable": True, "dtype": "float32", "units": units, "activation": activation, "use_bias": True,
                           "kernel_initializer": {"class_name": "GlorotUniform", "config": {}},
                           "bias_initializer": {"class_name": "Zeros", "config": {}}})


def save(folder, name, shape, layers):
    first = layer("InputLayer", {"batch_shape": [None] + shape, "dtype": "float32", "name": "input"})
    net = {"module": "keras", "class_name": "Sequential", "registered_name": None, "config": {"name": name, "layers": [first] + layers}}
    with open(folder + "/" + name + ".json", "w") as f:
        json.dump(net, f)


def make(folder):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((SAMPLES, INPUTS)).astype("f4")
    y = rng.integers(0, CLASSES, SAMPLES)
    np.save(folder + "/x.npy", x)
    np.save(folder + "/y.npy", y)
    np.save(folder + "/t.npy", np.eye(CLASSES, dtype="f4")[y])
    np.save(folder + "/x8.npy", (x * 16).astype("i1"))
    one, two = dense("one", HIDDEN, "relu"), dense("two", CLASSES, "softmax")
    between = [layer("BatchNormalization", {"name": "norm", "trainable": True, "dtype": "float32", "axis": -1, "momentum": 0.5, "epsilon": 0.001,
                                            "center": True, "scale": True}),
               layer("Dropout", {"name": "drop", "trainable": True, "dtype": "float32", "rate": 0.4, "seed": None, "noise_shape": None})]
    conv = layer("Conv2D", {"name": "conv", "trainable": True, "dtype": "float32", "filters": 20, "kernel_size": [3, 3], "strides": [1, 1],
                            "padding": "same", "activation": "relu", "use_bias": True})
    save(folder, "net", [INPUTS], [one, two])
    save(folder, "wide", [INPUTS], [dense("one", 512, "relu"), dense("mid", 512, "relu"), two])
    save(folder, "norm", [INPUTS], [one] + between + [two])
    save(folder, "conv", [8, 8, 3], [conv] + between + [layer("Flatten", {"name": "flat", "trainable": True, "dtype": "float32"}), two])
    write_safetensors(folder + "/w.safetensors", {
        "one/kernel": rng.standard_normal((INPUTS, HIDDEN)).astype("f4") * 0.3, "one/bias": np.zeros(HIDDEN, "f4"),
        "two/kernel": rng.standard_normal((HIDDEN, CLASSES)).astype("f4") * 0.3, "two/bias": np.zeros(CLASSES, "f4")})
    many = rng.standard_normal((512, INPUTS)).astype("f4")
    np.save(folder + "/xm.npy", many)
    np.save(folder + "/ym.npy", many[:, :CLASSES].argmax(1))
    w = read_safetensors(folder + "/w.safetensors")
    write_safetensors(folder + "/small.safetensors", dict(w, **{"two/kernel": w["two/kernel"] * np.float32(1e-6)}))
    np.save(folder + "/vx.npy", rng.standard_normal((VALIDATION, INPUTS)).astype("f4"))
    np.save(folder + "/vy.npy", rng.integers(0, CLASSES, VALIDATION))
    np.save(folder + "/xi.npy", rng.standard_normal((SAMPLES, 8, 8, 3)).astype("f4"))
    np.save(folder + "/vi.npy", rng.standard_normal((VALIDATION, 8, 8, 3)).astype("f4"))


class Optimizer:
    def __init__(self, kind):
        self.kind, self.step, self.state = kind, 0, {}

    def update(self, name, p, g):
        m, v = self.state.get(name, (0.0, 0.0))
        if self.kind == "sgd":
            p = p - RATE * g
        elif self.kind == "momentum":
            m = 0.9 * m + g
            p = p - RATE * m
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p - RATE * (m / (1 - 0.9 ** self.step)) / (np.sqrt(v / (1 - 0.999 ** self.step)) + 1e-8)
        self.state[name] = (m, v)
        return p


def losses(folder, kind, steps):
    w = {k: v.astype("f8") for k, v in read_safetensors(folder + "/w.safetensors").items()}
    x, y = np.load(folder + "/x.npy").astype("f8"), np.load(folder + "/y.npy")
    o = Optimizer(kind)
    for s in range(steps):
        o.step = s + 1
        at = s % (SAMPLES // BATCH) * BATCH
        xb, yb = x[at:at + BATCH], y[at:at + BATCH]
        h0 = xb @ w["one/kernel"] + w["one/bias"]
        h = np.maximum(h0, 0)
        z = h @ w["two/kernel"] + w["two/bias"]
        z -= z.max(1, keepdims=True)
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        print(repr(-np.log(p[np.arange(BATCH), yb]).mean()))
        dz = (p - np.eye(CLASSES)[yb]) / BATCH
        dh = dz @ w["two/kernel"].T * (h0 > 0)
        grads = {"two/kernel": h.T @ dz, "two/bias": dz.sum(0), "one/kernel": xb.T @ dh, "one/bias": dh.sum(0)}
        w = {k: o.update(k, v, grads[k]) for k, v in w.items()}


def compare(report, expected, tol):
    got = np.array(json.load(open(report))["loss"])
    want = np.array([float(line) for line in open(expected)])
    if got.shape != want.shape or not np.allclose(got, want, rtol=tol, atol=0):
        sys.exit("losses %s, expected %s" % (got, want))


def infer(x, w):
    h = np.maximum(x @ w["one/kernel"] + w["one/bias"], 0)
    if "norm/gamma" in w:
        h = (h - w["norm/moving_mean"]) / np.sqrt(w["norm/moving_variance"] + 0.001) * w["norm/gamma"] + w["norm/beta"]
    z = h @ w["two/kernel"] + w["two/bias"]
    z -= z.max(1, keepdims=True)
    return np.exp(z) / np.exp(z).sum(1, keepdims=True)


def measured(p, y, report, tol):
    want = (-np.log(p[np.arange(len(y)), y]).mean(), (p.argmax(1) == y).mean())
    got = json.load(open(report))
    last = got["validation"][-1]
    if (got["validation_loss"], got["validation_accuracy"]) != (last["loss"], last["accuracy"]) or got["validation_samples"] != len(y):
        sys.exit("the last validation is %s, and elsewhere %s" % (last, got["validation_loss"]))
    if not np.allclose((last["loss"], last["accuracy"]), want, rtol=tol, atol=0):
        sys.exit("validation %s, expected %s" % (last, want))


def moved(before, a, b, name, tol):
    start, one, other = (read_safetensors(path)[name].astype("f8") for path in (before, a, b))
    far = np.abs(other - start).max()
    if far == 0 or np.abs(one - other).max() > tol * far:
        sys.exit("'%s' moves by up to %g, and differs by %g" % (name, far, np.abs(one - other).max()))


def same(a, b, tol):
    one, other = read_safetensors(a), read_safetensors(b)
    if sorted(one) != sorted(other):
        sys.exit("tensors %s and %s" % (sorted(one), sorted(other)))
    for k in one:
        if not (np.array_equal(one[k], other[k]) if tol == 0 else np.allclose(one[k], other[k], rtol=tol, atol=tol)):
            sys.exit("'%s' differs by %g" % (k, np.abs(one[k].astype("f8") - other[k]).max()))


if __name__ == "__main__":
    verb, args = sys.argv[1], sys.argv[2:]
    if verb == "make":
        make(args[0])
    elif verb == "losses":
        losses(args[0], args[1], int(args[2]))
    elif verb == "compare":
        compare(args[0], args[1], float(args[2]) if len(args) > 2 else 1e-5)
    elif verb == "validation":
        w = {k: v.astype("f8") for k, v in read_safetensors(args[2]).items()}
        measured(infer(np.load(args[0]).astype("f8"), w), np.load(args[1]), args[3], float(args[4]) if len(args) > 4 else 1e-5)
    elif verb == "moved":
        moved(*args[:4], float(args[4]))
    elif verb == "measured":
        measured(np.load(args[0]).astype("f8"), np.load(args[1]), args[2], float(args[3]) if len(args) > 3 else 1e-5)
    else:
        same(args[0], args[1], float(args[2]) if len(args) > 2 else 0.0)
