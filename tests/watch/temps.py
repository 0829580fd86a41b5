"""NumPy temporaries of 1 MiB: every addition is a large allocation and a free. Prints seconds for each block of rounds."""
import sys
import time

import numpy as np

BLOCKS, ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60, 400
a, b = np.ones(1 << 17), np.ones(1 << 17)


def add():
    for _ in range(ROUNDS):
        c = a + b
    return c


add()
times = []
for _ in range(BLOCKS):
    start = time.perf_counter()
    add()
    times.append(time.perf_counter() - start)
print(*times)
