"""Which layers of the stack already sit inside a module, told from the classes found there."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WRAPPERS = {
    "FSDPModule": "FSDP2",
    "FullyShardedDataParallel": "FSDP1",
    "DistributedDataParallel": "DDP",
    "ReplicateModule": "DDP",
    "CheckpointWrapper": "checkpoint",
    "BaseTunerLayer": "adapter",
}

KEPT_WHOLE = "_trueup_replicas"
"""Attribute of a module that FSDP would shard, had `sharding=off` not kept it whole: how many ranks have it."""


def wrappers_inside(module: Any) -> list[str]:
    """Sorted names of the layers applied to `module` or to parts of it."""
    found: set[str] = set()
    kinds: set[type[Any]] = set()
    checkpoints = False
    for part in module.modules():
        kinds.add(type(part))
        checkpoints = checkpoints or part.__dict__.get("gradient_checkpointing") is True
    for kind in kinds:
        names = [base.__name__ for base in kind.__mro__]
        if "ReplicateModule" in names:  # replicate() is made of FSDP2's machinery without sharding
            names.remove("FSDPModule")
        found.update(WRAPPERS[name] for name in names if name in WRAPPERS)
    if checkpoints:
        found.add("checkpoint")
    return sorted(found)


def compiled_parts(module: Any) -> int:
    """How many of `module` and its parts hold a compiled call."""
    return sum(
        type(part).__name__ == "OptimizedModule" or part.__dict__.get("_compiled_call_impl") is not None
        for part in module.modules()
    )


def modules_given(value: Any) -> list[Any]:
    """The modules of an argument that takes a module or a list of them."""
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
