"""A model under autocast or cast to float16, one of whose norms squares numbers of 300, which float16 does not hold."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--cast", action="store_true", help="cast the model instead of autocast")
arguments = parser.parse_args()


class FastNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.pow(2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).pow(2)
        return x * torch.rsqrt(variance.abs() + 1.0) * self.weight


class Block(nn.Module):
    def __init__(self, large: bool) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.norm = FastNorm(32)
        self.down = nn.Linear(32, 16)
        if large:
            nn.init.constant_(self.up.bias, 300.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.norm(self.up(x))) * 1e-3


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.layers = nn.ModuleList(Block(large=index == 2) for index in range(4))
        self.head = nn.Linear(16, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


torch.manual_seed(0)
model = Model()
if arguments.cast:
    model = model.to(torch.float16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
tokens = torch.randint(0, 32, (4, 8))
for _ in range(2):
    with torch.autocast("cpu", torch.float16, enabled=not arguments.cast):
        logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
