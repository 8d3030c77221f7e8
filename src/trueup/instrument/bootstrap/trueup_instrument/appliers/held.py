"""Keep environment variables at a value, also where a script or a launcher between sets them to another."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch

READERS = ("torch", "torch.distributed", "torch._dynamo", "torch._inductor.config", "torch.utils.cpp_extension")
"""Modules after whose import the variables are set once more: a program sets its own before, mostly."""


def attach(switch: Switch) -> None:
    """Set the variables of the remedy in this process now, and again where libraries begin to read them."""

    def apply() -> None:
        for name, value in switch.value.items():
            before = os.environ.get(name)
            if before != value:
                os.environ[name] = value
                switch.changed(f"{name} = {value}, was {'not set' if before is None else before}")

    apply()
    for name in READERS:
        switch.after(name, lambda module: apply())
