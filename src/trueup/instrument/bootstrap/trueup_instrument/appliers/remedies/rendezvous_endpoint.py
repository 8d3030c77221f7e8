"""torchrun on one node meets at this machine, whatever name its endpoint has."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.distributed.launcher.api", lambda module: _launcher(switch, module))


def _launcher(switch: Switch, module: ModuleType) -> None:
    def meet_here(arguments: dict[str, Any]) -> None:
        config = arguments["config"]
        if config.max_nodes > 1:
            switch.cannot("the job spans several machines, whose endpoint must be one of them")
        elif config.rdzv_backend == "c10d" and config.rdzv_endpoint != "localhost:0":
            switch.changed(f"rdzv_endpoint = localhost:0, was {config.rdzv_endpoint}")
            config.rdzv_endpoint = "localhost:0"

    change_arguments(switch, module, "launch_agent", meet_here)
