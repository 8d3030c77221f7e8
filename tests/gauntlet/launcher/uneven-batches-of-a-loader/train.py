"""DDP over a stream: each rank reads its own files, which differ in length. After each epoch comes a validation."""

import datetime

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

FILES = {"news": 96, "web": 120, "code": 40, "books": 72}


class Lines(IterableDataset):
    """The lines of these files, each a row of numbers and the class it belongs to."""

    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for name in self.files:
            for line in range(FILES[name]):
                x = torch.randn(16, generator=torch.Generator().manual_seed(1000 * len(name) + line))
                yield x, (x.sum() > 0).long()


def validate(model, rank):
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(rank))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model.module(x), (x.sum(1) > 0).long())
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Lines(list(FILES)[rank::world]), batch_size=8)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
        mean = validate(model, rank)
        if rank == 0:
            print(f"epoch {epoch} validation {mean:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
