"""The parts of a layer that must be on for a fault to show: modules in low precision, units of FSDP."""

from __future__ import annotations

import math

from trueup.procedures.bisection.inside.asking import forced, outcome
from trueup.procedures.bisection.inside.few import Found, few
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Outcome

NONE = "none"
"""Name of no part: all are as the job has them, and the run tells what they are called."""
MEMBERS = 3
"""Parts that a set has at most; more are the layer itself."""
LONGEST = 100_000
"""Characters of a variable."""


def most(parts: int) -> int:
    """Runs that the question may cost where there are so many parts."""
    return 2 + MEMBERS * (math.ceil(math.log2(max(parts, 2))) + 1)


def needed_parts(trials: Trials, base: Attempt, layer: str, off: str) -> Found | None:
    """The parts of `layer` with which alone it fails, the others forced to `off`: none where it fails without any.

    None where the layer tells no parts, or to switch them one by one hides the fault. Raises OutOfRuns.
    """
    as_it_is = forced(base, layer, f"{off}:{NONE}")
    if trials.settled(as_it_is) != "fails":
        return None
    names = trials.records(as_it_is)[-1].parts.get(layer, ())
    if len(names) < 2 or len(",".join(names)) > LONGEST:
        return None

    def on(chosen: tuple[str, ...]) -> Outcome:
        return outcome(trials, with_parts(base, layer, off, names, chosen), layer)

    without_any = on(())
    if without_any == "fails":
        return Found(parts=(), settled=True, tries=2)
    if without_any == "unresolved":
        return None
    return few(names, on, most(len(names)) - 2)


def with_parts(base: Attempt, layer: str, off: str, names: tuple[str, ...], on: tuple[str, ...]) -> Attempt:
    """`base` with all parts but those of `on` forced to `off`."""
    others = [name for name in names if name not in on]
    return forced(base, layer, f"{off}:{','.join(others or [NONE])}")


def parts_told(found: Found, on: str) -> str:
    """What was seen of the parts that are needed; `on` is what they are then: `sharded`, `adapted`."""
    several = len(found.parts) > 1
    told = f"fails when {'these alone are' if several else 'this one alone is'} {on}"
    told += f", passes without {'each of them' if several else 'it'}" if found.settled else "; fewer were not tried"
    odd = f", {found.odd} ended otherwise" if found.odd else ""
    return f"{told} ({found.tries} variants{odd})"
