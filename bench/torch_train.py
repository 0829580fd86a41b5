"""One contestant of bench/train.py: PyTorch trains a model of tests/models for some steps and prints what it took, as JSON.

    torch_train.py MODEL X.npy Y.npy --batch N --steps N [--weights W.safetensors] [--channels-last] [--lr RATE]
                   [--threads N] [--wide]

Batches are taken as they lie in the files, again from the start behind the end. A step's seconds run from zeroed gradients to updated weights:
reading and arranging the batch is not counted."""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn.functional as F

import torch_model


def resident():
    """(now, most) in bytes, as the kernel has it."""
    with open("/proc/self/status") as f:
        lines = dict(line.split(":", 1) for line in f)
    return tuple(int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))


class Rows:
    """Batches of an .npy file, read when they are needed: a mapped file would count as resident."""

    def __init__(self, path):
        self.file = open(path, "rb")
        np.lib.format.read_magic(self.file)
        self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(self.file)
        self.start = self.file.tell()

    def batch(self, step, n):
        count = int(np.prod(self.shape[1:])) * n
        at = step % (self.shape[0] // n)
        self.file.seek(self.start + at * count * self.dtype.itemsize)
        return np.fromfile(self.file, self.dtype, count).reshape(n, *self.shape[1:])


def take(rows, step, args):
    """A batch as the model wants it; the pixels of an image, which lie channels last in the file, in the layout that is asked for."""
    t = torch.from_numpy(rows.batch(step, args.batch))
    if t.is_floating_point() and args.wide:
        t = t.double()
    if t.dim() != 4:
        return t
    t = t.permute(0, 3, 1, 2)
    return t if args.channels_last else t.contiguous()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("x")
    p.add_argument("y")
    p.add_argument("--weights")
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--wide", action="store_true", help="in f64: what rounding does to the losses")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    idle = resident()[0]
    model = torch_model.load(args.model, args.weights).train()
    if args.wide:
        model = model.double()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(model.parameters(), lr=args.lr)
    xs, ys = Rows(args.x), Rows(args.y)
    losses, seconds = [], []
    for step in range(args.steps):
        x, y = take(xs, step, args), take(ys, step, args)
        begin = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        out = model(x)
        loss = F.mse_loss(out, y) if y.is_floating_point() else F.cross_entropy(out.flatten(0, -2), y.flatten())
        del out
        loss.backward()
        adam.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
        del loss, x, y
    print(json.dumps({"loss": losses, "seconds": seconds, "peak_rss_bytes": resident()[1], "idle_bytes": idle, "version": torch.__version__}))


if __name__ == "__main__":
    main()
