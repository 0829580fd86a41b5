"""What fork_pool.py and spawn_pool.py run: 3 workers, each keeps 100 MiB as long as it lives."""
import multiprocessing
import os
import time

import numpy as np

WORKERS = 3
kept = []


def work(barrier):
    kept.append(np.ones((100, 1 << 20), np.uint8))
    barrier.wait()  # so that each worker has one
    return os.getpid()


def ask():
    return np.empty((400, 1 << 20), np.uint8)


def run(how):
    context = multiprocessing.get_context(how)
    with context.Manager() as manager, context.Pool(WORKERS) as workers:
        barrier = manager.Barrier(WORKERS)
        pids = workers.map(work, [barrier] * WORKERS, chunksize=1)
        print("workers", *sorted(pids), flush=True)
        time.sleep(0.5)  # what others hold is looked at a hundred times a second, on a machine that has time for it
        try:
            ask()
            print("granted")
        except MemoryError:
            print("refused")
