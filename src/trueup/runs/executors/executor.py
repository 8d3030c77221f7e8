"""What every executor can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trueup.runs.executors.task import Task
from trueup.runs.probe import ProbeError
from trueup.schema.record import Record


class ExecutorError(ProbeError):
    """Runs cannot be made there; the message says what to do."""


@dataclass(frozen=True)
class Watch:
    """Whoever waits for the runs."""

    started: Callable[[Task, Sequence[str]], object]
    """A run begins; with what of the working folder could not be kept apart, where that is known already."""
    ended: Callable[[int, Record, Sequence[str]], object]
    """The record of the task with this index, as soon as it is there, and again what could not be kept apart."""
    is_over: Callable[[], bool]
    """Whether somebody asked to end, so that no further run may begin."""


class Executor(Protocol):
    """Makes runs, some side by side."""

    notes: list[str]
    """What went otherwise than planned."""

    @property
    def at_once(self) -> int:
        """Runs that are made side by side at most."""

    def run(self, tasks: Sequence[Task], watch: Watch) -> list[Record]:
        """The records of all tasks, in their order.

        Raises CommandError when the command cannot be started, ProbeError when the working folder cannot be copied or a
        run was lost again and again, KeyboardInterrupt when somebody asked to end; then no process of the runs is left.
        """

    def close(self) -> None:
        """Give back what was taken for the runs."""
