"""Each repeated block is a unit of its own for FSDP1 and FSDP2, where the whole model was to be one."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import repeated_blocks
from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

UNIT = 2
"""Fewest repeated blocks that make units."""


def attach(switch: Switch) -> None:
    switch.after("torch.distributed.fsdp.fully_sharded_data_parallel", lambda module: _fsdp1(switch, module))
    switch.after("torch.distributed.fsdp._fully_shard._fully_shard", lambda module: _fsdp2(switch, module))


def _fsdp1(switch: Switch, module: Any) -> None:
    kind = module.FullyShardedDataParallel

    def policy(arguments: dict[str, Any]) -> None:
        model = arguments["module"]
        blocks = repeated_blocks(model)
        if len(blocks) < UNIT or any(isinstance(inner, kind) for inner in model.modules()):
            return
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        arguments["auto_wrap_policy"] = ModuleWrapPolicy({type(block) for block in blocks})
        switch.changed(f"{len(blocks)} blocks are units", type(blocks[0]).__name__)

    change_arguments(switch, kind, "__init__", policy)


def _fsdp2(switch: Switch, module: Any) -> None:
    replace(module, "fully_shard", lambda original: _sharded(switch, module, original))


def _sharded(switch: Switch, owner: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def units(model: Any, options: dict[str, Any]) -> None:
        kind = owner.FSDPModule
        blocks = repeated_blocks(model) if not isinstance(model, list) else []
        if len(blocks) < UNIT or any(isinstance(inner, kind) for inner in model.modules()):
            return
        for block in blocks:
            original(block, **options)
        switch.changed(f"{len(blocks)} blocks are units", type(blocks[0]).__name__)

    first = switch.guarded(units)

    def fully_shard(module: Any, **options: Any) -> Any:
        first(module, options)
        return original(module, **options)

    return fully_shard
