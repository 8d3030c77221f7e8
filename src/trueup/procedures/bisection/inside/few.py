"""The few parts of many that a fault needs, in no more tries than are worth it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trueup.procedures.bisection.inside.halving import needed
from trueup.schema.bisection import Outcome

Probe = Callable[[tuple[str, ...]], Outcome]
"""The outcome of a run in which these parts are on and all others off."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Parts with which alone it fails."""

    parts: tuple[str, ...]
    settled: bool
    """Whether none of them can be left out, as far as was asked."""
    tries: int
    odd: int = 0
    """Tries that ended otherwise than the fault."""


class _Enough(Exception):
    pass


def few(parts: Sequence[str], probe: Probe, most: int) -> Found:
    """A smallest choice of `parts`, which fail together, that fails without the others, after `most` tries at most.

    When the tries are used up, or too many end otherwise, it is the smallest choice that was seen to fail.
    """
    smallest, tries, odd = tuple(parts), 0, 0

    def counted(chosen: tuple[str, ...]) -> Outcome:
        nonlocal smallest, tries, odd
        if tries == most:
            raise _Enough
        tries += 1
        outcome = probe(chosen)
        odd += outcome == "unresolved"
        if outcome == "fails" and len(chosen) < len(smallest):
            smallest = chosen
        return outcome

    try:
        found = needed(parts, counted)
    except _Enough:
        found = None
    chosen = smallest if found is None else found
    ordered = tuple(each for each in parts if each in chosen)
    return Found(parts=ordered, settled=found is not None, tries=tries, odd=odd)
