"""Small models as users write them, of which it is known by construction what is compiled."""

import torch
from torch import nn


class Block(nn.Module):
    """72 * width parameters at width 8; `broken`: where Dynamo must stop in the middle of it."""

    def __init__(self, width=8, dropout=0.0, broken=False):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.broken = broken

    def forward(self, x):
        inner = self.up(self.norm(x))
        if self.broken:
            torch._dynamo.graph_break()
        return x + self.dropout(self.down(inner.relu()))


class Model(nn.Module):
    """An embedding, a row of blocks, a head."""

    def __init__(self, blocks=4, width=8, **options):
        super().__init__()
        self.embedding = nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, **options) for _ in range(blocks))
        self.head = nn.Linear(width, 16)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def elements(module):
    return sum(parameter.numel() for parameter in module.parameters())


def loss_of(model, ids):
    """Next-token loss."""
    scores = model(ids[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1).float(), ids[:, 1:].flatten())
