"""Dynamo gives up a function only after many more variants of it: those of a model's distinct blocks or parameters."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "recompile_limit", 64, at_least=True)
