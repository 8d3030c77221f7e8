"""Precision: the modules that must compute in low precision for the fault to show."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.asking import latest
from trueup.procedures.bisection.inside.few import Found
from trueup.procedures.bisection.inside.parts import MEMBERS, most, needed_parts, parts_told
from trueup.procedures.bisection.trials import Trials
from trueup.procedures.switched import FULL
from trueup.schema.bisection import Attempt, Narrowed
from trueup.schema.record import Record

MOST = most(256)
"""Runs that the question may cost, in a model of a few hundred modules."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """Halve the modules until the fewest are left in low precision with which it fails, the others in float32."""
    found = needed_parts(trials, base, "precision", "fp32")
    if found is None or not found.parts:
        return  # it comes of what is no module's computation: parameters, gradients, the optimizer
    dtype = low_dtype(latest(trials, base, record))
    told = parts_told(found, f"in {dtype} and all others in float32")
    yield Narrowed(layer="precision", what="modules", answer=_answer(found, dtype), evidence=told)


def low_dtype(record: Record) -> str:
    """The dtype below float32 of most matrix multiplications, else of most parameters."""
    for shares in (record.actual.precision.matmul, record.actual.precision.parameters):
        low = {name: share for name, share in shares.items() if name not in FULL and share}
        if low:
            return max(low, key=lambda name: low[name])
    return "low precision"


def _answer(found: Found, dtype: str) -> str:
    named = ", ".join(found.parts[:MEMBERS])
    if len(found.parts) <= MEMBERS:
        return f"{named} in {dtype}"
    return f"{len(found.parts)} modules in {dtype}: {named}, ..."
