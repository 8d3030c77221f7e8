"""The fewest of a list that still do: delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def fewest(items: Sequence[Item], does: Callable[[list[Item]], bool], parts: int = 1) -> list[Item]:
    """A part of `items` that `does`, from which no single one can be left out; `items` must do.

    All are left out first, or one after the other of so many `parts`; then halves of these, and so on: Zeller and
    Hildebrandt, "Simplifying and isolating failure-inducing input" (2002), without the runs of the parts by
    themselves, which seldom do here.
    """
    kept = list(items)
    size = max(len(kept) // parts, 1)
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
