"""Checkpointing: the implementation with which it fails, and the blocks that must be run again."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.asking import forced, latest, outcome
from trueup.procedures.bisection.inside.parts import most, needed_parts, parts_told
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed
from trueup.schema.record import Record

IMPLEMENTATIONS = (("non_reentrant", "reentrant"), ("reentrant", "non_reentrant"))
"""(that of the job, the other one), by whether the job's is reentrant."""
MOST = len(IMPLEMENTATIONS) + most(64)
"""Runs that the questions may cost, with some tens of blocks."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """The other implementation; then the blocks."""
    was = latest(trials, base, record).actual.checkpointing.reentrant
    for own, other in IMPLEMENTATIONS if was is None else IMPLEMENTATIONS[was:][:1]:
        found = outcome(trials, forced(base, "checkpointing", other), "checkpointing")
        if found != "unresolved":
            answer = f"the {own.replace('_', '-')} one" if found == "passes" else "either"
            told = f"fails with the {own.replace('_', '-')} one, {found} with checkpointing={other}"
            yield Narrowed(layer="checkpointing", what="implementation", answer=answer, evidence=told)
            break
    blocks = needed_parts(trials, base, "checkpointing", "off")
    if blocks is not None and blocks.parts:
        told = parts_told(blocks, "checkpointed")
        yield Narrowed(layer="checkpointing", what="blocks", answer=", ".join(blocks.parts), evidence=told)
