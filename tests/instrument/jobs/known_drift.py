"""Jobs that tell themselves how their parameters have moved."""

import os

import torch
from torch import nn

STEPS = 5


def train(model, optimizer):
    """{step: the change of every element that this rank holds}; few enough elements that all are looked at."""

    def held():
        return torch.cat([getattr(p, "_local_tensor", p).detach().flatten() for p in model.parameters()]).clone()

    before, changes = held(), {}
    for step in range(1, STEPS + 1):
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        changes[step] = (held() - before).tolist()
    return changes


def plain():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.1))


def two_optimizers():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in model)

    class Both:
        def step(self):
            first.step()
            second.step()

        def zero_grad(self):
            model.zero_grad()

    return train(model, Both())


def sharded():
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=int(os.environ["RANK"]), world_size=2
    )
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    fully_shard(model)
    changes = train(model, torch.optim.AdamW(model.parameters(), lr=0.1))
    torch.distributed.barrier()
    return changes
