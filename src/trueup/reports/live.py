"""What is said while a job runs: the verdict once it rests on a steady step, and again only when it changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from trueup.reports.plain import plain
from trueup.reports.quantities import count, seconds
from trueup.reports.verdict import verdict
from trueup.schema.record import Record

PROGRESS_EVERY = 30.0
"""Seconds between two progress lines."""


class LiveReport:
    """Called with the record so far, as often as the run likes; writes as little as it can.

    Only whole lines are written. A line that is redrawn in place would erase what the job itself writes to the same
    terminal, and the job's output is its own.
    """

    def __init__(self, stream: TextIO, *, terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._terminal = terminal
        self._clock = clock
        self._said: str | None = None
        self._last_line = float("-inf")

    def __call__(self, record: Record) -> None:
        """Say the verdict if it is new; on a terminal say from time to time how far the job is."""
        steady = any(not sample.compiled_during for sample in record.samples)
        sentence = verdict(record) if steady else None
        if sentence is not None and sentence != self._said:
            self._said = sentence
            self._say(f"trueup: after {count(record.steps.count, 'step')}: {sentence}")
        elif self._terminal and record.steps.count and self._clock() - self._last_line >= PROGRESS_EVERY:
            self._say(progress(record))

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        self._last_line = self._clock()


def progress(record: Record) -> str:
    """Step, time of the last step and its loss, in one line."""
    steps = record.steps
    parts = [f"trueup: step {steps.count}"]
    if steps.seconds:
        parts.append(f"{seconds(steps.seconds[-1])} a step")
    if steps.losses and steps.losses[-1] is not None:
        parts.append(f"loss {steps.losses[-1]:.4g}")
    if record.actual.compile.recompiles:
        parts.append(count(sum(item.count for item in record.actual.compile.recompiles), "recompile"))
    return plain(", ".join(parts))
