"""Forces layers of the stack to a value, as `trueup run --set LAYER=VALUE` asks. One file per layer.

Each file has `attach(switch)`. It is loaded only in a run that asks for its layer, switches that layer and nothing
else, and keeps the attributes and classes that the user's code relies on. What each switch does, and where its limits
are, is in docs/decisions/0004-switches.md.
"""

from __future__ import annotations

import importlib
import json
import os

from trueup_instrument import role
from trueup_instrument.appliers.switch import Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.session import Session

SET = "TRUEUP_SET"
"""Layer → value as JSON, written by the launching trueup."""
LAYERS = ("compile", "attention", "checkpointing", "precision", "sharding", "adapter")


def attach_all(session: Session) -> None:
    """Attach the appliers of the layers this run forces; one that fails says so and the others go on."""
    if session.role == role.LAUNCHER:
        return
    for layer, value in _asked().items():
        switch = Switch(session, layer, value)
        if layer in LAYERS:
            module = importlib.import_module(f"{__name__}.{layer}")
            switch.guarded(module.attach)(switch)
        else:
            switch.cannot("this trueup has no such switch")


def _asked() -> dict[str, Any]:
    try:
        asked = json.loads(os.environ.get(SET) or "{}")
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}
