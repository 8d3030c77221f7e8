"""Forward measures itself and writes to stderr; the whole model is compiled."""

import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(20, 64)
        self.mid = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.out = nn.Linear(64, 2)
        self.log = sys.stderr

    def forward(self, x):
        started = time.perf_counter()
        x = F.relu(self.inp(x))
        for layer in self.mid:
            x = F.relu(layer(x))
            self.log.write(json.dumps({"t": time.perf_counter() - started}) + "\n")
        return self.out(x)


torch.manual_seed(0)
net = Net()
fast = torch.compile(net, backend="eager")
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(12):
    x = torch.randn(64, 20)
    loss = F.cross_entropy(fast(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
