"""Warm-up of a dropout-like noise inside the blocks, driven by a step counter on each module."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class NoisyBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)
        self.step = 0

    def forward(self, x):
        scale = min(1.0, self.step / 1000)
        self.step += 1
        return x + F.silu(self.fc(self.norm(x))) * (1 - 0.1 * scale)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(NoisyBlock(48) for _ in range(8))
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
net = Net()
step_function = torch.compile(net, backend="aot_eager", dynamic=False)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for i in range(24):
    x = torch.randn(8, 12, 48)
    loss = F.cross_entropy(step_function(x), torch.arange(8) % 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item(), flush=True)
