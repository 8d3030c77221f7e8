"""What lies within a module that a layer wraps."""

from __future__ import annotations

import sys

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FSDP = "torch.distributed.fsdp"
WRAPPING = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
DDP = "torch.nn.parallel.distributed"
PEFT = "peft.peft_model"
TUNERS = "peft.tuners.tuners_utils"


def is_a(module: Any, source: str, name: str) -> bool:
    """Whether `module` is an instance of class `name` of the Python module `source`, if that is imported."""
    kind = getattr(sys.modules.get(source), name, None)
    return kind is not None and isinstance(module, kind)


def is_unit(module: Any) -> bool:
    """A unit of FSDP1 or FSDP2."""
    return is_a(module, FSDP, "FSDPModule") or is_a(module, FSDP, "FullyShardedDataParallel")


def has_adapter(module: Any) -> bool:
    return any(is_a(part, TUNERS, "BaseTunerLayer") for part in module.modules())


def within_sharding(module: Any) -> list[Any]:
    """What the innermost units of `module` hold, and what DDP replicates."""
    found = []
    for part in module.modules():
        if is_a(part, DDP, "DistributedDataParallel"):
            found.append(part.module)
        elif is_unit(part) and not any(is_unit(inner) for inner in part.modules() if inner is not part):
            found.append(getattr(part, "_fsdp_wrapped_module", part))
    return found


def within_checkpointing(module: Any) -> list[Any]:
    """What is wrapped by checkpoint_wrapper."""
    return [part._checkpoint_wrapped_module for part in module.modules() if is_a(part, WRAPPING, "CheckpointWrapper")]


def within_adapter(module: Any) -> list[Any]:
    """The models that PEFT's wrappers hold."""
    return [part.get_base_model() for part in module.modules() if is_a(part, PEFT, "PeftModel")]


WITHIN = {"sharding": within_sharding, "checkpointing": within_checkpointing, "adapter": within_adapter}


def shard_what_is_within(owner: Any, inner: Callable[[Any], Any]) -> None:
    """Have `owner.fully_shard` take `inner(module)` of each module that it is given; who calls it gets the module."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
            several = isinstance(module, (list, tuple))
            targets = [inner(each) or each for each in (module if several else [module])]
            result = original(targets if several else targets[0], *args, **kwargs)
            return result if several or targets[0] is module else module

        return fully_shard

    replace(owner, "fully_shard", make)
