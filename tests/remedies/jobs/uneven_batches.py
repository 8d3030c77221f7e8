"""Two ranks whose data are of different length, beside the same training on as many batches as both have.

Prints, for each way to train, what the parameters add up to in both, and how many batches this rank trained on. With
the argument `healthy` only the latter is run.
"""

from __future__ import annotations

import datetime
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset

WIDTH, EPOCHS = 8, 2
LENGTHS = (5, 7)
"""Batches of the ranks."""


def row(rank: int, number: int) -> torch.Tensor:
    return torch.randn(WIDTH, generator=torch.Generator().manual_seed(100 * rank + number))


class Stream(IterableDataset[torch.Tensor]):
    def __init__(self, rank: int, batches: int) -> None:
        self.rank, self.batches = rank, batches

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (row(self.rank, number) for number in range(2 * self.batches))


class Rows(Dataset[torch.Tensor]):
    def __init__(self, rank: int, batches: int) -> None:
        self.rank, self.batches = rank, batches

    def __len__(self) -> int:
        return 2 * self.batches

    def __getitem__(self, index: int) -> torch.Tensor:
        return row(self.rank, index)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 1))


def sharded() -> nn.Module:
    return fully_shard(network())


def total(model: nn.Module) -> float:
    values = [getattr(each, "full_tensor", lambda each=each: each)() for each in model.parameters()]
    summed = sum(value.double().square().sum() for value in values).detach()
    if isinstance(model, FullyShardedDataParallel):
        dist.all_reduce(summed)
    return float(summed)


def evaluate(model: nn.Module, rank: int) -> None:
    """On the first rank only, of another number of rows than training has."""
    if rank == 0 and isinstance(model, DistributedDataParallel):
        with torch.no_grad():
            for x in DataLoader(Rows(3, 3), batch_size=2):
                model.module(x)


def train(model: nn.Module, batches: Iterable[torch.Tensor], accumulate: int = 1) -> tuple[float, int]:
    """What the parameters add up to, and the number of batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = 0
    for _ in range(EPOCHS):
        for number, x in enumerate(batches):
            seen += 1
            loss = model(x).square().mean()
            loss.backward()
            dist.all_reduce(loss.detach())
            if number % accumulate == accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
        evaluate(model, dist.get_rank())
        dist.barrier()
    return total(model), seen


class First:
    """The first batches of a loader."""

    def __init__(self, loader: DataLoader[torch.Tensor], number: int) -> None:
        self.loader, self.number = loader, number

    def __iter__(self) -> Iterator[torch.Tensor]:
        return itertools.islice(self.loader, self.number)


class ByLength:
    """As many batches as the loader is long; it is never asked for one more."""

    def __init__(self, loader: DataLoader[torch.Tensor]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[torch.Tensor]:
        batches = iter(self.loader)
        for _ in range(len(self.loader)):
            try:
                yield next(batches)
            except StopIteration:
                return


Make = Callable[[], nn.Module]
WAYS: dict[str, tuple[Make, Any, dict[str, Any], int]] = {
    "ddp": (lambda: DistributedDataParallel(network()), Stream, {}, 1),
    "by length": (lambda: DistributedDataParallel(network()), Rows, {}, 1),
    "workers, by length": (lambda: DistributedDataParallel(network()), Rows, {"num_workers": 1}, 1),
    "accumulating": (lambda: DistributedDataParallel(network()), Stream, {}, 2),
    "workers": (lambda: DistributedDataParallel(network()), Rows, {"num_workers": 1, "persistent_workers": True}, 1),
    "fsdp1": (lambda: FullyShardedDataParallel(network(), device_id=torch.device("cpu")), Rows, {}, 1),
    "fsdp2": (sharded, Stream, {}, 1),
}


def main(healthy: bool) -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank = dist.get_rank()
    told: dict[str, list[tuple[float, int]]] = {}
    for name, (make, data, options, accumulate) in WAYS.items():
        shortest = min(LENGTHS)
        uneven: Any = DataLoader(data(rank, LENGTHS[rank]), batch_size=2, **options)
        even: Any = DataLoader(data(rank, shortest), batch_size=2, **options)
        if name.endswith("by length"):
            uneven, even = ByLength(uneven), ByLength(even)
        told[name] = [train(make(), each, accumulate) for each in ([even] if healthy else [uneven, even])]
        if healthy:
            told[name].append(train(make(), First(uneven, shortest), accumulate))
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, told)
    if rank == 0:
        print(json.dumps(gathered))
    dist.destroy_process_group()


if __name__ == "__main__":
    main("healthy" in sys.argv)
