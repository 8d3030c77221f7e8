"""Look closely at one step: which Python functions ran, which operators and kernels, and what the step changed.

A sample spans from the end of one optimizer step to the end of the next. Its observers, in `observers/samples/`, each
see the step through one window (frames, operators, parameters) and add their part to one `sample` event.
"""

from __future__ import annotations

import threading
import time
import weakref

from trueup_instrument import evaluations, frames, modules, operators, recorder
from trueup_instrument.observers import samples
from trueup_instrument.schedule import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType
    from typing import Any, ParamSpec, TypeVar

    from trueup_instrument.clock import Clock
    from trueup_instrument.frames import Listener
    from trueup_instrument.session import Session

    P = ParamSpec("P")
    R = TypeVar("R")

BACKWARDS_SEEN = 8


class Sampler:
    """Starts and ends samples at step boundaries, as `Schedule` says."""

    def __init__(self, session: Session, clock: Clock, limit: int | None) -> None:
        self.session = session
        self.clock = clock
        self.schedule = Schedule(limit)
        self.sample: Sample | None = None
        self._described: dict[str, Any] | None = None
        self._compiles_seen = 0
        self._told_why_not = False

    def step_ended(self, step: int, length: int | None) -> None:
        """At each step's end: close the sample that spanned it, and open the next one if it is due."""
        if threading.current_thread() is not threading.main_thread():
            self._tell_why_not()
            return
        if self.sample is not None and not self.sample.is_here():
            return  # another thread trains as well
        began = time.perf_counter()
        compiles = self.session.compile_activity
        quiet = compiles == self._compiles_seen
        if not quiet:
            self.schedule.compiled()
        self._compiles_seen = compiles
        worked = self.sample is not None
        if self.sample is not None:
            self._close(step, quiet, length)
        if self.schedule.next_is_sampled(step, quiet, length):
            self.sample = Sample(self.session, self.clock)
            worked = True
        if worked:
            self.clock.not_my_time(time.perf_counter() - began)

    def _tell_why_not(self) -> None:
        """torch's profiler outlives the thread it was started in, which may end within a sample and then crash."""
        if not self._told_why_not:
            self._told_why_not = True
            reason = "the job trains in a thread other than the main one: its steps are counted, not sampled"
            self.session.write("observer-off", observer="sampling", error=reason)

    def before_optimizer(self, optimizer: Any) -> None:
        """The gradients are complete: the moment to look at them."""
        sample = self.sample
        if sample is not None:
            if sample.is_here():
                sample.gradients_ready(optimizer)
        elif self.clock.steps < samples.gradients.FIRST_STEPS:
            self.session.guarded("gradients", samples.gradients.norm_event)(
                self.session, optimizer, self.clock.step_of(optimizer)
            )

    def after_backward(self, began: int, ended: int) -> None:
        sample = self.sample
        if sample is not None and sample.is_here():
            sample.backward_ended(began, ended)

    def before_fork(self) -> None:
        """The child is to inherit nothing that is switched on."""
        if self.sample is not None:
            self.sample.pause()

    def after_fork(self) -> None:
        if self.sample is not None:
            self.sample.resume()

    def forget(self) -> None:
        """In a forked child: its parent's sample is not its own."""
        self.sample = None
        self.schedule = Schedule(self.clock.limit)
        self._described = None

    def finish(self) -> None:
        """The process ends: leave nothing switched on, and describe a model that no sample has described."""
        if self.sample is not None:
            self.sample.abandon()
            self.sample = None
        if self._described is None and self.session.trained:
            self._describe()

    def _close(self, step: int, quiet: bool, length: int | None) -> None:
        sample: Sample
        sample, self.sample = self.sample, None  # type: ignore[assignment]  # called while there is one
        fields = sample.close()
        self.schedule.sampled(step, quiet, length)
        self._describe()
        self.session.write(
            "sample",
            step=step,
            seconds=round(sample.seconds, 6),
            compiled_during=not quiet,
            sequence_length=length or sample.sequence_length(),
            **fields,
        )

    def _describe(self) -> None:
        """Write what the model is, when it is not what was written last."""
        description = self.session.guarded("model", samples.model.describe)(self.session)
        if description is not None and description != self._described:
            self._described = description
            self.session.write("model", **description)


class Sample:
    """One step under observation. Creating it starts the windows; `close` ends them and gives the event's fields."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self.session = session
        self.clock = clock
        live = modules.live_modules()
        roots = modules.roots_of(live)
        self._live = [weakref.ref(module) for module in live]
        self._roots = [weakref.ref(root) for root in roots]
        self.backwards: list[tuple[int, int]] = []
        """(start, end) of each backward pass, nanoseconds."""
        self.recorder = recorder.Recorder()
        self.recording: bool | None = False
        self.evaluations = evaluations.Evaluations(roots, self._pause_recording, self._resume_recording)
        self.windows: list[tuple[str, Any]] = []
        for part in samples.PARTS:
            window = self._guard(part.NAME, part.Window)(self)
            if window is not None:
                self.windows.append((part.NAME, window))
        listeners: dict[CodeType, list[Listener]] = {}
        for code, listener in (self._guard(evaluations.NAME, self.evaluations.listeners)() or {}).items():
            listeners[code] = [self._guard(evaluations.NAME, listener)]
        for name, window in self.windows:
            if hasattr(window, "listeners"):
                for code, listener in (self._guard(name, window.listeners)() or {}).items():
                    listeners.setdefault(code, []).append(self._guard(name, listener))
        self.watch = frames.watch(listeners)
        self.watching = self._guard("frames", self.watch.start)()
        self.ended = False
        self.recording = self._guard("operators", self.recorder.start)()
        self.thread = threading.get_ident()
        self.started = time.perf_counter()
        self.seconds = 0.0
        self.operators = operators.Operators([])

    @property
    def live(self) -> Sequence[Any]:
        """The modules that were there when the sample began and still are: it keeps none alive."""
        return _still_there(self._live)

    @property
    def roots(self) -> Sequence[Any]:
        """Those of `live` that own parameters and are no part of another one."""
        return _still_there(self._roots)

    def is_here(self) -> bool:
        """Whether this is the thread whose step is looked at."""
        return self.thread == threading.get_ident()

    def gradients_ready(self, optimizer: Any) -> None:
        began = time.perf_counter()
        for name, window in self.windows:
            if hasattr(window, "gradients_ready"):
                self._guard(name, window.gradients_ready)(optimizer)
        self.started += time.perf_counter() - began

    def backward_ended(self, began: int, ended: int) -> None:
        """Gradient accumulation may make a step of hundreds of backward passes: after a few, enough was seen."""
        self.backwards.append((began, ended))
        self.evaluations.backward_ended(began)
        if len(self.backwards) == BACKWARDS_SEEN:
            self.abandon()

    def pause(self) -> None:
        """Switch everything off until `resume`."""
        if self.ended or not self.is_here():
            return
        if self.watching:
            self._guard("frames", self.watch.stop)()
        if self.recording:
            self._guard("operators", self.recorder.pause)()

    def resume(self) -> None:
        if self.ended or not self.is_here():
            return
        if self.watching:
            self.watching = self._guard("frames", self.watch.start)()
        if self.recording:
            self._guard("operators", self.recorder.resume)()

    def close(self) -> dict[str, Any]:
        self.seconds = time.perf_counter() - self.started
        self.abandon()
        if self.recording:
            seen = self._guard("operators", self.recorder.read)([*self.backwards, *self.evaluations.spans()])
            self.recording = seen is not None
            self.operators = seen or self.operators
        self.watching = self.watching and not self.watch.lost
        fields = {"watched": bool(self.watching), "recorded": bool(self.recording)}
        for name, window in self.windows:
            part = self._guard(name, window.fields)()
            if part is not None:
                fields.update(part)
        return fields

    def abandon(self) -> None:
        """Switch everything off, whatever state it is in."""
        self.ended = True
        if self.watching:
            self._guard("frames", self.watch.stop)()
        if self.recording:
            self._guard("operators", self.recorder.stop)()

    def _pause_recording(self) -> None:
        """What follows, for as long as it lasts, is to take no memory."""
        if self.recording and not self.ended:
            self._guard("operators", self.recorder.pause)()

    def _resume_recording(self, whole: bool) -> None:
        """Training goes on, or has gone on already: then the record is not whole."""
        if self.recording and not self.ended:
            self._guard("operators", self.recorder.resume if whole else self.recorder.give_way)()

    def sequence_length(self) -> int | None:
        return self.operators.sequence_length()

    def _guard(self, name: str, function: Callable[P, R]) -> Callable[P, R | None]:
        return self.session.guarded(name, function)


def _still_there(references: Sequence[weakref.ref[Any]]) -> list[Any]:
    return [thing for reference in references if (thing := reference()) is not None]
