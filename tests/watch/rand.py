"""An array that is too big by itself: 11.73 GiB of float64, and on the same line half of that again as float32."""
import sys

import numpy as np


def load():
    x = np.random.rand(3075200, 512).astype(np.float32)
    return x


def main():
    data = load()
    print(data.shape)


try:
    main()
except MemoryError as error:
    print("caught by the script itself:", error)
    sys.exit(7)
