"""Observation inside the user's process. Standard library only: the user's torch is imported by the user, not by us."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.session import Session

current: Session | None = None
"""The session that observes this process."""


def start() -> None:
    """Begin to observe this interpreter if `trueup run` asked for it through the environment."""
    folder = os.environ.get("TRUEUP_EVENTS")
    if not folder:
        return
    from trueup_instrument import role
    from trueup_instrument.session import Session

    global current
    current = Session(folder, role.of_this_process())
    current.start()


def observe_here(folder: str) -> Session:
    """Begin to observe this process from within its own program, whatever it has imported; see `Session.detach`."""
    from trueup_instrument import role
    from trueup_instrument.observers import optimizers
    from trueup_instrument.session import Session

    global current
    current = Session(folder, role.RANK, late=True)
    current.open()
    current.start()
    current.guarded(optimizers.NAME, optimizers.find_those_alive)(current)
    return current


def observe_no_more() -> list[str]:
    """Detach what observes this process; returns what stays in place, in words."""
    global current
    session, current = current, None
    return session.detach() if session is not None else []
