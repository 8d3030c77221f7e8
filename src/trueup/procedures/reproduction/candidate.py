"""What is tried in the search for a reproduction, and what the search is given."""

from __future__ import annotations

from typing import Protocol

import msgspec

from trueup.procedures.bisection.layers import OFF
from trueup.schema.bisection import Outcome

NAME = "repro.py"
"""Of the script."""
LINES = 60
"""A script has fewer."""
WITHOUT = "--without"
"""The option of a script that leaves layers out."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A script and the command that starts it."""

    script: str
    launch: tuple[str, ...]
    alone: bool = True
    """Whether it runs in an empty folder, and not in a copy of the job's."""
    tests: bool = False
    """Whether it ends by an assertion of its own where the fault raises nothing."""
    shows: bool = True
    """Whether the fault shows without trueup."""
    outside: tuple[str, ...] = ()
    """Layers that the script cannot leave out: trueup forces them off."""
    forced: tuple[str, ...] = ()
    """Those of them that it is to force off in this run."""

    def without(self, layer: str) -> Candidate:
        """The same without a layer."""
        if layer in self.outside:
            return msgspec.structs.replace(self, forced=(layer,))
        return msgspec.structs.replace(self, launch=(*self.launch, WITHOUT, layer))

    @property
    def command(self) -> tuple[str, ...]:
        """To be typed; under trueup where only that shows the fault, or leaves a layer out."""
        settings = [word for layer in self.forced for word in ("--set", f"{layer}={OFF[layer]}")]
        observed = ("trueup", "run", *settings, "--") if settings or not self.shows else ()
        return (*observed, *self.launch)


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The text files of the job's folder that a script of it may be made of."""

    command: tuple[str, ...]
    script: str | None = None
    """Which of the files the command starts."""
    files: dict[str, str] = {}
    """Path below the folder → text."""


class Checks(Protocol):
    """Runs candidates, against the signature that is looked for."""

    def observed(self, candidate: Candidate) -> tuple[Outcome, str]:
        """The outcome of a run under observation, and what it showed."""
        ...

    def plain(self, candidate: Candidate) -> tuple[Outcome, str]:
        """The outcome of a run without trueup."""
        ...


class OutOfBudget(Exception):
    """The seconds or the runs for the search are spent."""
