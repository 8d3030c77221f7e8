"""Two ranks: adapters of an own class, frozen with their base, beside the same training as it should be.

Prints what both compute, with and without DistributedDataParallel; with `healthy` what is frozen on purpose.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 8


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear, nested: bool) -> None:
        super().__init__()
        self.base = base
        down, up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)
        if nested:
            self.lora = nn.Sequential(down, up)
        else:
            self.lora_down, self.lora_up = down, up
        self.nested = nested

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + (self.lora(x) if self.nested else self.lora_up(self.lora_down(x)))


def model(chosen: str, nested: bool) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(*(Adapted(nn.Linear(WIDTH, WIDTH), nested) for _ in range(2)), nn.Linear(WIDTH, 1))
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name.startswith("2.") or (bool(chosen) and chosen in name))
    return net


def losses(net: Any, wrapped: bool) -> list[float]:
    """Of this rank, and the sum of its weights."""
    if wrapped:
        net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    found = []
    for _ in range(4):
        x = torch.randn(6, WIDTH, generator=generator)
        loss = (net(x) - x.sum(-1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    weights = torch.stack([each.detach().sum() for each in net.parameters()]).sum()
    return [*found, weights.item()]


def main() -> None:
    dist.init_process_group("gloo")
    printed: dict[str, Any] = {}
    healthy = "healthy" in sys.argv
    for nested in (False, True):
        for wrapped in (False, True):
            ways = ["1.lora"] if healthy else ["", "lora"]  # healthy: the adapters of one layer are chosen
            values = [losses(model(way, nested), wrapped) for way in ways]
            printed[f"nested {nested} wrapped {wrapped}"] = values
    if dist.get_rank() == 0:
        print(json.dumps(printed), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
