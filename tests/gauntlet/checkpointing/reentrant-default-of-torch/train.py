"""torch.utils.checkpoint with the reentrant variant, as in many model files of 2022; blocks are compiled."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 3 * dim)
        self.fc2 = nn.Linear(3 * dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(24, 48)
        self.blocks = nn.ModuleList(Block(48) for _ in range(5))
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        x = self.proj(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x.mean(1))


torch.manual_seed(0)
model = Model()
for block in model.blocks:
    block.compile(backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    x = torch.randn(8, 12, 24)
    loss = F.cross_entropy(model(x), torch.arange(8) % 10)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
