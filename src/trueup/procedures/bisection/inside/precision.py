"""Precision: the modules that must compute in low precision for the fault to show."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trueup.procedures.bisection.inside.asking import forced, latest, outcome
from trueup.procedures.bisection.inside.few import Found, few
from trueup.procedures.bisection.trials import Trials
from trueup.procedures.switched import FULL
from trueup.schema.bisection import Attempt, Narrowed, Outcome
from trueup.schema.record import Record

NONE = "none"
"""Name of no module: all compute as the job has them, and the run tells what they are called."""
MEMBERS = 3
"""Modules that a set has at most; more are precision itself."""
LONGEST = 100_000
"""Characters of a variable."""


def most(parts: int) -> int:
    """Runs that the question may cost, in a model of so many modules."""
    return 2 + MEMBERS * (math.ceil(math.log2(max(parts, 2))) + 1)


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """Halve the modules until the fewest are left in low precision with which it fails, the others in float32."""
    as_it_is = forced(base, "precision", f"fp32:{NONE}")
    if trials.settled(as_it_is) != "fails":
        return  # to run the modules one by one hides it
    names = trials.records(as_it_is)[-1].parts.get("precision", ())
    if len(names) < 2 or len(",".join(names)) > LONGEST:
        return

    def low(chosen: tuple[str, ...]) -> Outcome:
        return outcome(trials, in_float32(base, names, chosen), "precision")

    if low(()) != "passes":
        return  # it comes of what is no module's computation: parameters, gradients, the optimizer
    found = few(names, low, most(len(names)) - 2)
    dtype = low_dtype(latest(trials, base, record))
    yield Narrowed(layer="precision", what="modules", answer=_answer(found, dtype), evidence=_evidence(found, dtype))


def in_float32(base: Attempt, names: tuple[str, ...], low: tuple[str, ...]) -> Attempt:
    """`base` with all modules but those of `low` in float32."""
    wide = [name for name in names if name not in low]
    return forced(base, "precision", f"fp32:{','.join(wide or [NONE])}")


def low_dtype(record: Record) -> str:
    """The dtype below float32 of most matrix multiplications, else of most parameters."""
    for shares in (record.actual.precision.matmul, record.actual.precision.parameters):
        low = {name: share for name, share in shares.items() if name not in FULL and share}
        if low:
            return max(low, key=lambda name: low[name])
    return "low precision"


def _answer(found: Found, dtype: str) -> str:
    named = ", ".join(found.parts[:MEMBERS])
    if found.settled:
        return f"{named} in {dtype}"
    return f"{len(found.parts)} modules in {dtype}, fewer were not tried: {named}, ..."


def _evidence(found: Found, dtype: str) -> str:
    several = "without each of them" if len(found.parts) > 1 else "with all modules in float32"
    told = f"fails with {'these' if len(found.parts) > 1 else 'this one'} in {dtype} and all others in float32"
    if found.settled:
        told += f", passes {several}"
    ended = f"; {found.odd} ended otherwise" if found.odd else ""
    return f"{told} ({found.tries} variants{ended})"
