"""What within a guilty layer a fault comes from: each file asks the questions about one layer, the cheap ones first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from trueup.procedures.bisection.inside import adapter, attention, checkpointing, data, precision, ranks, sharding
from trueup.procedures.bisection.inside import compile as compiling
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Kind, Narrowed
from trueup.schema.record import Record

Narrow = Callable[[Trials, Attempt, Record], Iterator[Narrowed]]
ALIKE: tuple[Kind, ...] = ("exception", "exit", "hang", "memory", "not finite", "finding", "coverage")
"""Kinds of faults that are the same whatever is trained: no comparison with a control."""
STEADY: tuple[Kind, ...] = ("not finite", "loss", "exception", "memory", "finding")
"""Kinds of faults that are asked of single blocks: those that cost no more time than a run."""
NUMBERS: tuple[Kind, ...] = ("not finite", "loss", "exception")
"""Kinds of faults that may come of the precision of single modules."""


class Question(msgspec.Struct, frozen=True):
    """What can be asked of a job that fails."""

    narrow: Narrow
    most: int
    """Runs that it may cost."""
    layer: str | None = None
    """The guilty layer that it is about; None for those that are asked whatever the layers."""
    kinds: tuple[Kind, ...] | None = None
    """Kinds of faults that it is asked of; None for all."""


QUESTIONS = (
    Question(ranks.narrow, ranks.MOST, kinds=ALIKE),
    Question(sharding.narrow, sharding.MOST, "sharding"),
    Question(attention.narrow, len(attention.ON_GPU) + 2, "attention"),
    Question(compiling.narrow, compiling.MOST, "compile"),
    Question(checkpointing.narrow, checkpointing.MOST, "checkpointing", STEADY),
    Question(adapter.narrow, adapter.MOST, "adapter", STEADY),
    Question(precision.narrow, precision.MOST, "precision", NUMBERS),
    Question(data.narrow, data.BATCHES + data.LENGTHS, kinds=data.IN_A_STEP),
)
"""In the order in which they are asked."""


def descend(trials: Trials, base: Attempt, minimal: tuple[str, ...], record: Record) -> Iterator[Narrowed]:
    """What is known within the layers of `minimal`, each answer as soon as it is there. Raises OutOfRuns.

    `base` is the job with these layers alone, `record` that of the job as it is.
    """
    for question in asked(trials, minimal):
        yield from question.narrow(trials, base, record)


def most_runs(trials: Trials, minimal: tuple[str, ...]) -> int:
    """How many runs all questions may cost together, those of a fault that comes and goes not counted twice."""
    return sum(question.most for question in asked(trials, minimal))


def asked(trials: Trials, minimal: tuple[str, ...]) -> list[Question]:
    """The questions that make sense of this fault and these layers."""
    assert trials.oracle is not None, "nothing is looked for yet"
    kind = trials.oracle.signature.kind
    return [
        each
        for each in QUESTIONS
        if (each.layer is None or each.layer in minimal) and (each.kinds is None or kind in each.kinds)
    ]
