"""FSDP2 over two ranks; rank 0 evaluates by itself, where each forward gathers parameters of all."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(3)))
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    loss = model(torch.randn(4, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(model(torch.ones(4, 16)).mean().item(), flush=True)
dist.destroy_process_group()
