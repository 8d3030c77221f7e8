"""How far the trained parameters have moved since their first step: a few elements of each, in compared runs only."""

from __future__ import annotations

import os
import time
import weakref

from trueup_instrument.observers.samples import parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.clock import Clock
    from trueup_instrument.session import Session

NAME = "drift"
DRIFT = "TRUEUP_DRIFT"
"""Set by a trueup that will compare this run with another one: a plain run pays nothing."""
ELEMENTS = 256
"""Looked at per optimizer, evenly spread over its parameters."""


def attach(session: Session) -> None:
    clock = session.clock
    if DRIFT not in os.environ or clock is None:
        return
    drift = Drift(session, clock)
    clock.before_step.append(session.guarded(NAME, drift.remember))
    clock.on_step.append(session.guarded(NAME, drift.stepped))
    session.after_fork_in_child.append(drift.forget)


class Drift:
    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        self._held: weakref.WeakKeyDictionary[Any, list[tuple[weakref.ref[Any], Any]]] = weakref.WeakKeyDictionary()
        """Optimizer → its parameters, each with the elements that it had before the optimizer's first step."""

    def remember(self, optimizer: Any) -> None:
        if optimizer in self._held:
            return
        began = time.perf_counter()
        tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        seen = tensors[:: max(1, len(tensors) // ELEMENTS)][:ELEMENTS]
        held = [(weakref.ref(tensor), elements(tensor, max(1, ELEMENTS // len(seen)))) for tensor in seen]
        self._held[optimizer] = [(tensor, before) for tensor, before in held if before is not None]
        self._clock.not_my_time(time.perf_counter() - began)

    def stepped(self, step: int, *_: object) -> None:
        """At steps that are powers of two, and at the last one."""
        if step & (step - 1) and step != self._clock.limit:
            return
        began = time.perf_counter()
        changes: list[float] = []
        for held in self._held.values():
            for reference, before in held:
                tensor = reference()
                now = None if tensor is None else elements(tensor, before.numel())
                if now is None or now.shape != before.shape:  # it is held in another way now
                    return
                changes += (now - before).tolist()
        if changes:
            self._session.write("drift", step=step, changes=[float(f"{change:.6g}") for change in changes])
        self._clock.not_my_time(time.perf_counter() - began)


def elements(tensor: Any, number: int) -> Any:
    """Up to `number` elements of what this rank holds of a tensor, evenly spread and copied; None where none can be."""
    held = parameters.local(tensor).detach()
    if not held.is_contiguous() or not held.is_floating_point() or not held.numel():
        return None
    chosen = held.view(-1)[:: max(1, held.numel() // number)][:number]
    return chosen.float() if chosen.element_size() < 4 else chosen.clone()
