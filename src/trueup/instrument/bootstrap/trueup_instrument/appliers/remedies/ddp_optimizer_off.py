"""Dynamo does not split graphs at the buckets of DistributedDataParallel, where higher-order operators break."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "optimize_ddp", False)
