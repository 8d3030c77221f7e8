"""`sharding before checkpointing`: what a checkpoint holds is made a unit of FSDP, and not the checkpoint."""

from __future__ import annotations

from trueup_instrument import modules
from trueup_instrument.appliers.order import parts
from trueup_instrument.appliers.order.checkpointed import checkpointed
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

FULLY_SHARD = "torch.distributed.fsdp._fully_shard._fully_shard"


def attach(switch: Switch) -> None:
    switch.after(FULLY_SHARD, lambda module: _fsdp2(switch, module))
    switch.after("torch.distributed.fsdp.fully_sharded_data_parallel", lambda module: _fsdp1(switch, module))


def _fsdp2(switch: Switch, owner: ModuleType) -> None:
    def inner(module: Any) -> Any:
        if not parts.is_a(module, parts.WRAPPING, "CheckpointWrapper"):
            return module
        beneath = module._checkpoint_wrapped_module
        switch.changed("the checkpoint is around the unit", modules.class_name(beneath))
        return beneath

    parts.shard_what_is_within(owner, switch.guarded(inner))


def _fsdp1(switch: Switch, owner: ModuleType) -> None:
    def move(unit: Any) -> None:
        wrapper = unit._fsdp_wrapped_module
        if not parts.is_a(wrapper, parts.WRAPPING, "CheckpointWrapper"):
            return
        unit.forward = checkpointed(wrapper, unit.forward)
        wrapper.checkpoint_fn = _straight
        switch.changed("the checkpoint is around the unit", modules.class_name(wrapper._checkpoint_wrapped_module))

    move = switch.guarded(move)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            move(self)

        return __init__

    replace(owner.FullyShardedDataParallel, "__init__", make)


def _straight(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
