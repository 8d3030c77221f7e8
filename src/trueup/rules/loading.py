"""How much of a sharded model each rank loaded into host memory before it was split."""

from __future__ import annotations

from collections import defaultdict

from trueup.rules.facts import is_on, variable
from trueup.schema.record import Record

NOTABLE = 32 * 2**20
"""Bytes of a model, below which nothing is said of it."""
HEAVY = 8 * 2**30
"""Bytes that all ranks of a host but one took for nothing, from which it is more than a note."""


def ranks_with_all(record: Record) -> tuple[int, ...]:
    """Ranks of one host, the one with most of them, that held nearly all weights when they began to shard them."""
    memory = record.actual.memory
    hosts: dict[str, list[int]] = defaultdict(list)
    if (memory.loaded_total or 0) >= NOTABLE:
        for rank in record.ranks:
            if memory.loaded_before_sharding.get(str(rank.rank), 0) >= 0.9 * (memory.loaded_total or 0):
                hosts[rank.host].append(rank.rank)
    return max((tuple(ranks) for ranks in hosts.values()), key=len, default=())


def efficient_loading(record: Record) -> bool:
    """True when transformers was told to load weights on the first rank of a host only."""
    return is_on(variable(record, "ACCELERATE_USE_FSDP")) and is_on(variable(record, "FSDP_CPU_RAM_EFFICIENT_LOADING"))
