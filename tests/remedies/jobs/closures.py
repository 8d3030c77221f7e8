"""Bfloat16 parameters whose step runs its closure, beside the same with float32 copies kept by hand; prints both."""

from __future__ import annotations

import json

import torch
from torch import nn


def net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(8, 8, bias=False).bfloat16()


READINGS = torch.randn(12, 4, 8, generator=torch.Generator().manual_seed(1)).bfloat16()


def with_closure() -> list[float]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in READINGS:

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).float().square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    return model.weight.flatten().tolist()


def by_hand() -> list[float]:
    model = net()
    copy = model.weight.detach().float()
    for x in READINGS:
        model.weight.grad = None
        model(x).float().square().mean().backward()
        copy -= 1e-3 * model.weight.grad.float()
        model.weight.data.copy_(copy)
    return model.weight.flatten().tolist()


print(json.dumps([with_closure(), by_hand()]))
