"""All processes of a run: descendants of the command, and whatever else carries its run id in the environment.

torchrun starts its workers in sessions of their own, and orphans get a new parent; the run id finds both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import psutil

from trueup.runs.injection import EVENTS, RUN_ID
from trueup.runs.interpreter import is_python

T = TypeVar("T")


@dataclass
class Sighting:
    """What was seen of one process of the run."""

    pid: int
    command: tuple[str, ...] = ()
    has_events: bool | None = None
    """False when the variables that ask for observation did not arrive (`env -i`); None if unreadable."""
    has_bootstrap: bool | None = None
    """False when its PYTHONPATH had lost trueup's folder; None if unreadable."""
    python_path: str | None = None
    """Its PYTHONPATH; None when it has none, or is unreadable."""
    inherited: float | None = None
    """Share of trueup's own variables that it has, too; None if unreadable."""


class ProcessTree:
    """Finds the processes of one run, remembers their command lines, and can end them all."""

    def __init__(self, root: int, run_id: str, bootstrap: str) -> None:
        self.sightings: list[Sighting] = []
        self._run_id = run_id
        self._bootstrap = bootstrap
        self._members: dict[int, tuple[psutil.Process, Sighting]] = {}
        self._others: set[int] = {os.getpid()}
        self._root = root
        self.look()

    def look(self) -> None:
        """Take notice of new processes. Costs a reading of the process list, and a look into new processes only."""
        present = set(psutil.pids())
        self._others &= present
        for pid in list(self._members):
            process, sighting = self._members[pid]
            if pid not in present:
                del self._members[pid]
            elif not is_python(sighting.command):
                self._describe(process, sighting)  # a shell may have become Python by exec
        found = True
        while found:  # a child may have a lower number than its parent
            found = False
            for pid in sorted(present - self._others - self._members.keys()):
                found = self._examine(pid) or found
        self._others |= present - self._members.keys()

    def alive(self) -> list[psutil.Process]:
        """The processes of the run that still execute, after a fresh look."""
        self.look()
        return [process for process, _ in self._members.values() if is_executing(process)]

    def pythons(self) -> list[psutil.Process]:
        """The Python interpreters among the living."""
        return [process for process in self.alive() if is_python(self._members[process.pid][1].command)]

    def end(self, grace: float) -> None:
        """Ask every process of the run to end, wait `grace` seconds at most, then kill what is left."""
        for process in self.alive():
            _attempt(process.terminate)
        deadline = time.monotonic() + grace
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        deadline = time.monotonic() + grace
        while (left := self.alive()) and time.monotonic() < deadline:
            for process in left:
                _attempt(process.kill)
            time.sleep(0.02)

    def _examine(self, pid: int) -> bool:
        process = _attempt(lambda: psutil.Process(pid))
        if process is None:
            return False
        parent = _attempt(process.ppid)
        variables = _attempt(process.environ) or {}
        if pid == self._root or parent in self._members or variables.get(RUN_ID) == self._run_id:
            sighting = Sighting(pid)
            self.sightings.append(sighting)
            self._members[pid] = (process, sighting)
            self._describe(process, sighting)
            return True
        return False

    def _describe(self, process: psutil.Process, sighting: Sighting) -> None:
        command = _attempt(process.cmdline)
        if command:
            sighting.command = tuple(command)
        variables = _attempt(process.environ)
        if variables is not None:
            sighting.has_events = EVENTS in variables
            sighting.python_path = variables.get("PYTHONPATH")
            sighting.has_bootstrap = self._bootstrap in (sighting.python_path or "").split(os.pathsep)
            sighting.inherited = sum(name in variables for name in os.environ) / max(len(os.environ), 1)


def is_executing(process: psutil.Process) -> bool:
    """False for a process that has ended, also when its parent has not noticed yet."""
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _attempt(question: Callable[[], T]) -> T | None:
    """The answer, or None when the process is gone or not ours to ask."""
    try:
        return question()
    except (psutil.Error, OSError):
        return None
