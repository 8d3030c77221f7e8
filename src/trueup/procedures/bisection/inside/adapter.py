"""Adapter: the modules whose adapter must be on."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.parts import most, needed_parts, parts_told
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed
from trueup.schema.record import Record

MOST = most(256)
"""Runs that the question may cost, with a few hundred adapted modules."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """Halve the adapted modules until the fewest are left with which it fails, the others passing through."""
    found = needed_parts(trials, base, "adapter", "off")
    if found is not None and found.parts:
        told = parts_told(found, "adapted")
        yield Narrowed(layer="adapter", what="modules", answer=", ".join(found.parts), evidence=told)
