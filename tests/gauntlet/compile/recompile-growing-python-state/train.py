"""The model keeps a history of its own activations' norm for a report at the end."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.second = nn.Linear(64, 64)
        self.last = nn.Linear(64, 8)
        self.history = []

    def forward(self, x):
        h = F.relu(self.second(F.relu(self.first(x))))
        if self.training:
            self.history.append(h.detach().norm())
        return self.last(h)


torch.manual_seed(0)
model = Net()
model.compile(backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(16):
    x = torch.randn(32, 32)
    loss = F.cross_entropy(model(x), x.abs().argmax(1) % 8)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(step, loss.item(), flush=True)
print("mean norm", torch.stack(model.history).mean().item())
