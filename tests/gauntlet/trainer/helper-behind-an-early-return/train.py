"""A regression tower out of a configuration file; what its compile switch guards is given the objective alone."""

import json
from functools import partial
from pathlib import Path

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.out = nn.RMSNorm(width), nn.Linear(2 * width, width)
        self.gate, self.value = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.out(nn.functional.silu(self.gate(y)) * self.value(y))


def tower(width, depth):
    return nn.Sequential(nn.Linear(20, width), *(Gate(width) for _ in range(depth)), nn.Linear(width, 20))


def huber(prediction, target, bend=1.0):
    distance = (prediction - target).abs()
    return torch.where(distance < bend, 0.5 * distance**2, bend * (distance - 0.5 * bend)).mean()


def maybe_compile(part, runtime):
    if not runtime["compile"]:
        return part
    return torch.compile(part, backend="aot_eager")


def main():
    options = json.loads(Path(__file__).with_name("options.json").read_text())
    runtime = options["runtime"]
    torch.manual_seed(0)
    model = tower(**options["model"])
    objective = partial(maybe_compile(huber, runtime), bend=0.5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=runtime["lr"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, runtime["steps"])
    rotation = torch.linalg.qr(torch.randn(20, 20))[0]
    for step in range(runtime["steps"]):
        x = torch.randn(64, 20)
        loss = objective(model(x), x @ rotation)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(step, f"{loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
