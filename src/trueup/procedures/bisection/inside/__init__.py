"""What within a guilty layer a fault comes from."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed
from trueup.schema.record import Record


def descend(trials: Trials, base: Attempt, minimal: tuple[str, ...], record: Record) -> Iterator[Narrowed]:
    """Nothing yet."""
    yield from ()
