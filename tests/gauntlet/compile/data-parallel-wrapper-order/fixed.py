"""Train a compiled model under FSDP1 on two ranks; `prepare` wraps first and compiles last, once."""

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
    model = wrap(model)
    for block in model.module[:-1]:
        block.compile(backend="aot_eager")
    return model


dist.init_process_group("gloo")
torch.manual_seed(0)
model = prepare(nn.Sequential(*(Block() for _ in range(3)), nn.Linear(32, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(6):
    loss = model(torch.randn(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
