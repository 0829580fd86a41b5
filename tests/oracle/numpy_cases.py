#!/usr/bin/env python3
"""Runs `plimsoll eval` on a table of expressions at several budgets and compares every result with NumPy's.

usage: numpy_cases.py PLIMSOLL [FILTER]
Prints a line per failure and, last, "N passed, N failed". Exits 77 where NumPy is missing."""
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("numpy_cases: SKIPPED: python3-numpy is not installed")
    sys.exit(77)


def box(x, k, axes=None, edge="edge"):
    axes = range(x.ndim) if axes is None else axes
    out = x.astype(np.float64)
    for a in axes:
        pad = [(0, 0)] * x.ndim
        pad[a] = (k // 2, k - 1 - k // 2)
        p = np.pad(out, pad, mode=edge)
        out = sum(np.take(p, range(i, i + x.shape[a]), axis=a) for i in range(k)) / k
    return out.astype(x.dtype if x.dtype.kind == "f" else np.float64)


def conv2(x, w):
    flipped = w[::-1, ::-1].astype(np.float64)
    h, v = w.shape[0] // 2, w.shape[1] // 2
    p = np.pad(x.astype(np.float64), ((h, w.shape[0] - 1 - h), (v, w.shape[1] - 1 - v)))
    out = np.zeros(x.shape)
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            out += flipped[i, j] * p[i:i + x.shape[0], j:j + x.shape[1]]
    return out.astype(x.dtype)


def average_dtype(x):
    """Of what divides: floats stay, integers and bool are f64."""
    return x.dtype if x.dtype.kind == "f" else np.float64


def softmax(x, axis=-1):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True).astype(np.float64))
    return (e / e.sum(axis, keepdims=True)).astype(average_dtype(x))


def logsumexp(x, axis=None):
    top = x.max(axis, keepdims=True).astype(np.float64)
    total = np.exp(x.astype(np.float64) - top).sum(axis) + 0.0
    return (np.log(total) + top.reshape(total.shape)).astype(average_dtype(x))


def conv_int(x, w):
    """Along the last dimension, same size, wrapping in the promoted dtype."""
    before = len(w) - 1 - len(w) // 2
    return np.stack([np.convolve(row, w)[before:before + row.size] for row in x])


def f64(f):
    """NumPy accumulates float32 in float32; the reference is computed in float64 and rounded."""
    return lambda **v: f(**{k: a.astype(np.float64) if a.dtype == np.float32 else a for k, a in v.items()})


# (expression, reference, tolerance); reference gets the arrays by name
CASES = [
    ("f16(x)", lambda x: x.astype(np.float16), 0),
    ("mean(x)", f64(lambda x: np.float32(x.mean())), 1e-6),
    ("mean(x,0)", f64(lambda x: x.mean(0).astype(np.float32)), 1e-6),
    ("mean(x,1)", f64(lambda x: x.mean(1).astype(np.float32)), 1e-6),
    ("std(x,0)", f64(lambda x: x.std(0).astype(np.float32)), 1e-6),
    ("var(x,1,ddof=1,keepdims=True)", f64(lambda x: x.var(1, ddof=1, keepdims=True).astype(np.float32)), 1e-6),
    ("std(x)", f64(lambda x: np.float32(x.std())), 1e-6),
    ("mean((x-3)**2,0)", f64(lambda x: ((x - 3)**2).mean(0).astype(np.float32)), 1e-5),
    ("box(x,3)", lambda x: box(x, 3), 1e-5),
    ("box(x,5,edge='reflect')", lambda x: box(x, 5, edge="reflect"), 1e-5),
    ("box(x,(3,1))", lambda x: box(x, 3, axes=[0]), 1e-5),
    ("box((x-1)*2,3)", lambda x: box((x - 1) * 2, 3), 1e-5),
    ("conv(x,k)", lambda x, k: conv2(x, k), 1e-4),
    ("x @ w", lambda x, w: x @ w, 1e-4),
    ("f16(x @ w + 1)", lambda x, w: (x @ w + 1).astype(np.float16), 2e-3),
    ("x.T @ x", f64(lambda x: (x.T @ x).astype(np.float32)), 1e-4),
    ("x.T", lambda x: x.T, 0),
    ("(x.T * 2)[::-1]", lambda x: (x.T * 2)[::-1], 0),
    ("histogram(x, 50)", lambda x: np.histogram(x, 50)[0], 0),
    ("histogram(x, 10, range=(-1, 2))", lambda x: np.histogram(x, 10, range=(-1, 2))[0], 0),
    ("median(x,0)", lambda x: np.median(x, 0), 1e-6),
    ("median(x,1)", lambda x: np.median(x, 1), 1e-6),
    ("median(x)", lambda x: np.median(x), 1e-6),
    ("quantile(x, (0.1, 0.9), 0)", lambda x: np.quantile(x, [.1, .9], axis=0).astype(np.float32), 1e-5),
    ("argmax(x,1)", lambda x: np.argmax(x, 1), 0),
    ("argmin(x,0)", lambda x: np.argmin(x, 0), 0),
    ("argmax(x)", lambda x: np.argmax(x), 0),
    ("m = mean(x,0); s = std(x,0); f32((x-m)/s)", f64(lambda x: ((x - x.mean(0)) / x.std(0)).astype(np.float32)), 2e-5),
    ("x - mean(x,1,keepdims=True)", f64(lambda x: (x - x.mean(1, keepdims=True)).astype(np.float32)), 1e-5),
    ("y = x*2+1; sum(y) + max(y)", f64(lambda x: np.float32((x * 2 + 1).sum() + (x * 2 + 1).max())), 1e-6),
    ("max(x,0) - min(x,0)", lambda x: x.max(0) - x.min(0), 0),
    ("cumsum(x,0)", f64(lambda x: np.cumsum(x, 0).astype(np.float32)), 1e-5),
    ("cumsum(x,1)", f64(lambda x: np.cumsum(x, 1).astype(np.float32)), 1e-5),
    ("mean(cumsum(x,0),0)", f64(lambda x: np.cumsum(x, 0).mean(0).astype(np.float32)), 1e-5),
    ("sort(x,1)", lambda x: np.sort(x, 1), 0),
    ("sort(x,0)", lambda x: np.sort(x, 0), 0),
    ("argsort(x,1)", lambda x: np.argsort(x, 1, kind="stable"), 0),
    ("topk(x,5,axis=1)[0]", lambda x: -np.sort(-x, 1)[:, :5], 0),
    ("topk(x,3,axis=0)[1]", lambda x: np.argsort(-x, 0, kind="stable")[:3], 0),
    ("x[10:50:3, ::-1]", lambda x: x[10:50:3, ::-1], 0),
    ("x[..., None, 5]", lambda x: x[..., None, 5], 0),
    ("x[-1]", lambda x: x[-1], 0),
    ("sum(x[:-1:2] * x[1::2])", f64(lambda x: np.float32((x[:-1:2] * x[1::2]).sum())), 1e-5),
    ("concat((x, x*2), 0)", lambda x: np.concatenate([x, x * 2], 0), 0),
    ("concat((x, x[:, :3]), 1)", lambda x: np.concatenate([x, x[:, :3]], 1), 0),
    ("stack((x, -x))", lambda x: np.stack([x, -x]), 0),
    ("roll(x, 3, 0)", lambda x: np.roll(x, 3, 0), 0),
    ("flip(x, 0)", lambda x: np.flip(x, 0), 0),
    ("pad(x, ((1,2),(3,0)), 'reflect')", lambda x: np.pad(x, ((1, 2), (3, 0)), "reflect"), 0),
    ("pad(x, 2, 'wrap')", lambda x: np.pad(x, 2, "wrap"), 0),
    ("take(x, (5, 3, -1), 1)", lambda x: x.take([5, 3, -1], 1), 0),
    ("take(x, (5, 3, -1), 0)", lambda x: x.take([5, 3, -1], 0), 0),
    ("reshape(x, (-1,))", lambda x: x.reshape(-1), 0),
    ("reshape(x, (-1, 64, 4))", lambda x: x.reshape(-1, 64, 4), 0),
    ("reshape(x, (64, -1))", lambda x: x.reshape(64, -1), 0),
    ("mean(reshape(x,(-1,128)),0)", f64(lambda x: x.reshape(-1, 128).mean(0).astype(np.float32)), 1e-6),
    ("sqrt(abs(x)) + exp(-x*x) * sin(x)", lambda x: np.sqrt(np.abs(x)) + np.exp(-x * x) * np.sin(x), 1e-5),
    ("where(x > 0, x, 0.1 * x)", lambda x: np.where(x > 0, x, np.float32(0.1) * x), 1e-6),
    ("clip(x, -1, 1) // 0.3", lambda x: np.clip(x, -1, 1) // np.float32(0.3), 0),
    ("count_nonzero(x > 2, axis=0)", lambda x: np.count_nonzero(x > 2, axis=0), 0),
    ("any(x > 6.9, 1)", lambda x: (x > 6.9).any(1), 0),
    ("all(isfinite(x))", lambda x: np.isfinite(x).all(), 0),
    ("norm(x, axis=1)", f64(lambda x: np.linalg.norm(x, axis=1).astype(np.float32)), 1e-6),
    ("prod(1 + x[:20]/100, 0)", f64(lambda x: (1 + x[:20] / 100).prod(0).astype(np.float32)), 1e-5),
    ("sum(i, 0)", lambda i: i.sum(0), 0),
    ("i * 100", lambda i: i * np.int8(100), 0),
    ("i / 7", lambda i: i / 7, 1e-15),
    ("i // 7 + i % 7", lambda i: i // np.int8(7) + i % np.int8(7), 0),
    ("mean(i)", lambda i: i.mean(), 1e-12),
    ("(i & 15) ^ 3", lambda i: (i & np.int8(15)) ^ np.int8(3), 0),
    ("mean(x*1.0, (0,1)) * ones((3,))", f64(lambda x: x.mean().astype(np.float32) * np.ones(3)), 1e-6),
    ("mean(xf, 0)", f64(lambda xf: xf.mean(0).astype(np.float32)), 1e-6),
    ("xf * 2", lambda xf: xf * 2, 0),
    ("xf + x", lambda xf, x: xf + x, 0),
    ("mean(xb, 1)", f64(lambda xb: xb.astype(np.float64).mean(1).astype(np.float32)), 1e-6),
    ("q + q.T", lambda q: q + q.T, 0),
    ("sum(q @ q)", f64(lambda q: np.float32((q @ q).sum())), 1e-5),
    ("v[:,None] * v[None,:] + 1", lambda v: v[:, None] * v[None, :] + 1, 1e-6),
    ("sum(v[:,None] * v[None,:])", f64(lambda v: np.float32((v[:, None] * v[None, :]).sum())), 1e-5),
    ("mean(t[..., 128:256])", f64(lambda t: np.float32(t[..., 128:256].mean())), 1e-6),
    ("mean(t, (0, 2))", f64(lambda t: t.mean((0, 2)).astype(np.float32)), 1e-6),
    ("transpose(t, (3, 1, 0, 2))", lambda t: t.transpose(3, 1, 0, 2), 0),
    ("matmul(t[0, :, :, :64], t[0, :, :64, :32])", lambda t: np.matmul(t[0, :, :, :64], t[0, :, :64, :32]), 1e-4),
    ("diff(x, axis=0)", lambda x: np.diff(x, axis=0), 0),
    ("e * 2 + 1", lambda e: e * 2 + 1, 0),
    ("sum(e, 0)", lambda e: e.sum(0), 0),
    ("s + 1", lambda s: s + 1, 0),
    ("softmax_m = max(x,1,keepdims=True); z = exp(x - softmax_m); z / sum(z,1,keepdims=True)",
     f64(lambda x: (np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)).astype(np.float32)), 1e-5),
    ("logsumexp(u,(1,0))", lambda u: logsumexp(u, (1, 0)), 1e-12),
    ("softmax(u)", lambda u: softmax(u), 1e-12),
    ("softmax(j)", lambda j: softmax(j), 1e-12),
    ("softmax(j,0)", lambda j: softmax(j, 0), 1e-12),
    ("logsumexp(j,1)", lambda j: logsumexp(j, 1), 1e-12),
    ("logsumexp(b,0)", lambda b: logsumexp(b, 0), 1e-12),
    ("softmax(g)", lambda g: softmax(g), 2e-3),
    ("softmax(g,(0,1))", lambda g: softmax(g, (0, 1)), 2e-3),
    ("logsumexp(g)", lambda g: logsumexp(g), 2e-3),
    ("isclose(i, i[::-1], 0.1)", lambda i: np.isclose(i, i[::-1], 0.1), 0),
    ("nan_to_num(g * 2)", lambda g: np.nan_to_num(g * np.float16(2)), 0),
    ("gelu(i)", lambda i: np.float16(i.astype(np.float64) * np.frompyfunc(lambda t: 0.5 + 0.5 * math.erf(t / 2**0.5), 1, 1)(i).astype(float)), 2e-3),
    ("convolve(reshape(i,(-1,)), [16, -1], 'valid')", lambda i: np.convolve(i.reshape(-1), [16, -1], "valid"), 0),
    ("convolve(reshape(i,(-1,)), i[0])", lambda i: np.convolve(i.reshape(-1), i[0]), 0),
    ("convolve(reshape(j,(-1,)), j[0,:9], 'same')", lambda j: np.convolve(j.reshape(-1), j[0, :9], "same"), 0),
    ("convolve(reshape(b,(-1,)), b[0,:3])", lambda b: np.convolve(b.reshape(-1), b[0, :3]), 0),
    ("convolve(v, [1, inf, 2])", lambda v: np.convolve(v, [1, np.inf, 2]), 0),
    ("conv(j, j[5,:4])", lambda j: conv_int(j, j[5, :4]), 0),
    ("conv(i, [1, 2, 1])", lambda i: conv_int(i, [1, 2, 1]), 0),
    ("(x - mean(x)) / std(x)", f64(lambda x: ((x - x.mean()) / x.std()).astype(np.float32)), 2e-5),
]

BUDGETS = ["1G", "40M", "16M", "floor"]


def data():
    rng = np.random.default_rng(7)
    x = (rng.random((3001, 256)) * 10 - 3).astype(np.float32)
    return {
        "x": x, "w": rng.random((256, 96)).astype(np.float32), "k": rng.random((3, 5)).astype(np.float32),
        "i": rng.integers(-100, 100, (501, 17)).astype(np.int8), "xf": np.asfortranarray(x), "xb": x.astype(">f4"),
        "q": rng.random((601, 601)).astype(np.float32), "v": rng.random(1501).astype(np.float32),
        "t": rng.random((1, 16, 64, 1021)).astype(np.float32), "e": np.zeros((0, 5), np.float32), "s": np.array(3.5),
        "u": rng.integers(0, 256, (64, 31, 8, 33)).astype(np.uint8), "b": rng.random((701, 301)) < 0.5,
        "j": rng.integers(-2**31, 2**31, (1301, 77)).astype(np.int32),
        "g": (65504 - 32 * rng.integers(0, 3, (401, 1001))).astype(np.float16),
    }


def run(binary, expr, names, folder, budget):
    out = os.path.join(folder, "out.npy")
    if os.path.exists(out):
        os.unlink(out)
    cmd = [binary, "eval", expr, *[f"{n}={folder}/{n}.npy" for n in names], "-o", out, "--memory", budget, "--quiet", "--spill", folder]
    done = subprocess.run(cmd, capture_output=True, text=True)
    return done, (np.load(out) if done.returncode == 0 else None)


def differs(got, want, tol):
    want = np.asarray(want)
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, NumPy has {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, NumPy has {want.shape}"
    if got.size == 0:
        return None
    if tol == 0:
        bad = ~((got == want) | ((got != got) & (want != want)))
    else:
        scale = np.maximum(np.abs(want.astype(np.float64)), 0.1 * np.abs(want.astype(np.float64)).max() + 1e-30)
        bad = np.abs(got.astype(np.float64) - want.astype(np.float64)) > tol * scale
    if bad.any():
        at = tuple(int(a[0]) for a in np.nonzero(np.atleast_1d(bad)))
        return f"{int(bad.sum())} of {bad.size} differ, first at {at}: {np.atleast_1d(got)[at]} and NumPy {np.atleast_1d(want)[at]}"
    return None


def main():
    binary, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    passed = failed = 0
    arrays = data()
    with tempfile.TemporaryDirectory() as folder:
        for name, a in arrays.items():
            np.save(f"{folder}/{name}.npy", a)
        for expr, ref, tol in CASES:
            if only not in expr:
                continue
            names = ref.__code__.co_varnames[:ref.__code__.co_argcount]
            if not names:  # wrapped by f64
                names = ref.__closure__[0].cell_contents.__code__.co_varnames[:ref.__closure__[0].cell_contents.__code__.co_argcount]
            with np.errstate(all="ignore"):
                want = ref(**{n: arrays[n] for n in names})
            for budget in BUDGETS:
                size = budget
                if budget == "floor":
                    done, _ = run(binary, expr, names, folder, "1M")
                    marker = "(--memory "
                    size = done.stderr.split(marker)[1].split(")")[0] if marker in done.stderr else "1M"
                done, got = run(binary, expr, names, folder, size)
                if done.returncode == 3 and budget != "floor":
                    continue  # does not fit here: the floor is tried
                why = done.stderr.strip().replace("\n", " | ") if got is None else differs(got, want, tol)
                if why is None:
                    passed += 1
                else:
                    failed += 1
                    print(f"FAILED {expr!r} at {budget}: exit {done.returncode}: {why}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
