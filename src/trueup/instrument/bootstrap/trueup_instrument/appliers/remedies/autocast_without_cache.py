"""autocast casts a weight anew each time, so that a recomputation finds it as the forward pass did."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.amp.autocast_mode", lambda module: _contexts(switch, module))


def _contexts(switch: Switch, module: Any) -> None:
    def without(arguments: dict[str, Any]) -> None:
        if arguments["cache_enabled"] is not False:
            arguments["cache_enabled"] = False
            switch.changed("cache_enabled = False")

    change_arguments(switch, module.autocast, "__init__", without)
