"""Which optimizers' steps make up one step of the run: a GAN's two, or one for each parameter, step in turn."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class Turns:
    """A step ends when every optimizer that made the last one has stepped again, or when one would step twice in it."""

    def __init__(self, live: Callable[[], Iterable[Any]]) -> None:
        self._live = live
        """A function that gives the optimizers there are."""
        self.forget()

    def forget(self) -> None:
        """No optimizer has stepped yet."""
        self._counts: dict[int, int] = {}
        """id(optimizer) → how often it has stepped, of those that are alive."""
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._first: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers that were there when the first step ended: their turn in it may have been still to come."""
        self._awaited: set[int] = set()

    def is_next(self, optimizer: Any, steps: int) -> bool:
        """Whether `optimizer`, about to step, has stepped already since step number `steps` ended."""
        return self._made(optimizer, steps) > steps

    def is_late(self, optimizer: Any, steps: int) -> bool:
        """Whether the step that `optimizer` is about to make belongs to step number `steps`, which has ended."""
        return self._made(optimizer, steps) + 1 == steps

    def stepped(self, optimizer: Any, steps: int) -> bool:
        """Count a step of `optimizer` after step number `steps`; returns True when it ends the next one."""
        key = id(optimizer)
        made = self._made(optimizer, steps) + 1
        if key not in self._alive:
            self._alive[key] = weakref.ref(optimizer, self._died)
        self._counts[key] = made
        if made > steps:
            self._awaited.discard(key)
        elif made == steps:
            self._awaited.add(key)
        return made > steps and not self._awaited

    def _made(self, optimizer: Any, steps: int) -> int:
        """How often an optimizer has stepped; one that came later is counted as if it always had."""
        made = self._counts.get(id(optimizer))
        if made is None:
            made = 0 if steps == 1 and optimizer in self._first else steps
        return made

    def ended(self, steps: int) -> None:
        """Step number `steps` has ended. Optimizers that took no part in it are not waited for any more."""
        if steps == 1:
            self._first = weakref.WeakSet(self._live())
        self._awaited = {key for key, made in list(self._counts.items()) if made == steps}

    def is_open(self, steps: int) -> bool:
        """Whether some optimizer has stepped since step number `steps` ended."""
        return any(made > steps for made in list(self._counts.values()))

    def _died(self, reference: weakref.ref[Any]) -> None:
        """Another optimizer may get the id of this one."""
        for key, held in list(self._alive.items()):
            if held is reference:
                del self._alive[key], self._counts[key]
