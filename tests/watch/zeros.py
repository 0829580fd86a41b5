"""2 GiB of zeros that nobody touches beside 64 MiB that are touched; then a request that no budget of the test's grants."""
import numpy as np


def untouched():
    return np.zeros((2048, 1 << 20), np.uint8)


def touched():
    return np.ones((64, 1 << 20), np.uint8)


zeros = untouched()
ones = touched()
try:
    more = np.empty((8192, 1 << 20), np.uint8)
except MemoryError:
    print("caught")
