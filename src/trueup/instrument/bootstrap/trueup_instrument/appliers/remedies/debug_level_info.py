"""Process groups are made without the wrapper that compares collectives: debug level INFO in place of DETAIL."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.distributed.distributed_c10d", lambda module: _groups(switch, module))


def _groups(switch: Switch, module: ModuleType) -> None:
    """Each group is made by this function, which asks for the level, whoever has set it."""

    def lower(arguments: dict[str, Any]) -> None:
        import torch.distributed as dist

        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            dist.set_debug_level(dist.DebugLevel.INFO)
            switch.changed("TORCH_DISTRIBUTED_DEBUG = INFO, was DETAIL", "torch.distributed")

    change_arguments(switch, module, "_new_process_group_helper", lower)
