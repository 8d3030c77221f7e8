"""Checkpointing: the implementation with which it fails, and the blocks that must be run again."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.asking import forced, latest, outcome
from trueup.procedures.bisection.inside.parts import most, needed_parts, parts_told
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed
from trueup.schema.record import Record

MOST = 1 + most(64)
"""Runs that the questions may cost, with some tens of blocks."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """The other implementation; then the blocks."""
    was = latest(trials, base, record).actual.checkpointing.reentrant
    if was is None:
        was = record.actual.checkpointing.reentrant
    if was is not None:
        own, other = ("reentrant", "non_reentrant") if was else ("non_reentrant", "reentrant")
        found = outcome(trials, forced(base, "checkpointing", other), "checkpointing")
        if found != "unresolved":
            answer = f"the {own.replace('_', '-')} one" if found == "passes" else "either"
            evidence = f"fails with use_reentrant={was}, {found} with {not was}"
            yield Narrowed(layer="checkpointing", what="implementation", answer=answer, evidence=evidence)
    blocks = needed_parts(trials, base, "checkpointing", "off")
    if blocks is not None and blocks.parts:
        told = parts_told(blocks, "checkpointed")
        yield Narrowed(layer="checkpointing", what="blocks", answer=", ".join(blocks.parts), evidence=told)
