"""Checkpointed blocks, one of which saves other tensors when it runs again: it keeps the result of its first call."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.keeps = keeps
        self.kept = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.keeps:
            return x + torch.tanh(self.linear(x))
        if self.kept is None:
            self.kept = torch.sigmoid(self.linear(x)).detach()
            return x + torch.tanh(self.linear(x)) * self.kept
        return x + self.linear(x) * self.kept


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(keeps=index == 2) for index in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(4, 8, requires_grad=True)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
