"""How much faster one run's steps are than another's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

from trueup.schema.fixing import Speed
from trueup.schema.record import Record

RESAMPLES = 1000
FEWEST = 4
"""Late steps below which no interval is told."""


def speed(before: Record, after: Record) -> Speed:
    """Median seconds of the later half of the steps, before over after, with a bootstrap interval of 95 %."""
    was, now = _late(before), _late(after)
    if not was or not now:
        return Speed(before_s=median(was) if was else None, after_s=median(now) if now else None)
    ratio = median(was) / median(now) if median(now) else None
    low = high = None
    if ratio is not None and min(len(was), len(now)) >= FEWEST:
        ratios = sorted(_resampled(was, now))
        low, high = ratios[int(0.025 * RESAMPLES)], ratios[int(0.975 * RESAMPLES) - 1]
    return Speed(ratio=ratio, low=low, high=high, before_s=median(was), after_s=median(now))


def _late(record: Record) -> Sequence[float]:
    seconds = record.steps.seconds
    return seconds[len(seconds) // 2 :]


def _resampled(was: Sequence[float], now: Sequence[float]) -> list[float]:
    draw = random.Random(0)
    return [
        median(draw.choices(was, k=len(was))) / max(median(draw.choices(now, k=len(now))), 1e-9)
        for _ in range(RESAMPLES)
    ]
