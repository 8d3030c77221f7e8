"""Horizontal bars of times, as geometry for an inline SVG."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

WIDTH, ROW = 640, 26
LABELS = 190
"""Units at the left for the names."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One row: parts that follow each other from zero on, and the interval around their end."""

    label: str
    parts: tuple[tuple[float, float], ...]
    """(start, width) in units of the SVG."""
    low: float
    high: float
    y: float
    said: str


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[Bar, ...]
    line: float | None
    """Where the least time stands."""
    height: int
    most: str


def bars(
    rows: Sequence[tuple[str, Sequence[float], float, float, str]], least: float | None, most: str, highest: float
) -> Bars:
    """Of (label, seconds that add up, low, high, what is said beside it); `highest` is the end of the scale."""
    scale = (WIDTH - LABELS - 90) / (highest or 1.0)

    def place(value: float) -> float:
        return round(LABELS + value * scale, 1)

    made = []
    for number, (label, seconds, low, high, said) in enumerate(rows):
        parts, start = [], 0.0
        for value in seconds:
            parts.append((place(start), round(value * scale, 1)))
            start += value
        made.append(
            Bar(label=label, parts=tuple(parts), low=place(low), high=place(high), y=number * ROW + 4, said=said)
        )
    line = None if least is None else place(least)
    return Bars(rows=tuple(made), line=line, height=len(rows) * ROW + 22, most=most)
