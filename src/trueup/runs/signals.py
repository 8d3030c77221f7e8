"""Signals sent to trueup reach the command's process group, as if trueup were not there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any

from trueup.runs.streams import Stream

FORWARDED = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGCONT",
    "SIGWINCH",
    "SIGTSTP",
)
INTERRUPTS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


class Ending:
    """A context manager in which the first signal that asks a program to end raises KeyboardInterrupt, so that what was
    made for a while is removed; later ones do nothing. `Forwarding` within it passes them on instead.

    A signal that was ignored before stays so. Outside the main thread this does nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        """True once a signal has asked to end, also while it was passed on to a command, which may end well with it."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Ending:
        self._before = _handled(INTERRUPTS, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _restore(self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        asked, self.asked = self.asked, True
        if not asked:
            raise KeyboardInterrupt


class Forwarding:
    """A context manager that forwards signals to a process group once it is known; earlier ones wait.

    A signal that was ignored when trueup started (`nohup`) stays ignored, here and in the command. Outside the main
    thread Python cannot handle signals; there this does nothing. A change of the window's size also reaches `streams`.
    """

    def __init__(self, streams: Iterable[Stream]) -> None:
        self.interrupted = False
        """True once a signal that asks a program to end has been forwarded."""
        self._streams = list(streams)
        self._group: int | None = None
        self._waiting: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Forwarding:
        numbers = [getattr(signal, name) for name in FORWARDED if hasattr(signal, name)]
        self._before = _handled(numbers, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _restore(self._before)
        outer = getattr(self._before.get(signal.SIGTERM), "__self__", None)
        if self.interrupted and isinstance(outer, Ending):
            outer.asked = True

    def to_group(self, group: int) -> None:
        """The command runs: forward to its process group from now on, first what has come already."""
        self._group = group
        while self._waiting:
            self._send(self._waiting.pop(0))

    def stop(self) -> None:
        """The command has ended; its process group number may be given to others."""
        self._group = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGWINCH:
            for stream in self._streams:
                stream.resize()
        self.interrupted = self.interrupted or number in INTERRUPTS
        if self._group is None:
            self._waiting.append(number)
        elif number == signal.SIGTSTP:
            # The command's group has no terminal, so that the kernel would drop SIGTSTP there; SIGCONT wakes both.
            self._send(signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        if self._group is not None:
            try:
                os.killpg(self._group, number)
            except (ProcessLookupError, PermissionError):
                pass


def _handled(numbers: Iterable[int], handle: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handle these signals, but for ignored ones and outside of the main thread; what handled each before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {
        number: signal.signal(number, handle) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN
    }


def _restore(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)
