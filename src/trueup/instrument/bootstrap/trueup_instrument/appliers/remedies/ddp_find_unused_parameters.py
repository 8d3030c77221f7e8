"""DistributedDataParallel looks, in each pass, for parameters that take no part."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.nn.parallel.distributed", lambda module: _wrapper(switch, module))


def _wrapper(switch: Switch, module: Any) -> None:
    def find(arguments: dict[str, Any]) -> None:
        if not arguments["find_unused_parameters"] and not arguments.get("static_graph"):
            arguments["find_unused_parameters"] = True
            switch.changed("find_unused_parameters = True")

    change_arguments(switch, module.DistributedDataParallel, "__init__", find)
