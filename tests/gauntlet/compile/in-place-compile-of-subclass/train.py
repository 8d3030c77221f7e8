"""Regression with towers of our own, built on nn.Sequential; each tower is compiled in place."""

from functools import partial

import torch
from torch import nn


class Tower(nn.Sequential):
    def __init__(self, width, depth, activation=nn.SiLU):
        parts = [part for _ in range(depth) for part in (nn.Linear(width, width), activation(), nn.LayerNorm(width))]
        super().__init__(*parts)


class Towers(nn.Module):
    def __init__(self, columns=12, width=64, number=4):
        super().__init__()
        self.stem = nn.Linear(columns, width)
        self.towers = nn.ModuleList(map(partial(Tower, depth=3), [width] * number))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = self.stem(x)
        for tower in self.towers:
            h = h + tower(h)
        return self.out(h).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = Towers()
    for tower in model.towers:
        tower.compile(backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 14)
    for step in range(14):
        x = torch.randn(32, 12)
        loss = nn.functional.mse_loss(model(x), x.sum(1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
