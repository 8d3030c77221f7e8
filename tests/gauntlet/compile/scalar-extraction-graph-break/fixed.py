"""Blocks scale their update by the mean length of the batch, read as a Python number."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        scale = lengths.float().mean()
        return x + F.gelu(self.fc(self.norm(x))) / scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 48)
        self.blocks = nn.ModuleList(Block(48) for _ in range(4))
        self.head = nn.Linear(48, 50)

    def forward(self, ids, lengths):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, lengths)
        return self.head(x)


torch.manual_seed(0)
model = Net()
for block in model.blocks:
    block.compile(backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    ids = torch.randint(0, 50, (4, 17))
    lengths = torch.randint(4, 17, (4,))
    loss = F.cross_entropy(model(ids[:, :-1], lengths).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
