"""A training step whose backward is refused: the script catches the exception, halves the batch and goes on.

    torch_step.py [BATCH]       prints what it does; with `measure` as a second word also the peak after each part of a step

The gradients of a step are as large as its activations, so between the peak of the forward part and that of the backward part lies one activation of
the whole batch: 128 MiB at 512."""
import sys

import torch
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(1)
batch = int(sys.argv[1]) if len(sys.argv) > 1 else 512
measure = len(sys.argv) > 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.two = torch.nn.Conv2d(16, 16, 3, padding=1)
        self.out = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = torch.tanh(self.one(x))
        x = torch.tanh(self.two(x))
        x = x.mean((2, 3))
        return self.out(x)


def peak(what):
    if measure:
        with open("/proc/self/status") as f:
            print(what, [line.split()[1] for line in f if line.startswith("VmHWM")][0], "KiB")


def step(net, optimizer, n):
    x = torch.randn(n, 3, 64, 64)
    y = torch.randint(0, 10, (n,))
    peak("before the step")
    loss = F.cross_entropy(net(x), y)
    peak("after forward")
    optimizer.zero_grad()
    loss.backward()
    peak("after backward")
    optimizer.step()
    return loss.item()


def train():
    global batch
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    done = 0
    while done < 2:
        try:
            step(net, optimizer, batch)
            done += 1
        except RuntimeError as error:
            print("caught:", str(error).splitlines()[0][:120])
            batch //= 2
    print("finished with batch", batch)


train()
