"""Forks two ranks by hand after torch was imported."""

import os
import tempfile

import torch
import torch.distributed as dist

with tempfile.TemporaryDirectory() as folder:
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                model(torch.ones(2, 4)).square().mean().backward()
                optimizer.step()
            dist.destroy_process_group()
            raise SystemExit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
