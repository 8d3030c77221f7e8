"""Counts optimizer steps and backward passes of this process and tells those who listen where the boundaries are.

Gradient accumulation makes one step of many backward passes; several optimizers make one step in turn. Only one thread
is listened to, the first that trains: several at once would mix their steps, and gradients are not to be read while
another thread writes them.
"""

from __future__ import annotations

import threading
import time

from trueup_instrument.turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class StepsReached(SystemExit):
    """The run was asked to end after N optimizer steps. A SystemExit of code 0: finalizers and `finally` blocks run."""


class Clock:
    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.steps = 0
        self.optimizer_steps = 0
        """Of all optimizers together."""
        self.backwards = 0
        """Backward passes since the last step."""
        self.in_backward = 0
        self.started = time.perf_counter()
        self.on_step: list[Callable[[int, float, int], object]] = []
        """Called with (number of the step that just ended, its seconds, its backward passes)."""
        self.on_backward: list[Callable[[Any], object]] = []
        """Called with the roots of a backward pass, before it runs."""
        self.after_backward: list[Callable[[int, int], object]] = []
        """Called with (start, end) of an outermost backward pass in nanoseconds of the system's clock."""
        self.before_step: list[Callable[[Any], object]] = []
        """Called with the optimizer, before each optimizer step."""
        self.on_limit: list[Callable[[], object]] = []
        """Called before StepsReached is raised."""
        self.beyond_limit: list[Callable[[], object]] = []
        """Called when another optimizer step is about to begin although StepsReached was raised."""
        self.stepped_unseen: Callable[[], bool | None] = lambda: False
        """Asked before a backward pass and at the end: was there an optimizer step since the last one, without a hook?
        A compiled optimizer step calls none."""
        self.on_discard: list[Callable[[], object]] = []
        """Called when the backward passes since the last step belong to no step that is still to end."""
        self.turns = Turns(lambda: ())
        self.on_other_thread: list[Callable[[], object]] = []
        """Called once, when a second thread trains while the first is alive."""
        self._owner: threading.Thread | None = None
        self.has_other_threads = False
        """A second thread has trained while the first was alive."""

    def _is_another_thread(self) -> bool:
        """Whether this is not the thread that is listened to; one that has ended hands over to the next that trains."""
        owner = self._owner
        if owner is not None and owner.ident == threading.get_ident():
            return False
        if owner is None or not owner.is_alive():
            self._owner = threading.current_thread()
            return False
        if not self.has_other_threads:
            self.has_other_threads = True
            for listener in self.on_other_thread:
                listener()
        return True

    def optimizer_will_step(self, optimizer: Any) -> None:
        listener: Callable[..., object]
        if self._is_another_thread():
            return
        if self.limit is not None and self.steps >= self.limit:
            for listener in self.beyond_limit:
                listener()
        if self.turns.is_next(optimizer, self.steps):
            self._end_step()
        for listener in self.before_step:
            listener(optimizer)

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Count it, and end the step if this was the last optimizer to make it. Raises StepsReached at the limit."""
        if self._is_another_thread():
            return
        self.optimizer_steps += 1
        if self.turns.is_late(optimizer, self.steps):
            self.discard()
        if self.turns.stepped(optimizer, self.steps):
            self._end_step()

    def step_of(self, optimizer: Any) -> int:
        """The number of the step that `optimizer` is about to make or to take part in."""
        return self.steps + (not self.turns.is_late(optimizer, self.steps))

    def discard(self) -> None:
        """The backward passes since the last step made none: the loss scale overflowed, or their step has ended."""
        self.backwards = 0
        for listener in self.on_discard:
            listener()

    def _end_step(self) -> None:
        listener: Callable[..., object]
        now = time.perf_counter()
        made = self.steps + 1
        seconds, self.started = now - self.started, now
        self.steps = made
        self.turns.ended(made)
        backwards, self.backwards = self.backwards, 0
        for listener in self.on_step:
            listener(made, seconds, backwards)
        if self.limit is not None and made >= self.limit:
            for listener in self.on_limit:
                listener()
            raise StepsReached(0)

    def look_for_unseen_step(self) -> None:
        """End the step if an optimizer has stepped without calling hooks. Raises StepsReached at the limit."""
        if self.backwards and not self.in_backward and self.stepped_unseen():
            self._end_step()

    def finish(self) -> None:
        """The process ends: it is too late to end it early, and no other optimizer's turn will come."""
        self.limit = None
        self.look_for_unseen_step()
        if self.turns.is_open(self.steps):
            self._end_step()

    def backward_begins(self, roots: Any) -> None:
        if self._is_another_thread():
            return
        self.look_for_unseen_step()
        self.in_backward += 1
        if self.in_backward > 1:  # a backward pass inside one: reentrant checkpointing recomputes this way
            return
        self.backwards += 1
        self._backward_began = time.time_ns()
        for listener in self.on_backward:
            listener(roots)

    def backward_ends(self) -> None:
        if self._is_another_thread():
            return
        self.in_backward -= 1
        if self.in_backward == 0:
            for listener in self.after_backward:
                listener(self._backward_began, time.time_ns())

    def not_my_time(self, seconds: float) -> None:
        """Leave `seconds` that observation took out of the current step."""
        self.started += seconds

    def forget(self) -> None:
        """In a forked child: nothing was counted here."""
        self._owner = None
        self.steps = self.backwards = self.in_backward = 0
        self.started = time.perf_counter()
        self.turns.forget()
