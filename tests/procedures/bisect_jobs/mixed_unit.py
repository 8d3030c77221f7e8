"""FSDP, of either kind, over blocks of which one holds parameters of two dtypes; `--sound` has none such."""

import argparse
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=("fsdp1", "fsdp2"), default="fsdp2")
parser.add_argument("--sound", action="store_true")
arguments = parser.parse_args()


class Scale(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight.to(x.dtype)


class Block(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.scale = Scale(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale(torch.tanh(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        odd = torch.float32 if arguments.sound else torch.bfloat16
        self.layers = nn.ModuleList(Block(odd if index == 2 else torch.float32) for index in range(5))
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = Model()
if arguments.kind == "fsdp2":
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
else:
    wrap = functools.partial(FullyShardedDataParallel, device_id=torch.device("cpu"))
    model = wrap(model, auto_wrap_policy=ModuleWrapPolicy({Block}))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(3):
    x = torch.randn(4, 8, generator=generator)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(loss.item())
dist.destroy_process_group()
