"""Spawns its own workers; the rendezvous address is set in the code, as in the tutorial it was copied from."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

WORLD = 2


def setup(rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)


def worker(rank):
    setup(rank)
    torch.manual_seed(4)
    net = DistributedDataParallel(nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 28, 3)))
    opt = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(rank)
    for i in range(15):
        signal = torch.randn(16, 1, 32)
        label = signal.mean(dim=(1, 2)).mul(20).clamp(-1, 1).round().long() + 1
        loss = nn.functional.cross_entropy(net(signal), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and i % 5 == 0:
            print(i, round(loss.item(), 4), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=WORLD, join=True)
