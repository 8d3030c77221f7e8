"""Starts its two ranks itself."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    dist.barrier()  # a rank that leaves while the other still connects ends both
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(f"{folder}/store",), nprocs=2)
