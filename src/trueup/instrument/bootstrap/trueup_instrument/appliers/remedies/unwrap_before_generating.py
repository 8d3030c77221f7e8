"""`Accelerator.unwrap_model` takes the float32 conversion of outputs off the forward that it gives back."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("accelerate.accelerator", lambda module: _accelerator(switch, module))


def _accelerator(switch: Switch, module: ModuleType) -> None:
    def without(arguments: dict[str, Any]) -> None:
        if arguments["keep_fp32_wrapper"]:
            arguments["keep_fp32_wrapper"] = False
            switch.changed("unwrap_model(keep_fp32_wrapper=False)", type(arguments["model"]).__name__)

    change_arguments(switch, module.Accelerator, "unwrap_model", without)
