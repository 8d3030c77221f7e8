"""The median of timings, with the interval in which it lies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trueup.schema.attention_bench import Timing

CONFIDENCE = 0.95


def timing(samples: Sequence[float]) -> Timing:
    """By order statistics, for which the times need no known distribution; below six samples it is their range."""
    ordered = sorted(samples)
    number = len(ordered)
    middle = number // 2
    median = ordered[middle] if number % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    rank = _rank(number)
    return Timing(median=median, low=ordered[rank], high=ordered[number - 1 - rank], samples=number)


def _rank(number: int) -> int:
    """The largest r so that the median lies between the r-th lowest and highest sample with CONFIDENCE."""
    rank, outside = 0, 0.0
    while rank < (number - 1) // 2:
        outside += math.comb(number, rank) / 2**number
        if 2 * outside > 1 - CONFIDENCE:
            break
        rank += 1
    return max(0, rank - 1)
