"""`checkpointing before sharding`: a checkpoint around a unit of FSDP goes into it, so that its hooks run once."""

from __future__ import annotations

from trueup_instrument import modules
from trueup_instrument.appliers.order import parts
from trueup_instrument.appliers.order.checkpointed import checkpointed
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after(parts.WRAPPING, lambda module: _wrappers(switch, module.CheckpointWrapper))


def _wrappers(switch: Switch, kind: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def move(wrapper: Any) -> None:
            unit = wrapper._checkpoint_wrapped_module
            if not parts.is_unit(unit):
                return
            inner = getattr(unit, "_fsdp_wrapped_module", unit)
            inner.forward = checkpointed(wrapper, inner.forward)
            wrapper.checkpoint_fn = _straight
            switch.changed("checkpoint put within the unit", modules.class_name(inner))

        move = switch.guarded(move)

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            move(self)

        return __init__

    replace(kind, "__init__", make)


def _straight(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
