"""When the model ran without gradients within a sampled step: an evaluation, or another model that only gives targets.

An evaluation lasts from a call of an outermost model with gradients off to the next call of a module with gradients
on, or to the next backward pass. Within the forward of a reentrant checkpoint gradients are off as well, below a call
that had them. A long one, generation for one, is not recorded to its end: each operator takes memory.
"""

from __future__ import annotations

import sys
import time

from trueup_instrument import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener

NAME = "evaluations"

RECORDED = 1_000
"""Calls of modules within an evaluation that are recorded; some 30 kB each."""
WITHOUT_BACKWARD = 200_000
"""Calls with gradients on that no backward pass followed: nothing that trains makes as many."""


class Evaluations:
    def __init__(self, roots: Sequence[Any], pause: Callable[[], object], resume: Callable[[bool], object]) -> None:
        """`pause()` and `resume(whole)` stop the recording and go on; not `whole`: what was to be recorded is past."""
        self._pause = pause
        self._resume = resume
        self._calls = 0
        """Of modules, since the evaluation or, outside of one, the last backward pass began."""
        self._paused = False
        self._began: int | None = None
        """Start of the evaluation that goes on, in nanoseconds of the system's clock."""
        self._ended: list[tuple[int, int]] = []
        self._outermost = {id(layer) for root in roots for layer in _layers(root)}
        self._has_gradients = sys.modules["torch"].is_grad_enabled

    @property
    def going_on(self) -> bool:
        return self._began is not None

    def listeners(self) -> dict[CodeType, Listener]:
        base = sys.modules["torch"].nn.Module
        for name in ("_wrapped_call_impl", "_call_impl"):
            code = getattr(getattr(base, name, None), "__code__", None)
            if code is not None:
                return {code: self._entered}
        return {}

    def _entered(self, frame: FrameType) -> None:
        self._calls += 1
        if self._began is not None:
            if self._has_gradients():
                self._end(time.time_ns())
            elif self._calls == RECORDED:
                self._paused = True
                self._pause()
        elif id(frame.f_locals.get("self")) in self._outermost and not self._has_gradients():
            self._began = time.time_ns()
            self._calls = 0
        elif self._calls == WITHOUT_BACKWARD:
            self._resume(False)

    def backward_ended(self, began: int) -> None:
        """A backward pass that began at this moment is over, and so is whatever began without gradients before it."""
        self._end(began, whole=False)
        self._calls = 0

    def _end(self, moment: int, whole: bool = True) -> None:
        if self._began is not None:
            self._ended.append((self._began, moment))
            self._began = None
            self._calls = 0
            if self._paused:
                self._paused = False
                self._resume(whole)

    def spans(self) -> list[tuple[int, int]]:
        """(start, end) of each evaluation so far."""
        self._end(time.time_ns())
        return self._ended


def _layers(root: Any) -> list[Any]:
    """A model and what stands directly inside the wrappers around it, each of which may be called in its place."""
    bare = modules.bare(root)
    return [root, bare, modules.beneath_adapters(bare)]
