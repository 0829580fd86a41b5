"""A convolution training step, batch 64, two threads. Prints seconds for each step."""
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(1)
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 3, padding=1),
                          torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64 * 8 * 8, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
x, y = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))


def step():
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()


for _ in range(5):
    step()
times = []
for _ in range(STEPS):
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
print(*times)
