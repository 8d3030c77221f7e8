"""Which Python functions run during one step, by code object, seen from the interpreter's own call events.

Modules that Dynamo inlined into a graph, and frames it replaced, raise no event for their original code: a call event
for a `forward` is proof that it ran as plain Python (measured on torch 2.13). `Module._wrapped_call_impl` is entered in
plain Python for every module called from outside a graph, compiled or not.
"""

from __future__ import annotations

import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, FrameType
    from typing import Any

    Listener = Callable[[FrameType], None]
    """Told of the frame of a call of the code that it listens to."""


class FrameWatch:
    """Calls the listeners of a watched code object with the called frame, between `start` and `stop`."""

    def __init__(self, listeners: Mapping[CodeType, Sequence[Listener]]) -> None:
        self._codes = list(listeners)
        self._listeners = {id(code): listener for code, listener in listeners.items()}
        self._thread: int | None = None
        self.lost = False
        """True once another profile function took the place of ours: from then on calls were missed."""

    def start(self) -> bool:
        """Begin; returns False, and does nothing, when another profiler is at work."""
        if sys.getprofile() is not None:
            return False
        self._thread = threading.get_ident()
        listeners, set_profile = self._listeners, sys.setprofile

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                if self._thread is None:  # somebody kept us and put us back after our end
                    set_profile(None)
                    return
                for listener in listeners.get(id(frame.f_code), ()):
                    listener(frame)
            elif event == "c_call" and argument is set_profile:
                self.lost = True

        self._profile = profile
        sys.setprofile(profile)
        return True

    def stop(self) -> None:
        if self._thread != threading.get_ident():
            return
        lost = self.lost or sys.getprofile() is not self._profile
        if sys.getprofile() is self._profile:
            sys.setprofile(None)
        self.lost = lost
        self._thread = None


class MonitoringWatch:
    """The same through `sys.monitoring` (Python 3.12 on): local events on the watched code only, in every thread."""

    TOOL = 4
    """An id that the standard library leaves to nobody (0 debugger, 1 coverage, 2 profiler, 5 optimizer)."""

    def __init__(self, listeners: Mapping[CodeType, Sequence[Listener]]) -> None:
        self._codes = list(listeners)
        self._listeners = {id(code): listener for code, listener in listeners.items()}
        self.lost = False

    def start(self) -> bool:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]  # from Python 3.12 on
        if monitoring.get_tool(self.TOOL) is not None:
            return False
        monitoring.use_tool_id(self.TOOL, "trueup")
        listeners = self._listeners

        def started(code: CodeType, offset: int) -> None:
            for listener in listeners.get(id(code), ()):
                listener(sys._getframe(1))

        event = monitoring.events.PY_START
        monitoring.register_callback(self.TOOL, event, started)
        for code in self._codes:
            monitoring.set_local_events(self.TOOL, code, event)
        return True

    def stop(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]  # from Python 3.12 on
        if monitoring.get_tool(self.TOOL) != "trueup":
            return
        for code in self._codes:
            monitoring.set_local_events(self.TOOL, code, 0)
        monitoring.register_callback(self.TOOL, monitoring.events.PY_START, None)
        monitoring.free_tool_id(self.TOOL)


def watch(listeners: Mapping[CodeType, Sequence[Listener]]) -> FrameWatch | MonitoringWatch:
    """The cheapest watch this interpreter has."""
    return MonitoringWatch(listeners) if hasattr(sys, "monitoring") else FrameWatch(listeners)


def innermost_code(function: Any) -> CodeType | None:
    """The code object of a function beneath its wrappers, or None for what is no Python function."""
    seen = set()
    while id(function) not in seen:
        seen.add(id(function))
        beneath = getattr(function, "__wrapped__", None)
        if beneath is None:
            beneath = getattr(function, "__func__", None) or getattr(function, "func", None)
        if beneath is None:
            break
        function = beneath
    return getattr(function, "__code__", None)
