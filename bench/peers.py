"""The other contestants of bench/arrays.py, one case per process: a good engineer's chunked NumPy, and Dask.

    peers.py numpy|dask CASE IN OUT [W]

NumPy: one thread reads with readinto into a buffer that exists already, computes with out= arguments, and writes what it made; outputs get their
blocks at the start. Long f32 sums go through f64. Dask: its threaded scheduler over memory-mapped files, chunks of 32 MiB.
OUT of `lastcopy` has a %d. Prints the seconds from after the imports to synced output: what Python takes to start is not counted."""
import math
import os
import sys
import time

import numpy as np

BLOCK = 4 << 20
TILE = 256 << 20     # of the transpose: longer runs are faster
CHUNK = 32 << 20     # Dask's
BATCH = 128


def header(path):
    """Shape, dtype and where data starts, by NumPy's own reader."""
    with open(path, "rb") as f:
        np.lib.format.read_magic(f)
        shape, _, dtype = np.lib.format.read_array_header_1_0(f)
        return shape, dtype, f.tell()


def create(path, shape, dtype):
    """A file with a .npy header and all its blocks; @return it, positioned at the data"""
    f = open(path, "wb", buffering=0)
    np.lib.format.write_array_header_1_0(f, {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape})
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size:
        os.posix_fallocate(f.fileno(), f.tell(), size)
    return f


def finish(*files):
    for f in files:
        os.fdatasync(f.fileno())
        f.close()


def write_all(f, a):
    view = memoryview(a).cast("B")
    while len(view):
        view = view[f.write(view):]


class Rows:
    """The array as rows of its last dimension, block by block, always in the same buffer."""

    def __init__(self, path, block=BLOCK):
        self.shape, self.dtype, self.start = header(path)
        self.cols = self.shape[-1]
        self.count = math.prod(self.shape[:-1])
        self.per_block = max(1, block // (self.cols * self.dtype.itemsize))
        self.buffer = np.empty((self.per_block, self.cols), self.dtype)
        self.file = open(path, "rb", buffering=0)
        os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def __iter__(self):
        self.file.seek(self.start)
        for row in range(0, self.count, self.per_block):
            part = self.buffer[:min(self.per_block, self.count - row)]
            view = memoryview(part).cast("B")
            while len(view):
                n = self.file.readinto(view)
                if not n:
                    raise EOFError("the input is shorter than its header says")
                view = view[n:]
            yield row, part


# ------------------------------------------------------------------------------------------------- NumPy

def numpy_f16(x, out):
    rows = Rows(x)
    half = np.empty(rows.buffer.shape, np.float16)
    with_file = create(out, rows.shape, np.float16)
    for _, part in rows:
        to = half[:len(part)]
        np.copyto(to, part, casting="same_kind")
        write_all(with_file, to)
    finish(with_file)


def numpy_mean(x, out):
    total = 0.0
    rows = Rows(x)
    for _, part in rows:
        total += float(part.sum(dtype=np.float32))  # pairwise inside a block, f64 between blocks
    np.save(out, np.float32(total / math.prod(rows.shape)))


def numpy_mean0(x, out):
    rows = Rows(x)
    total, of_block = np.zeros(rows.cols), np.empty(rows.cols, np.float32)
    for _, part in rows:
        np.add.reduce(part, axis=0, out=of_block)
        total += of_block
    np.save(out, (total / rows.count).astype(np.float32))


def numpy_std0(x, out):
    rows = Rows(x)
    total, square, of_block = np.zeros(rows.cols), np.zeros(rows.cols), np.empty(rows.cols, np.float32)
    shift, away = None, np.empty_like(rows.buffer)
    for _, part in rows:
        if shift is None:
            shift = part.mean(axis=0)
        to = away[:len(part)]
        np.subtract(part, shift, out=to)
        total += np.add.reduce(to, axis=0, out=of_block)
        np.multiply(to, to, out=to)
        square += np.add.reduce(to, axis=0, out=of_block)
    mean = total / rows.count
    np.save(out, np.sqrt(square / rows.count - mean * mean).astype(np.float32))


def numpy_box(x, out):
    """Sums of three across, then of three down; the two rows that the next block needs are carried over."""
    rows = Rows(x)
    n, cols = rows.per_block, rows.cols
    across = np.empty((n + 2, cols), rows.dtype)  # rows 0 and 1: the last two before this block
    result = np.empty((n, cols), rows.dtype)
    f = create(out, rows.shape, rows.dtype)
    ninth = np.float32(1 / 9)

    def emit(count):
        to = result[:count]
        np.add(across[:count], across[1:count + 1], out=to)
        np.add(to, across[2:count + 2], out=to)
        np.multiply(to, ninth, out=to)
        write_all(f, to)

    for row, part in rows:
        to = across[2:2 + len(part)]
        np.add(part[:, :-2], part[:, 1:-1], out=to[:, 1:-1])
        np.add(to[:, 1:-1], part[:, 2:], out=to[:, 1:-1])
        np.add(2 * part[:, 0], part[:, 1], out=to[:, 0])
        np.add(part[:, -2], 2 * part[:, -1], out=to[:, -1])
        if row == 0:  # the edge row stands for the one above it, and there is no row to emit yet
            across[1] = to[0]
            across[:len(part)] = across[1:1 + len(part)].copy()
            across[len(part)] = to[-1]
            emit(len(part) - 1)
            across[0], across[1] = across[len(part) - 1].copy(), across[len(part)].copy()
        else:
            emit(len(part))
            across[0], across[1] = across[len(part)].copy(), across[len(part) + 1].copy()
    across[2] = across[1]
    emit(1)
    finish(f)


def numpy_transpose(x, out):
    rows = Rows(x, TILE)
    turned = np.empty(rows.buffer.shape[::-1], rows.dtype)
    f = create(out, (rows.cols, rows.count), rows.dtype)
    start, width = f.tell(), rows.dtype.itemsize
    for row, part in rows:
        to = turned[:, :len(part)]
        for r in range(0, len(part), 256):  # rows that stay in the cache while all columns are taken from them
            to[:, r:r + 256] = part[r:r + 256].T
        for c in range(rows.cols):
            os.pwrite(f.fileno(), to[c], start + (c * rows.count + row) * width)
    finish(f)


def numpy_matmul(x, out, w):
    rows, weights = Rows(x), np.load(w)
    result = np.empty((rows.per_block, weights.shape[1]), rows.dtype)
    f = create(out, (rows.count, weights.shape[1]), rows.dtype)
    for _, part in rows:
        to = result[:len(part)]
        np.matmul(part, weights, out=to)
        write_all(f, to)
    finish(f)


def numpy_lastcopy(t, out):
    rows = Rows(t)
    starts = range(0, rows.cols, BATCH)
    pieces = [np.empty((rows.per_block, min(BATCH, rows.cols - s)), rows.dtype) for s in starts]
    files = [create(out % k, (*rows.shape[:-1], p.shape[1]), rows.dtype) for k, p in enumerate(pieces)]
    for _, part in rows:
        for f, s, piece in zip(files, starts, pieces):
            to = piece[:len(part)]
            np.copyto(to, part[:, s:s + to.shape[1]])
            write_all(f, to)
    finish(*files)


# -------------------------------------------------------------------------------------------------- Dask

def dask_input(da, path):
    a = np.load(path, mmap_mode="r")
    row = a.shape[-1] * a.dtype.itemsize
    if a.ndim == 2:
        chunks = (max(1, CHUNK // row), -1)
    else:
        chunks = (1, max(1, CHUNK // (row * a.shape[2])), -1, -1)
    return da.from_array(a, chunks=chunks)


def dask_store(da, pairs):
    """Pairs of an array and its path, all in one computation."""
    maps = [np.lib.format.open_memmap(path, "w+", dtype=a.dtype, shape=a.shape) for a, path in pairs]
    da.store([a for a, _ in pairs], maps, lock=False)
    for m in maps:
        m.flush()
    for _, path in pairs:
        fd = os.open(path, os.O_RDWR)
        os.fdatasync(fd)
        os.close(fd)


def dask_case(da, case, path, out, w):
    x = dask_input(da, path)
    if case == "f16":
        dask_store(da, [(x.astype(np.float16), out)])
    elif case == "mean":
        np.save(out, np.float32(x.mean().compute()))
    elif case == "mean0":
        np.save(out, x.mean(axis=0).compute())
    elif case == "std0":
        np.save(out, x.std(axis=0).compute())
    elif case == "box":
        dask_store(da, [(x.map_overlap(box_block, depth=1, boundary="nearest", dtype=np.float32), out)])
    elif case == "transpose":
        dask_store(da, [(x.T, out)])
    elif case == "matmul":
        dask_store(da, [(x @ da.from_array(np.load(w), chunks=-1), out)])
    elif case == "lastcopy":
        starts = range(0, x.shape[-1], BATCH)
        dask_store(da, [(x[..., s:s + BATCH], out % k) for k, s in enumerate(starts)])


def box_block(a):
    """The block with one more row and column on each side, which map_overlap trims again."""
    out = np.zeros_like(a)
    across = a[:, :-2] + a[:, 1:-1] + a[:, 2:]
    inner = across[:-2] + across[1:-1] + across[2:]
    out[1:-1, 1:-1] = inner * np.float32(1 / 9)
    return out


def main():
    peer, case, path, out = sys.argv[1:5]
    w = sys.argv[5:]
    if peer == "dask":
        import dask
        import dask.array as da
        dask.config.set(scheduler="threads")
    begin = time.perf_counter()
    if peer == "dask":
        dask_case(da, case, path, out, *(w or [None]))
    else:
        globals()["numpy_" + case](path, out, *w)
    print(f"{time.perf_counter() - begin:.4f}")


if __name__ == "__main__":
    main()
