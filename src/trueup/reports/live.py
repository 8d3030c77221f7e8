"""What is said while a job runs: the verdict once it rests on a steady step, and again only when it changes."""

from __future__ import annotations

import threading
from typing import TextIO

from trueup.reports.plain import plain
from trueup.reports.quantities import count, seconds
from trueup.reports.verdict import verdict
from trueup.schema.record import Record

CLEAR_LINE = "\r\x1b[2K"


class LiveReport:
    """Called with the record so far, as often as the run likes; writes as little as it can.

    `clear` may be called from another thread, by whatever is about to write to the same terminal.
    """

    def __init__(self, stream: TextIO, *, terminal: bool, columns: int = 80) -> None:
        self._stream = stream
        self._terminal = terminal
        self._columns = columns
        self._said: str | None = None
        self._progress_shown = False
        self._writing = threading.RLock()

    def __call__(self, record: Record) -> None:
        """Say the verdict if it is new; on a terminal, renew the progress line."""
        with self._writing:
            if any(not sample.compiled_during for sample in record.samples):
                sentence = verdict(record)
                if sentence != self._said:
                    self.clear()
                    self._stream.write(f"trueup: after {count(record.steps.count, 'step')}: {sentence}\n")
                    self._said = sentence
            if self._terminal and record.steps.count:
                line = progress(record)[: self._columns - 1]
                self._stream.write(f"{CLEAR_LINE}{line}")
                self._progress_shown = True
            self._stream.flush()

    def clear(self) -> None:
        """Remove the progress line, before anything else is written to the terminal."""
        with self._writing:
            if self._progress_shown:
                self._stream.write(CLEAR_LINE)
                self._stream.flush()
                self._progress_shown = False


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
