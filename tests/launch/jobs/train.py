"""Three steps of a small model; replicated where a launcher has set a rank."""

import os

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"loss {loss.item():.6f}")
if "RANK" in os.environ:
    torch.distributed.destroy_process_group()
