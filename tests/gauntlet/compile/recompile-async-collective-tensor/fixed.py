"""Two ranks average their inputs before a compiled model; every third step logs the average."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(Net())
model.module.compile(backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(9):
    average = collectives.wait_tensor(collectives.all_reduce(torch.randn(8, 16), "avg", dist.group.WORLD))
    if step % 3 == 0 and dist.get_rank() == 0:
        print(f"step {step} mean of the inputs {average.mean().item():.3f}", flush=True)
    loss = model(average).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
