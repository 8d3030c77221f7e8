"""DDP over our own shards: each rank reads the lines of its shard, and the shards differ in length."""

import datetime

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


def shard(rank, world, lines=170, batch=8):
    mine = torch.arange(lines)[: lines // 2 + 40] if rank == 0 else torch.arange(lines)[lines // 2 + 40 :]
    for i in range(0, len(mine) - batch + 1, batch):
        yield torch.randn(batch, 16, generator=torch.Generator().manual_seed(int(mine[i])))


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, x in enumerate(shard(rank, world)):
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(rank, step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
