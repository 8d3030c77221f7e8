"""Two gloo ranks set up every kind of data, sharded and tensor parallelism. `# at:` marks lines that events name."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable import replicate
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


dist.init_process_group("gloo")  # at: init
mesh = dist.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))  # at: mesh

replicated = DistributedDataParallel(Model(), find_unused_parameters=True)  # at: ddp
torch.compile(replicated, backend="eager")

composed = replicate(nn.Linear(4, 4))
assert composed(torch.ones(1, 4)).shape == (1, 4)

sharded = Model()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in sharded.blocks:
    block.compile(backend="eager")
    fully_shard(block, mesh=mesh, mp_policy=policy)  # at: fully_shard
fully_shard([sharded.norm, sharded.head], mesh=mesh, mp_policy=policy, reshard_after_forward=False)
fully_shard(sharded, mesh=mesh, mp_policy=policy)
assert fully_shard.state(sharded) is not None
assert sharded(torch.ones(1, 8)).shape == (1, 2)
whole = torch.compile(sharded, backend="eager")  # at: compile around FSDP2
for _ in range(60):
    fully_shard(nn.Linear(2, 2), mesh=mesh)

partly = Model()
old = FullyShardedDataParallel(  # at: fsdp1
    partly,
    sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
    auto_wrap_policy=ModuleWrapPolicy({Block}),
    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16),
    use_orig_params=True,
    ignored_modules=[partly.head],
    device_id=torch.device("cpu"),
)

block = Block()
parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})  # at: tensor parallel
loss = sharded(torch.ones(2, 8)).float().sum()
loss.backward()
print(os.environ["RANK"], f"loss {loss.item():.3f}")
dist.destroy_process_group()
