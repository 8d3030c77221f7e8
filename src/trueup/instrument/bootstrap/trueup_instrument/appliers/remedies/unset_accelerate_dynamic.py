"""torch.compile decides itself which sizes are dynamic, where `accelerate launch` exported that none is."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from trueup_instrument.appliers.switch import Switch

VARIABLE = "ACCELERATE_DYNAMO_USE_DYNAMIC"


def attach(switch: Switch) -> None:
    switch.after("accelerate", lambda module: _unset(switch, module))


def _unset(switch: Switch, module: ModuleType) -> None:
    """The variable is read when an Accelerator is made."""
    if os.environ.pop(VARIABLE, None) is not None:
        switch.changed(f"{VARIABLE} unset", "accelerate")
