"""Asks for more address space than RLIMIT_AS leaves: 800 MiB in one piece, of which nothing would be touched."""
import sys

import numpy as np

table = np.ones((64, 1024, 1024), np.uint8)


def build():
    return np.empty((200, 1024, 1024), np.float32)


try:
    build()
except MemoryError as error:
    print("caught:", error)
    sys.exit(3)
