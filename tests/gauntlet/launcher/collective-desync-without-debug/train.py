"""Early stopping decided by each rank for itself; the one that goes on meets another collective."""

import datetime

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


def evaluate(model, rank):
    """The mean loss over ranks."""
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(rank))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model.module(x), (x.sum(1) > 0).long())
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    best = float("inf")
    for step in range(14):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * rank + step))
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss.item() < best:
            best = loss.item()
            print(rank, step, evaluate(model, rank), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
