"""When the model ran without gradients within a sampled step: an evaluation, or another model that only gives targets.

An evaluation lasts from a call of an outermost model with gradients off to the next call of a module with gradients
on, or to the next backward pass. Within the forward of a reentrant checkpoint gradients are off as well, below a call
that had them.
"""

from __future__ import annotations

import sys
import time

from trueup_instrument import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener

NAME = "evaluations"


class Evaluations:
    def __init__(self, roots: Sequence[Any]) -> None:
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
        if self._began is not None:
            if self._has_gradients():
                self.ended(time.time_ns())
        elif id(frame.f_locals.get("self")) in self._outermost and not self._has_gradients():
            self._began = time.time_ns()

    def ended(self, moment: int) -> None:
        """Whatever began without gradients is over."""
        if self._began is not None:
            self._ended.append((self._began, moment))
            self._began = None

    def spans(self) -> list[tuple[int, int]]:
        """(start, end) of each evaluation so far."""
        self.ended(time.time_ns())
        return self._ended


def _layers(root: Any) -> list[Any]:
    """A model and what stands directly inside the wrappers around it, each of which may be called in its place."""
    bare = modules.bare(root)
    return [root, bare, modules.beneath_adapters(bare)]
