"""Is a file that plimsoll eval wrote what NumPy says? For arrays of any size, in about 200 MB.

    array_check.py CASE CACHE IN OUT...       prints what differs and exits 1, or nothing and 0

Every element is compared. NumPy works block by block, with f64 where it would accumulate f32. What takes a pass of its own (sums, medians, histograms,
argmax) is kept in the folder CACHE under the input's name, size and time, and computed once."""
import math
import os
import sys

import numpy as np

BLOCK = 16 << 20
BINS = 50


def differs(got, want, at, rtol=0.0, atol=0.0):
    """The first difference, as text, or None. Equal NaNs are equal."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, NumPy has {want.shape}"
    if rtol == atol == 0:
        bad = (got != want) & ~((got != got) & (want != want))
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        bad = ~(np.abs(g - w) <= atol + rtol * np.abs(w))
    if not bad.any():
        return None
    k = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.ndim else ()
    return f"element {tuple(int(i) for i in k)} of the part at {at}: {got[k]}, NumPy has {want[k]}"


def typed(path, dtype, shape):
    """The output as a memory map, or what is wrong with its header."""
    a = np.load(path, mmap_mode="r")
    if a.dtype != dtype or a.shape != tuple(shape):
        raise SystemExit(f"{path}: {a.dtype}{list(a.shape)}, NumPy has {np.dtype(dtype)}{list(shape)}")
    return a


class Input:
    """An input by blocks of whole rows (of its last dimension), and its cache."""

    def __init__(self, path, cache):
        self.a = np.load(path, mmap_mode="r")
        self.rows = self.a.reshape(-1, self.a.shape[-1])
        self.step = max(1, BLOCK // (self.rows.shape[1] * self.rows.itemsize))
        st = os.stat(path)
        self.cache = os.path.join(cache, f"reference-{os.path.basename(path)}-{st.st_size}-{int(st.st_mtime)}")

    def blocks(self):
        for r in range(0, len(self.rows), self.step):
            yield r, self.rows[r:r + self.step]

    def kept(self, name, compute):
        path = f"{self.cache}.{name}.npy"
        if not os.path.exists(path):
            np.save(path + ".part.npy", compute())
            os.replace(path + ".part.npy", path)
        return np.load(path)

    def sums(self):
        """Rows: mean, std, mean((x-3)**2) of each column; then min and max of each."""
        def compute():
            n, cols = self.rows.shape
            shift = self.rows[0].astype(np.float64)
            total, square, away = np.zeros(cols), np.zeros(cols), np.zeros(cols)
            least, most = np.full(cols, np.inf), np.full(cols, -np.inf)
            for _, part in self.blocks():
                d = part - shift
                total += d.sum(0)
                square += (d * d).sum(0)
                d = part - 3.0
                away += (d * d).sum(0)
                least, most = np.minimum(least, part.min(0)), np.maximum(most, part.max(0))
            mean = total / n
            return np.stack([mean + shift, np.sqrt(square / n - mean * mean), away / n, least, most])
        return self.kept("sums", compute)

    def histogram(self):
        def compute():
            lo, hi = self.sums()[3].min(), self.sums()[4].max()
            return sum(np.histogram(part, BINS, range=(lo, hi))[0] for _, part in self.blocks())
        return self.kept("histogram", compute)

    def argmax(self):
        return self.kept("argmax", lambda: np.concatenate([part.argmax(1) for _, part in self.blocks()]))

    def median(self):
        """Columns become rows of a scratch file in one pass; then each is a median in memory."""
        def compute():
            n, cols = self.rows.shape
            scratch = self.cache + ".turned"
            fd = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.unlink(scratch)
            step = max(1, (128 << 20) // (cols * 4))
            for r in range(0, n, step):
                turned = np.ascontiguousarray(self.rows[r:r + step].T)
                for c in range(cols):
                    os.pwrite(fd, turned[c], (c * n + r) * 4)
            out = np.empty(cols, np.float32)
            for c in range(cols):
                out[c] = np.median(np.frombuffer(os.pread(fd, n * 4, c * n * 4), np.float32))
            os.close(fd)
            return out
        return self.kept("median", compute)


# ------------------------------------------------------------------------------------------- the cases

def small(out, want, rtol=1e-6):
    return differs(typed(out, want.dtype, want.shape)[()], want, 0, rtol, 1e-6 if rtol else 0)


def by_blocks(x, out, dtype, want, rtol=0.0, atol=0.0):
    got = typed(out, dtype, x.a.shape[:-1] + (want(x.rows[:1]).shape[1],)).reshape(len(x.rows), -1)
    for r, part in x.blocks():
        why = differs(got[r:r + len(part)], want(part), r, rtol, atol)
        if why:
            return why
    return None


def check_zscore(x, z, m):
    mean, std = x.sums()[0], x.sums()[1]
    return small(m, mean.astype(np.float32)) or \
        by_blocks(x, z, np.float16, lambda part: ((part - mean) / std).astype(np.float16), 1.1e-3, 1e-5)


def check_box(x, out):
    got = typed(out, np.float32, x.a.shape)
    n = len(x.rows)
    for r, part in x.blocks():
        rows = np.clip(np.arange(r - 1, r + len(part) + 1), 0, n - 1)
        p = np.pad(x.rows[rows[0]:rows[-1] + 1], ((int(r == 0), int(r + len(part) == n)), (1, 1)), mode="edge")
        p = p.astype(np.float64)
        across = p[:, :-2] + p[:, 1:-1] + p[:, 2:]
        why = differs(got[r:r + len(part)], (across[:-2] + across[1:-1] + across[2:]) / 9, r, 1e-5, 1e-6)
        if why:
            return why
    return None


def check_transpose(x, out):
    got = typed(out, x.a.dtype, x.a.shape[::-1])
    for r in range(0, len(x.rows), 1 << 15):
        part = x.rows[r:r + (1 << 15)]
        why = differs(got[:, r:r + len(part)], part.T, r)
        if why:
            return why
    return None


def pieces(x):
    return [slice(s, s + 128) for s in range(0, x.a.shape[-1], 128)]


def check_copies(t, *outs):
    if len(outs) != len(pieces(t)):
        return f"{len(outs)} files, NumPy has {len(pieces(t))}"
    for out, piece in zip(outs, pieces(t)):
        why = by_blocks(t, out, t.a.dtype, lambda part: part[:, piece])
        if why:
            return f"{out}: {why}"
    return None


def check_means(t, out):
    def compute():
        total = sum(np.array([part[:, p].sum(dtype=np.float64) for p in pieces(t)]) for _, part in t.blocks())
        widths = np.array([part.stop - part.start for part in (slice(*p.indices(t.a.shape[-1])) for p in pieces(t))])
        return total / (widths * len(t.rows))
    return small(out, t.kept("batches", compute).astype(np.float32))


CASES = {
    "f16": lambda x, out: by_blocks(x, out, np.float16, lambda part: part.astype(np.float16)),
    "mean": lambda x, out: small(out, np.float32(x.sums()[0].mean())),
    "mean0": lambda x, out: small(out, x.sums()[0].astype(np.float32)),
    "std0": lambda x, out: small(out, x.sums()[1].astype(np.float32)),
    "mse0": lambda x, out: small(out, x.sums()[2].astype(np.float32), 1e-5),
    "box": check_box,
    "transpose": check_transpose,
    "histogram": lambda x, out: small(out, x.histogram(), 0),
    "median0": lambda x, out: small(out, x.median()),
    "argmax1": lambda x, out: small(out, x.argmax(), 0),
    "zscore": check_zscore,
    "copies": check_copies,
    "means": check_means,
}


def main():
    case, cache, path, outs = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    x = Input(path, cache)
    if case == "matmul":  # OUT is the product; W comes before it
        w = np.load(outs[0])
        why = by_blocks(x, outs[1], np.float32, lambda part: part @ w, 1e-5, 1e-4 * math.sqrt(len(w)))
    else:
        why = CASES[case](x, *outs)
    if why:
        print(why)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
