"""Compiled code draws the random numbers that eager code draws, so that both can be compared step by step."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "fallback_random", True, "torch._inductor.config")
