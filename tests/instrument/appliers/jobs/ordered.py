"""Trains one small model for each argument, `STEP+STEP`: steps taken from left to right. Prints facts as JSON.

One gloo rank, which shards over itself.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper, checkpoint_wrapper
from torch.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    fully_shard,
    fully_sharded_data_parallel,
)
from torch.distributed.fsdp._fully_shard import _fsdp_state
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def blocks_of(model):
    return next(part for part in model.modules() if isinstance(part, nn.ModuleList))


def each_block(apply):
    def applied(model):
        blocks = blocks_of(model)
        for index, block in enumerate(blocks):
            blocks[index] = apply(block)
        return model

    return applied


def compile(module):
    return torch.compile(module, backend="eager")


def compile_in_place(module):
    module.compile(backend="eager")
    return module


def fsdp1(module):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True)


def units(model):
    for block in blocks_of(model):
        fully_shard(block)
    return fully_shard(model) if not isinstance(model, FullyShardedDataParallel) else model


def lora(model):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=2, target_modules=["up"], init_lora_weights=False))


STEPS = {
    "compile": compile,
    "compile-in-place": compile_in_place,
    "compile-blocks": each_block(compile),
    "compile-blocks-in-place": each_block(compile_in_place),
    "checkpoint": each_block(checkpoint_wrapper),
    "fsdp1": fsdp1,
    "fsdp1-blocks": each_block(fsdp1),
    "fsdp2": units,
    "ddp": DistributedDataParallel,
    "lora": lora,
    "plain": lambda model: model,
    "bf16": lambda model: model.to(torch.bfloat16),
}


def train(stack):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Model()
    for step in stack.split("+"):
        model = STEPS[step](model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    losses, entered[0] = [], 0
    dtype = next(model.parameters()).dtype
    for _ in range(4):
        loss = model(torch.randn(4, WIDTH, dtype=dtype)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {
        "losses": losses,
        "class": type(model).__name__,
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "dtypes": sorted({str(p.dtype) for p in model.parameters()}),
        "nested": nested(model),
        "entered": entered[0],
        "sharded": sum(p.numel() for p in model.parameters() if p.requires_grad and isinstance(p, DTensor)),
    }


def nested(model):
    """From the outside in, what is around the first block, the block and what compiles it included."""
    found = []
    for part in model.modules():
        kind = type(part).__name__
        if part.__dict__.get("_compiled_call_impl") is not None:
            found.append(f"compiled {kind}")
        elif isinstance(part, (CheckpointWrapper, FSDPModule, FullyShardedDataParallel, DistributedDataParallel)) or (
            kind in ("OptimizedModule", "PeftModel")
        ):
            found.append(kind)
        if kind in ("Block", "FSDPBlock"):
            break
    return found


def counted(owner, name):
    """Count the calls of a function of FSDP that gathers what a unit holds."""
    original = getattr(owner, name)

    def call(*args, **kwargs):
        entered[0] += 1
        return original(*args, **kwargs)

    setattr(owner, name, call)


entered = [0]
counted(fully_sharded_data_parallel, "_pre_forward")
counted(_fsdp_state.FSDPState, "_pre_forward")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
facts = {}
for stack in sys.argv[1:]:
    facts[stack] = train(stack)
print(json.dumps(facts))
dist.destroy_process_group()
