"""Fills 16 MiB after 16 MiB and keeps them, a little pause between, until something kills it."""
import sys
import time

import numpy as np

kept = []


def more():
    kept.append(np.ones((16, 1 << 20), np.uint8))


for k in range(int(sys.argv[1]) if len(sys.argv) > 1 else 64):
    more()
    print(len(kept), flush=True)
    time.sleep(0.05)
