"""A list that grows by 7.63 MiB a step: whoever asks when nothing is left is not to blame."""
import sys

import numpy as np

history = []


def step():
    a = np.random.rand(1000, 1000)
    history.append(a)
    b = a @ a
    return b[0, 0]


try:
    for k in range(400):
        step()
except MemoryError:
    print("arrays", len(history))
    sys.exit(1)
