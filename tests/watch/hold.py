"""Holds three arrays, says its pid, and waits to be killed."""
import os
import time

import numpy as np


class Model:
    def __init__(self):
        self.weights = np.ones((96, 1 << 20), np.uint8)


def load():
    return np.ones((48, 1 << 20), np.uint8)


def main():
    model = Model()
    samples = load()
    table = {"labels": np.ones((24, 1 << 20), np.uint8)}
    print(os.getpid(), flush=True)
    time.sleep(60)
    print(model, samples, table)


main()
