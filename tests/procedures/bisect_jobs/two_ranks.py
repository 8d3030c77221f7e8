"""Ranks that give each other tensors of different shapes: nothing happens with one rank."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Linear(4, 4 + rank)  # a vocabulary of another size on each rank
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(2, 4)).square().mean().backward()
    sizes: list = [None] * dist.get_world_size()
    dist.all_gather_object(sizes, tuple(model.weight.shape))
    if len(set(sizes)) > 1:
        raise ValueError("the ranks have parameters of different shapes")
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
