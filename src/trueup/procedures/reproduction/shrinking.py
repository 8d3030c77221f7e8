"""The fewest of a list that still do: delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def fewest(items: Sequence[Item], does: Callable[[list[Item]], bool]) -> list[Item]:
    """A part of `items` that `does`, from which no single one can be left out; `items` must do.

    Halves are left out first, then quarters, and so on: Zeller and Hildebrandt, "Simplifying and isolating
    failure-inducing input" (2002), without the runs of the parts by themselves, which seldom do here.
    """
    kept = list(items)
    size = len(kept)
    while size >= 1 and kept:
        start, before = len(kept), len(kept)
        while start > 0:
            begin = max(0, start - size)
            rest = kept[:begin] + kept[start:]
            if does(rest):
                kept = rest
            start = begin
        if size > 1:
            size = (size + 1) // 2
        elif len(kept) == before:
            break
        size = min(size, max(len(kept), 1))
    return kept
