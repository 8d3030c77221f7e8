"""Each block that is compiled has graphs and a limit of its own, beside those that blocks of its class share."""

from __future__ import annotations

import inspect
from collections import Counter

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


SHARED = 2
"""Modules of a class that share their graphs, which the others take where those fit: one whose input needs no gradient,
as the first, and one whose input does."""


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _compile(switch, torch))


def _compile(switch: Switch, torch: ModuleType) -> None:
    seen: Counter[type[Any]] = Counter()

    def isolate(arguments: dict[str, Any]) -> None:
        module = getattr(arguments["model"], "__self__", arguments["model"])
        if not isinstance(module, torch.nn.Module) or arguments["disable"]:
            return
        seen[type(module)] += 1
        if seen[type(module)] > SHARED and not arguments["isolate_recompiles"]:
            arguments["isolate_recompiles"] = True
            switch.changed("isolate_recompiles = True", type(module).__name__)

    if "isolate_recompiles" not in inspect.signature(torch.compile).parameters:
        switch.cannot("torch.compile of this torch has no isolate_recompiles")
        return
    change_arguments(switch, torch, "compile", isolate)
