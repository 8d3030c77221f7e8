"""Paired ratios: how much longer one side takes, measured side by side so that a noisy machine cancels out."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable


def interleaved(left: Callable[[], float], right: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Measure `left` and `right` in `pairs` pairs, the order within a pair alternating (ABBA)."""
    measured = []
    for number in range(pairs):
        if number % 2:
            second, first = right(), left()
            measured.append((first, second))
        else:
            first, second = left(), right()
            measured.append((first, second))
    return measured


def ratio(pairs: list[tuple[float, float]], resamples: int = 4000) -> tuple[float, float, float]:
    """Median of left/right over the pairs, with a bootstrap 95 % interval."""
    ratios = [left / right for left, right in pairs]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(resamples))
    return statistics.median(ratios), medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]
