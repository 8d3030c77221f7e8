"""A limit on work that cannot be asked to stop, as a compilation."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class OutOfTime(BaseException):
    """The time is over. No Exception: the work is not to take it for a failure of its own."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime within the work after `seconds`, where a signal can: in the main thread of a Unix process."""
    possible = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    if not possible or math.isinf(seconds):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
