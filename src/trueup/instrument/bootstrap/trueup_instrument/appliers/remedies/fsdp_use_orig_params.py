"""FSDP1 keeps the original parameters, so that a unit may hold trainable and frozen ones, and compile sees them."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.distributed.fsdp.fully_sharded_data_parallel", lambda module: _units(switch, module))


def _units(switch: Switch, module: Any) -> None:
    def keep(arguments: dict[str, Any]) -> None:
        if not arguments["use_orig_params"]:
            arguments["use_orig_params"] = True
            switch.changed("use_orig_params = True")

    change_arguments(switch, module.FullyShardedDataParallel, "__init__", keep)
