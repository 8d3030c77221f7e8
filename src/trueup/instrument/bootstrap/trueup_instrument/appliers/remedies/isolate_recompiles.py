"""Each block that is compiled has graphs and a limit of its own, beside those that blocks of its class share."""

from __future__ import annotations

import inspect

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _compile(switch, torch))


def _compile(switch: Switch, torch: ModuleType) -> None:
    seen: set[type[Any]] = set()

    def isolate(arguments: dict[str, Any]) -> None:
        """The first of a class is compiled as asked: the others take its graphs where those fit."""
        module = getattr(arguments["model"], "__self__", arguments["model"])
        if not isinstance(module, torch.nn.Module) or arguments["disable"]:
            return
        if type(module) in seen and not arguments["isolate_recompiles"]:
            arguments["isolate_recompiles"] = True
            switch.changed("isolate_recompiles = True", type(module).__name__)
        seen.add(type(module))

    if "isolate_recompiles" not in inspect.signature(torch.compile).parameters:
        switch.cannot("torch.compile has no isolate_recompiles before torch 2.12")
        return
    change_arguments(switch, torch, "compile", isolate)
