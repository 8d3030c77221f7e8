"""Dynamo gives up a function only after many more variants of it: those of a model's distinct blocks or parameters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from trueup_instrument.appliers.switch import Switch

LIMIT = 64
"""Variants of one function; torch's default is 8."""


def attach(switch: Switch) -> None:
    switch.after("torch._dynamo.config", lambda config: _raise(switch, config))


def _raise(switch: Switch, config: ModuleType) -> None:
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    asked = getattr(config, name)
    if asked < LIMIT:
        setattr(config, name, LIMIT)
        switch.changed(f"{name} = {LIMIT}, was {asked}", "torch._dynamo.config")
