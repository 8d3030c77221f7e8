"""What `trueup run --probe NAME` does beyond looking on: one file per question that only an extra computation answers.

Each has `NAME` and `attach(session, options)`. A probe may call the user's model. What it finds is a `probe` event, and
nothing of what it did is left in the job: see `untouched`.
"""

from __future__ import annotations

import importlib
import json
import os

from trueup_instrument import role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.session import Session

ASKED = "TRUEUP_PROBES"
"""Name of a probe → its options, as JSON, written by the launching trueup."""
NAMES = ("packing",)


def attach_all(session: Session) -> None:
    """Attach the probes that this run asks for."""
    try:
        asked = json.loads(os.environ.get(ASKED) or "{}")
    except ValueError:
        return
    if session.role == role.LAUNCHER:
        return
    for name in NAMES:
        if name in asked:
            module = importlib.import_module(f"{__name__}.{name}")
            session.guarded(module.NAME, module.attach)(session, asked[name] or {})
