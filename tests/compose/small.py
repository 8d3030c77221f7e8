"""A small model, and what trains it in this process."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=8, index=0):
        super().__init__()
        self.index = index
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class IndexedBlock(Block):
    """Dynamo compiles it once for each index."""

    def forward(self, x):
        return super().forward(x) * (1 + self.index / 100)


class BrokenBlock(Block):
    def forward(self, x):
        x = torch.relu(self.up(x))
        torch._dynamo.graph_break()
        return self.down(x)


class Model(nn.Module):
    def __init__(self, kind=Block, blocks=3, width=8):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.layers = nn.ModuleList(kind(width, i) for i in range(blocks))

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x


def batches(lengths, width=8):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(length, width, generator=generator) for length in lengths]


def train(model, data):
    """Losses of one SGD step for each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for batch in data:
        loss = model(batch).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
