"""A checkpoint compares no shapes and dtypes of what it computes again."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.utils.checkpoint", lambda module: _functions(switch, module))


def _functions(switch: Switch, module: Any) -> None:
    def no_check(arguments: dict[str, Any]) -> None:
        if arguments.get("use_reentrant") is False and arguments.get("determinism_check") != "none":
            arguments["determinism_check"] = "none"
            switch.changed('determinism_check = "none"')

    change_arguments(switch, module, "checkpoint", no_check)
