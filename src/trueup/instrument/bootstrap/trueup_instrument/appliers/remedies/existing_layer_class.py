"""Where FSDP is told to wrap a layer class that the model does not have, it wraps the model's own blocks."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import repeated_blocks
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

LIBRARIES = ("accelerate.utils.dataclasses", "transformers.trainer_pt_utils")


def attach(switch: Switch) -> None:
    for name in LIBRARIES:
        switch.after(name, lambda module: _lookup(switch, module))


def _lookup(switch: Switch, module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        running: list[str] = []  # it calls itself for each child
        own = switch.guarded(_own_block)

        def get_module_class_from_name(model: Any, name: str) -> Any:
            if running:
                return original(model, name)
            running.append(name)
            try:
                found = original(model, name)
            finally:
                running.clear()
            if found is None:
                found = own(model, name)
                if found is not None:
                    switch.changed(f"the class to wrap is {found.__name__}, was {name}", type(model).__name__)
            return found

        return get_module_class_from_name

    if not replace(module, "get_module_class_from_name", make):
        plugin = getattr(module, "FullyShardedDataParallelPlugin", None)  # before accelerate 1.0
        if plugin is None or not replace(plugin, "get_module_class_from_name", make):
            switch.cannot(f"{module.__name__} looks for layer classes in another way")


def _own_block(model: Any, name: str) -> type | None:
    """One whose name differs by blanks and case, the class that the model says not to split, or its repeated block."""
    kinds = {type(each).__name__: type(each) for each in model.modules()}
    plain = {each.lower().replace("_", ""): each for each in kinds}
    alike = plain.get(name.strip().lower().replace("_", ""))
    declared = [each for each in getattr(model, "_no_split_modules", None) or () if each in kinds]
    if alike or declared:
        return kinds[alike or declared[0]]
    blocks = repeated_blocks(model)
    return type(blocks[0]) if blocks else None
