"""Lines that run out of a budget, one for each name:

    promises.py NAME            makes what the line needs, runs the line, prints "done"
    promises.py                 prints the names

tests/cli/watch_promises.sh runs each in a budget that is too small, and then in the one that the report promises."""
import json
import os
import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

rng = np.random.default_rng(1)
folder = os.environ.get("TMP", "/tmp")


def broadcast():
    a, b = rng.random((1200, 8)), rng.random((1400, 8))
    d = a[:, None, :] - b[None, :, :]
    return d


def broadcast_chain():
    a, b = rng.random(3000), rng.random(3000)
    d = np.exp(-(a[:, None] - b) ** 2 / 2.0)
    return d


def cdist():
    a, b = rng.random((1200, 10)), rng.random((1100, 10))
    d = np.sqrt(((a[:, np.newaxis, :] - b[np.newaxis, :, :]) ** 2).sum(axis=2))
    return d


def cdist_norm():
    a, b = rng.random((1200, 10)), rng.random((1100, 10))
    return np.linalg.norm(a[:, None] - b[None, :], axis=-1)


def one_hot():
    labels = rng.integers(0, 500, 30000)
    x = np.eye(500)[labels]
    return x


def one_hot_compare():
    labels = rng.integers(0, 1500, 20000)
    x = (labels[:, None] == np.arange(1500)).astype(np.float32)
    return x


def windows_std():
    x = rng.random(100000)
    s = sliding_window_view(x, 200).std(axis=-1)
    return s


def fromfile():
    path = os.path.join(folder, "promises.bin")
    np.zeros(1 << 20, np.uint8).tofile(path)
    os.truncate(path, 90 << 20)
    x = np.fromfile(path, dtype=np.float32)
    return x


def load():
    path = os.path.join(folder, "promises.npy")
    with open(path, "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f8", "fortran_order": False, "shape": (12 << 20,)})
        f.truncate(f.tell() + (96 << 20))
    x = np.load(path)
    return x


def read_bytes():
    path = os.path.join(folder, "promises.raw")
    with open(path, "wb") as f:
        f.truncate(90 << 20)
    with open(path, "rb") as f:
        data = f.read()
    return data


def concatenate():
    parts = [rng.random(1 << 20) for _ in range(6)]
    x = np.concatenate(parts + parts)
    return x


def matmul():
    a, b = rng.random((4000, 100)), rng.random((100, 3500))
    c = a @ b
    return c


def astype():
    a = rng.integers(0, 200, 10 << 20, dtype=np.uint8)
    x = a.astype(np.float64) / 255
    return x


def stack():
    parts = [rng.random(1 << 20) for _ in range(5)]
    x = np.stack([parts[0], parts[1], parts[2], parts[3], parts[4]] * 3)
    return x


def stack_arrays():
    a, b = rng.random((1000, 2000)), rng.random((1000, 2000))
    x = np.stack([a, b, a + b, a - b], axis=-1)
    return x


def where():
    a = rng.random((1500, 1500))
    x = np.where(a[:, :, None] > rng.random(8), a[:, :, None], 0.0)
    return x


def sort():
    a = rng.random(5 << 20)
    x = np.sort(a + 1)
    return x


def argsort():
    a = rng.random(6 << 20)
    x = a[np.argsort(a)]
    return x


def meshgrid():
    a, b = np.arange(3000.0), np.arange(4000.0)
    x, y = np.meshgrid(a, b)
    return x, y


def outer():
    a, b = rng.random(3000), rng.random(5000)
    x = np.outer(a, b) + 1
    return x


def tile():
    a = rng.random((100, 100))
    x = np.tile(a, (40, 50))
    return x


def fft():
    a = rng.random(6 << 20)
    x = np.abs(np.fft.fft(a)) ** 2
    return x


def random_float32():
    n = 4000
    x = np.random.rand(n, n).astype(np.float32)
    return x


def normalise():
    a = rng.random((2000, 1500))
    x = (a - a.mean(axis=0)) / a.std(axis=0)
    return x


def mixed_types():
    a, b = rng.random((3000, 3000)).astype(np.float32), np.arange(3000)
    x = a * b + 1.5
    return x


def bytes_plain():
    x = b"0123456789" * (9 << 20)
    return x


def json_loads():
    text = "[" + "1.5, " * 1500000 + "2.5]"
    x = json.loads(text)
    return x


programs = {name: f for name, f in globals().items() if callable(f) and getattr(f, "__module__", "") == "__main__"}
if len(sys.argv) < 2:
    print(*programs)
else:
    value = programs[sys.argv[1]]()
    print("done")
