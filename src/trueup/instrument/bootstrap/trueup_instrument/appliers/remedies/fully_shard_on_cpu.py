"""Accelerate's FSDP plugin shards on a CPU, too, with fully_shard: it would replicate the model there."""

from __future__ import annotations

import sys

from trueup_instrument.appliers.binding import Binding
from trueup_instrument.appliers.compiling import repeated_blocks
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    binding = Binding(switch)
    switch.after("accelerate.accelerator", lambda module: _accelerator(switch, binding, module))


def _accelerator(switch: Switch, binding: Binding, module: Any) -> None:
    asked: dict[int, Any] = {}
    """id(Accelerator) → the plugin that it was given."""
    sharded: set[int] = set()
    """id(model) of those that are sharded here."""
    kind = module.Accelerator

    def remember(accelerator: Any, plugin: Any) -> None:
        if plugin is not None and str(accelerator.distributed_type).endswith("MULTI_CPU"):
            asked[id(accelerator)] = plugin

    def shard(accelerator: Any, objects: Any) -> None:
        plugin = asked.get(id(accelerator))
        for model in objects if plugin is not None else ():
            if isinstance(model, sys.modules["torch"].nn.Module) and id(model) not in sharded:
                units = _shard(model, plugin)
                sharded.add(id(model))
                switch.changed(f"fully_shard on {units} units", type(model).__name__)
        for each in objects if plugin is not None else ():
            if isinstance(each, sys.modules["torch"].optim.Optimizer):
                binding.rebind(each)

    remember, shard = switch.guarded(remember), switch.guarded(shard)

    def init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            remember(self, kwargs.get("fsdp_plugin"))

        return init

    def prepare(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(self: Any, *args: Any, **kwargs: Any) -> Any:
            shard(self, args)
            return original(self, *args, **kwargs)

        return prepare

    def prepare_model(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_model(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
            """A model that is prepared for evaluation only is not wrapped in DDP."""
            if id(model) in sharded:
                kwargs["evaluation_mode"] = True
            return original(self, model, *args[:1], **kwargs)

        return prepare_model

    replace(kind, "__init__", init)
    replace(kind, "prepare", prepare)
    replace(kind, "prepare_model", prepare_model)


def _shard(model: Any, plugin: Any) -> int:
    """Shard each unit that the plugin names, or each repeated block, and the rest; returns the number of units."""
    from torch.distributed.fsdp import fully_shard

    torch = sys.modules["torch"]
    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    names = set(getattr(plugin, "transformer_cls_names_to_wrap", None) or ())
    units = [part for part in model.modules() if type(part).__name__ in names] or repeated_blocks(model)
    reshard = getattr(plugin, "reshard_after_forward", True)
    options = {"mesh": mesh, "reshard_after_forward": reshard if isinstance(reshard, bool) else True}
    for unit in units:
        fully_shard(unit, **options)
    fully_shard(model, **options)
    return len(units) + 1
