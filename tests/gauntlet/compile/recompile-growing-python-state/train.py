"""The model keeps a history of its own activations' norm for a report at the end."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.middle = nn.Sequential(*(Residual(64) for _ in range(8)))
        self.last = nn.Linear(64, 8)
        self.history = []

    def forward(self, x):
        h = self.middle(F.relu(self.first(x)))
        if self.training:
            self.history.append(h.detach().norm())
        return self.last(h)


torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
model = Net()
model.compile(backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(24):
    x = torch.randn(32, 32)
    loss = F.cross_entropy(model(x), x.abs().argmax(1) % 8)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(step, loss.item(), flush=True)
print("mean norm", torch.stack(model.history).mean().item())
