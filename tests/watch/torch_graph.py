"""The sum of losses is kept with its history: the autograd graph of every past step stays alive, 16 MiB of activations each.

    torch_graph.py [fixed]      fixed: with the remedy, for comparing the peak (printed at the end in both)"""
import sys

import torch

torch.set_num_threads(2)
torch.manual_seed(1)
fixed = len(sys.argv) > 1
layer = torch.nn.Linear(64, 4096)
losses = []


def step(x):
    h = torch.relu(layer(x))
    loss = h.mean()
    return loss


def train():
    total = torch.zeros(())
    for k in range(60):
        loss = step(torch.randn(1024, 64))
        if fixed:
            total += loss.item()
            losses.append(loss.detach())
        else:
            total = total + loss
            losses.append(loss)
    print("total", float(total))


def peak():
    """The most that was resident, without pages of files."""
    with open("/proc/self/status") as f:
        status = dict(line.split()[:2] for line in f if line.startswith(("VmHWM", "RssFile")))
    return int(status["VmHWM:"]) - int(status["RssFile:"]) << 10


try:
    train()
except RuntimeError as error:
    print("caught:", str(error).splitlines()[0][:120])
    sys.exit(3)
finally:
    print("steps", len(losses), "peak", peak())
