"""Jobs whose records depend on the layers that are on, as a bisect gets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trueup.procedures.bisection.layers import OFF
from trueup.schema.bisection import Attempt
from trueup.schema.finding import Finding
from trueup.schema.record import Applied, Exit, Note, Rank, Record, Steps, unchanged
from trueup.schema.variant import Variant

LOSSES = (5.0, 4.5, 4.2, 4.0, 3.9, 3.85, 3.8, 3.7)
HAS = ("adapter", "precision", "checkpointing", "compile")
"""Layers of the job; it has no other."""


def crashed(error: str, *frames: str) -> Record:
    """A run that one rank ended with this exception."""
    return Record(
        duration_s=3.0,
        exit=Exit(code=1, reason=error.splitlines()[0]),
        ranks=(Rank(rank=0, error=error, frames=frames),),
    )


def well(*findings: Finding, losses: Sequence[float | None] = LOSSES, seconds: float = 0.1) -> Record:
    """A run that ended well."""
    return Record(
        duration_s=3.0,
        exit=Exit(code=0),
        ranks=(Rank(rank=0, trained=True, steps=len(losses)),),
        steps=Steps(count=len(losses), losses=tuple(losses), seconds=tuple(seconds for _ in losses)),
        findings=findings,
    )


def hung() -> Record:
    """A run that its time limit ended."""
    frames = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "step (train.py:36)")
    stack = "\n    ".join(('Thread 1 (idle): "MainThread"', *frames)) + "\n"
    return Record(
        duration_s=10.0,
        exit=Exit(code=124, reason="timeout"),
        ranks=(Rank(rank=0, exit=Exit(reason="timeout"), stack=stack),),
    )


def found(rule: str, *layers: str) -> Finding:
    """A warning."""
    return Finding(
        rule=rule,
        layers=layers,  # type: ignore[arg-type]
        severity="warning",
        confidence="established",
        message="Something is not as asked.",
        cause="It is so.",
    )


class Job:
    """Runs attempts: `shows` says what a run shows with these layers on. Keeps what was asked."""

    def __init__(self, shows: Callable[[frozenset[str]], Record], has: Sequence[str] = HAS) -> None:
        self.asked: list[Attempt] = []
        self.timeouts: list[float | None] = []
        self._shows = shows
        self._has = tuple(has)

    def __call__(self, attempts: Sequence[Attempt], timeout: float | None) -> list[Record]:
        self.asked += attempts
        self.timeouts += [timeout] * len(attempts)
        return [self._record(attempt.variant) for attempt in attempts]

    def _record(self, variant: Variant) -> Record:
        on = frozenset(each for each in self._has if each not in variant.layers)
        order = tuple(Applied(layer=each, event="applied") for each in OFF if each in self._has)  # type: ignore[arg-type]
        idle = (f"--set {each}={value}" for each, value in variant.layers.items() if each not in self._has)
        notes = tuple(Note(what=f"{unchanged(asked)}: the job asks for nothing of this kind") for asked in idle)
        shown = self._shows(on)
        return msgspec.structs.replace(shown, order=order, variant=msgspec.to_builtins(variant), notes=notes)
