"""Checkpoints draw the same random numbers when they recompute."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.utils.checkpoint", lambda module: _functions(switch, module))


def _functions(switch: Switch, module: ModuleType) -> None:
    def preserve(arguments: dict[str, Any]) -> None:
        given = arguments if "preserve_rng_state" in arguments else arguments.get("kwargs", {})
        if given.get("preserve_rng_state", True) is False:
            given["preserve_rng_state"] = True
            switch.changed("preserve_rng_state = True")

    for name in ("checkpoint", "checkpoint_sequential"):
        change_arguments(switch, module, name, preserve)
