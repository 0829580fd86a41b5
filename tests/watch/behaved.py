"""Programs that keep within what they need, one for each name:

    behaved.py NAME             runs it, prints "done"
    behaved.py                  prints the names, each with the MiB that it needs

What is needed: 20 MiB for the interpreter with NumPy, the arrays that are alive at once (counted once where processes share them), and 12 MiB for each
process more. Pages of files are needed by nobody: the kernel drops them."""
import mmap
import multiprocessing
import os
import sys
import time
from multiprocessing import shared_memory

import numpy as np

MIB = 1 << 20
BASE, PROCESS = 20, 12
folder = os.environ.get("TMP", "/tmp")
need = {}


def needs(mib, processes=0):
    def mark(f):
        need[f.__name__] = BASE + mib + processes * PROCESS
        return f
    return mark


def file_of(mib):
    path = os.path.join(folder, "behaved.bin")
    with open(path, "wb") as f:
        f.truncate(mib * MIB)
    return path


def ones(mib):
    return np.ones(mib * MIB, np.uint8)


def forked(n, work):
    """n children that do their work, and the parent's memory beside them"""
    ready, go = os.pipe(), os.pipe()
    for i in range(n):
        if os.fork() == 0:
            os.close(go[1])
            work(i)
            os.write(ready[1], b".")
            os.read(go[0], 1)
            os._exit(0)
    for i in range(n):
        os.read(ready[0], 1)
    return lambda: (os.close(go[1]), [os.wait() for i in range(n)])


@needs(0)
def memmap_read():
    return int(np.memmap(file_of(300), np.uint8, "r").sum())


@needs(0)
def memmap_read_twice():
    a = np.memmap(file_of(200), np.uint8, "r")
    return int(a.sum()) + int(a[::4096].sum())


@needs(0)
def memmap_write():
    a = np.memmap(file_of(200), np.uint8, "r+")
    a[:] = 1
    a.flush()


@needs(48)
def memmap_private():
    a = np.memmap(file_of(200), np.uint8, "c")
    a[: 48 * MIB] = 1
    return int(a.sum())


@needs(64)
def memmap_beside_array():
    a = ones(64)
    return int(np.memmap(file_of(200), np.uint8, "r").sum()) + len(a)


@needs(1)
def file_read_in_pieces():
    with open(file_of(300), "rb") as f:
        while f.read(MIB):
            pass


@needs(2)
def file_write_in_pieces():
    piece = bytes(MIB)
    with open(os.path.join(folder, "behaved.out"), "wb") as f:
        for i in range(150):
            f.write(piece)


@needs(0)
def mmap_module():
    with open(file_of(200), "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        return m.find(b"x")


@needs(100, 4)
def forks_idle():
    a = ones(100)
    end = forked(4, lambda i: None)
    time.sleep(0.3)
    end()


@needs(110, 4)
def forks_idle_and_the_parent_goes_on():
    a = ones(100)
    end = forked(4, lambda i: None)
    b = ones(10)
    end()


@needs(100, 4)
def forks_read():
    a = ones(100)
    forked(4, lambda i: a.sum())()


@needs(100 + 3 * 20, 3)
def forks_write_a_part():
    a = ones(100)

    def work(i):
        a[i * 20 * MIB: (i + 1) * 20 * MIB] = 2
    forked(3, work)()


@needs(60 + 2 * 30, 2)
def forks_allocate():
    a = ones(60)
    kept = []
    forked(2, lambda i: kept.append(ones(30)))()


@needs(80, 1)
def forks_in_turn():
    a = ones(80)
    for i in range(8):
        if os.fork() == 0:
            a[: 8 * MIB].sum()
            os._exit(0)
        os.wait()


def square(i):
    return int((np.ones(8 * MIB // 8) * i).sum())


@needs(40 + 2 * 24, 3)
def pool_fork():
    a = ones(40)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return sum(pool.map(square, range(12)))


@needs(2 * 24 + 20, 3)
def pool_spawn():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return sum(pool.map(square, range(4)))


@needs(80, 3)
def shared_memory_block():
    s = shared_memory.SharedMemory(create=True, size=80 * MIB)
    a = np.frombuffer(s.buf, np.uint8)
    a[:] = 1
    forked(2, lambda i: a.sum())()
    del a
    s.close()
    s.unlink()


@needs(80, 3)
def shared_mapping():
    m = mmap.mmap(-1, 80 * MIB)
    a = np.frombuffer(m, np.uint8)
    a[:] = 1
    forked(3, lambda i: a.sum())()


@needs(50)
def temporaries():
    a = ones(25)
    for i in range(200):
        b = a + 1
        del b


@needs(60)
def one_after_the_other():
    for i in range(20):
        a = ones(60)
        del a


@needs(100, 1)
def subprocesses():
    a = ones(100)
    for i in range(5):
        os.system("true")
        os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "echo -n")


@needs(70)
def heap_is_given_back():
    for i in range(3):
        a = [bytearray(200000) for i in range(300)]
        del a
        b = ones(60)
        del b


programs = {name: globals()[name] for name in need}
if __name__ == "__main__":
    if len(sys.argv) < 2:
        for name, mib in need.items():
            print(name, mib)
    else:
        programs[sys.argv[1]]()
        print("done")
