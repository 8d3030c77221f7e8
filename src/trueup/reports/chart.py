"""A line chart of one series per optimizer step, as points for an inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

WIDTH, HEIGHT = 640, 140
MOST_POINTS = 1000


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One series, scaled into a box of WIDTH by HEIGHT units with the lowest value at the bottom."""

    title: str
    lines: tuple[str, ...]
    """`points` attributes of SVG polylines; a step without a value parts two lines, a lone point is drawn twice."""
    low: str
    high: str
    first: int
    last: int
    """Numbers of the first and last step shown."""


def chart(
    title: str,
    values: Sequence[float | None],
    stride: int = 1,
    unit: str = "",
    beside: Sequence[float | None] = (),
) -> Chart | None:
    """The chart of `values`, or None when fewer than two of them are numbers; on one scale with those `beside` it."""
    known = _finite(values)
    if len(known) < 2:
        return None
    shown = [*known, *_finite(beside)]
    low, high = min(shown), max(shown)
    scale = (high - low) or 1.0
    every = math.ceil(len(values) / MOST_POINTS)
    lines: list[list[str]] = [[]]
    for index in range(0, len(values), every):
        value = values[index]
        if value is None or not math.isfinite(value):
            lines.append([])
            continue
        x = index / max(1, len(values) - 1) * WIDTH
        y = HEIGHT - (value - low) / scale * HEIGHT if high > low else HEIGHT / 2
        lines[-1].append(f"{x:.1f},{y:.1f}")
    return Chart(
        title=title,
        lines=tuple(" ".join(points * 2 if len(points) == 1 else points) for points in lines if points),
        low=f"{low:.4g}{unit}",
        high=f"{high:.4g}{unit}",
        first=1,
        last=1 + (len(values) - 1) * stride,
    )


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
