"""Train a compiled model under FSDP1 on two ranks; the model is prepared twice."""

import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


wrap = functools.partial(
    FullyShardedDataParallel,
    auto_wrap_policy=ModuleWrapPolicy({Block}),
    device_id=torch.device("cpu"),
    use_orig_params=True,
)


def prepare(model):
    return torch.compile(wrap(model), backend="aot_eager")


dist.init_process_group("gloo")
torch.manual_seed(0)
model = prepare(nn.Sequential(*(Block() for _ in range(3)), nn.Linear(32, 1)))
trained = prepare(model)
optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
for step in range(6):
    loss = trained(torch.randn(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
