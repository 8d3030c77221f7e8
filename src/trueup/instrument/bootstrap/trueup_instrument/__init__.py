"""Observation inside the user's process. Standard library only: the user's torch is imported by the user, not by us."""

from __future__ import annotations

import os


def start() -> None:
    """Begin to observe this interpreter if `trueup run` asked for it through the environment."""
    folder = os.environ.get("TRUEUP_EVENTS")
    if not folder:
        return
    from trueup_instrument import role
    from trueup_instrument.session import Session

    Session(folder, role.of_this_process()).start()
