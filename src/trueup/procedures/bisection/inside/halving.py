"""Where a fault begins, in a row of things that can be left out: by halves, since each question is a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from trueup.schema.bisection import Outcome

T = TypeVar("T")

BESIDE = 4
"""Places that are tried in the stead of one that ends otherwise."""


def first(low: int, high: int, probe: Callable[[int], Outcome]) -> tuple[int, int]:
    """The last number that passes and the first that fails, between `low`, which passes, and `high`, which fails.

    They are neighbours, unless what lies between them ends otherwise.
    """
    odd: set[int] = set()
    while True:
        middle = (low + high) // 2
        between = [each for each in range(low + 1, high) if each not in odd]
        if not between or len(odd) > BESIDE:
            return low, high
        place = min(between, key=lambda each: abs(each - middle))
        outcome = probe(place)
        if outcome == "fails":
            high = place
        elif outcome == "passes":
            low = place
        else:
            odd.add(place)


def needed(items: Sequence[T], probe: Callable[[tuple[T, ...]], Outcome]) -> tuple[T, ...] | None:
    """A smallest choice of `items`, which fail together, that fails without the others, in their order.

    None when runs that end otherwise leave it open. Takes log2 of their number of runs for each that is needed.
    """
    kept: list[T] = []
    rest = list(items)
    while rest:
        before = tuple(kept)
        low, high = first(0, len(rest), lambda count, before=before, rest=rest: probe((*before, *rest[:count])))  # type: ignore[misc]
        if high - low > 1:
            return None
        kept.append(rest[low])
        rest = rest[:low]
        if rest and probe(tuple(kept)) == "fails":
            break
    return tuple(each for each in items if each in kept)
