"""A stack of residual blocks whose activations are computed again in the backward pass."""

import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from .block import Block


class Network(nn.Module):
    def __init__(self, vocabulary, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
