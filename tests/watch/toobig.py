"""Asks for more than RAM and swap together, in one piece: the kernel's overcommit heuristic refuses that. Prints the request."""
import sys

import numpy as np


def memory():
    with open("/proc/meminfo") as f:
        facts = {line.split(":")[0]: int(line.split()[1]) << 10 for line in f}
    return facts["MemTotal"] + facts["SwapTotal"]


def build(n):
    return np.empty(n, np.uint8)


n = memory() + (1 << 30)
print("asking", n, flush=True)
try:
    build(n)
except MemoryError:
    print("caught")
    sys.exit(3)
