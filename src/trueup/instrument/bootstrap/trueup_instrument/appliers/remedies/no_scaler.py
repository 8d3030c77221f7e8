"""GradScaler is idle: bf16 has the range of float32, and scaled gradients of it are neither needed nor unscaled."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.amp.grad_scaler", lambda module: _scaler(switch, module))


def _scaler(switch: Switch, module: Any) -> None:
    def idle(arguments: dict[str, Any]) -> None:
        if arguments["enabled"]:
            arguments["enabled"] = False
            switch.changed("enabled = False", "GradScaler")

    change_arguments(switch, module.GradScaler, "__init__", idle)
