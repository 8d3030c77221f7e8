"""Two ranks: faults of data parallelism, each beside the same training as it should be.

Prints, for each fault, the losses of both. With the argument `healthy` only what is as it should be is run, and what
is printed are its losses.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

CLASSES, WIDTH = 12, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(2)))
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.dropout(x))

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(Net.forward(self, ids), ids.roll(-1, 0))

    def loss_from_blocks(self, ids: torch.Tensor) -> torch.Tensor:
        x = F.one_hot(ids % WIDTH, WIDTH).float()
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x), ids.roll(-1, 0))

    def loss_from_stack(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.one_hot(ids % WIDTH, WIDTH).float())
        return F.cross_entropy(self.head(x), ids.roll(-1, 0))


class Adapted(nn.Module):
    """A linear layer with a low-rank part beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.a = base, nn.Linear(base.in_features, 4, bias=False)
        self.b = nn.Linear(4, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(x))


def batches(number: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [torch.randint(0, CLASSES, (10,), generator=generator) for _ in range(number)]


def loss_of(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids).float(), ids.roll(-1, 0))


def trained(model: nn.Module, loss: Callable[[torch.Tensor], torch.Tensor], steps: int = 5) -> list[float]:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for ids in batches(steps):
        value = loss(ids)
        value.backward()
        clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    return losses


def accumulated(model: Any, suspend: Callable[[bool], Any] | None, length: int = 3, epochs: int = 4) -> list[float]:
    """The last step of each epoch has two passes only; gradients are clipped."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(epochs):
        data = batches(3 * length + 2)
        for number, ids in enumerate(data, 1):
            last = number % length == 0 or number == len(data)
            with suspend(last) if suspend else contextlib.nullcontext():
                loss = loss_of(model, ids)
                (loss / length).backward()
            losses.append(loss.item())
            if last:
                clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
    return losses


def accumulation_in_ddp(right: bool) -> list[float]:
    model = DistributedDataParallel(Net())
    return accumulated(model, (lambda last: contextlib.nullcontext() if last else model.no_sync()) if right else None)


def accumulation_in_fsdp2(right: bool) -> list[float]:
    model = sharded(Net())

    @contextlib.contextmanager
    def suspend(last: bool) -> Any:
        model.set_requires_gradient_sync(last)
        yield

    return accumulated(model, suspend if right else None)


def called_past_the_wrapper(right: bool) -> list[float]:
    wrapper = DistributedDataParallel(Net())
    losses = trained(wrapper, functools.partial(loss_of, wrapper if right else wrapper.module))
    total = sum(parameter.detach().double().sum() for parameter in wrapper.parameters())
    sums = [torch.zeros_like(total) for _ in range(2)]
    dist.all_gather(sums, total)
    return [*losses, float(abs(sums[0] - sums[1]))]


def wrapped_twice(right: bool) -> list[float]:
    def prepared(model: Any) -> Any:
        model = FullyShardedDataParallel(
            model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True, device_id=torch.device("cpu")
        )
        return torch.compile(model, backend="eager")

    model = prepared(Net())
    model = model if right else prepared(prepared(model))
    return trained(model, functools.partial(loss_of, model))


def two_dtypes_in_fsdp1(right: bool) -> list[float]:
    model = Net().bfloat16()
    for block in model.modules():
        if right or isinstance(block, nn.LayerNorm):
            block.float()
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        mixed_precision=precision,
        device_id=torch.device("cpu"),
    )
    return trained(model, functools.partial(loss_of, model))


def two_dtypes_in_fsdp2(right: bool) -> list[float]:
    """One dtype in each unit is enough: the rest of the model stays in bfloat16."""
    model = Net().bfloat16()
    for block in model.modules():
        if isinstance(block, Block if right else nn.LayerNorm):
            block.float()
    model = sharded(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    return trained(model, functools.partial(loss_of, model))


def root_left_out(right: bool) -> list[float]:
    model = Net()
    for block in model.blocks:
        fully_shard(block)
    if right:
        fully_shard(model)
    return trained(model, functools.partial(loss_of, model))


def adapters_after_sharding(right: bool) -> list[float]:
    model = Net()
    if not right:
        sharded(model)
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dim() == 1)
    for block in model.blocks:
        block.up = Adapted(block.up)
    if right:
        sharded(model)
    return trained(model, functools.partial(loss_of, model))


def loss_is_a_method(right: bool) -> list[float]:
    model = sharded(Net())
    if right:
        register_fsdp_forward_method(model, "loss")
    return trained(model, lambda ids: model.loss(ids))


def loss_that_begins_with_sharded_parts(right: bool) -> list[float]:
    model = sharded(Net())
    if right:
        register_fsdp_forward_method(model, "loss_from_blocks")
    return trained(model, lambda ids: model.loss_from_blocks(ids))


def loss_that_begins_with_nested_parts(right: bool) -> list[float]:
    model = Net()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model.blocks)
    fully_shard(model)
    if right:
        register_fsdp_forward_method(model, "loss_from_stack")
    return trained(model, lambda ids: model.loss_from_stack(ids))


def sharded(model: Any, **options: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


FAULTS = (
    accumulation_in_ddp,
    accumulation_in_fsdp2,
    called_past_the_wrapper,
    wrapped_twice,
    two_dtypes_in_fsdp1,
    two_dtypes_in_fsdp2,
    root_left_out,
    adapters_after_sharding,
    loss_is_a_method,
    loss_that_begins_with_sharded_parts,
    loss_that_begins_with_nested_parts,
)


def main() -> None:
    dist.init_process_group("gloo")
    healthy, chosen = "healthy" in sys.argv, [each for each in FAULTS if each.__name__ in sys.argv] or FAULTS
    printed: dict[str, Any] = {}
    for fault in chosen:
        losses = []
        for right in (True,) if healthy else (False, True):
            torch.manual_seed(0)
            losses.append(fault(right))
        printed[fault.__name__] = losses[0] if healthy else losses
    folders: list[Any] = [None, None]
    dist.all_gather_object(folders, [os.environ.get("TORCHINDUCTOR_CACHE_DIR"), os.environ.get("TRITON_CACHE_DIR")])
    if dist.get_rank() == 0:
        print(json.dumps({**printed, "folders": folders}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
