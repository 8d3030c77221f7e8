"""How much faster the steps of some runs are than those of others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import Literal

from trueup.schema.fixing import Speed
from trueup.schema.record import Record

RESAMPLES = 1000
FEWEST = 4
"""Late steps of a run below which no interval is told."""
LEAST = 0.02
"""Difference of a ratio from 1 up to which none is told."""

Runs = list[Sequence[float]]
"""Seconds of the late steps of each run."""


def speed(befores: Sequence[Record], afters: Sequence[Record]) -> Speed:
    """Median seconds of the later half of the steps, before over after, with a bootstrap interval of 95 %.

    Runs are drawn, then steps of each: with one run a side, the interval holds within these runs only.
    """
    was, now = _late(befores), _late(afters)
    if not was or not now:
        return Speed(before_s=_median(was) if was else None, after_s=_median(now) if now else None)
    before_s, after_s = _median(was), _median(now)
    ratio = before_s / after_s if after_s else None
    low = high = None
    if ratio is not None and min(map(len, (*was, *now))) >= FEWEST:
        draw = random.Random(0)
        ratios = sorted(_drawn(draw, was) / max(_drawn(draw, now), 1e-9) for _ in range(RESAMPLES))
        low, high = ratios[int(0.025 * RESAMPLES)], ratios[int(0.975 * RESAMPLES) - 1]
    return Speed(ratio=ratio, low=low, high=high, before_s=before_s, after_s=after_s)


def effect(speed: Speed) -> Literal["faster", "slower", "no difference shown", "not measured"]:
    """Whether the whole interval lies beyond the least difference that is told."""
    if speed.low is None or speed.high is None:
        return "not measured"
    if speed.low > 1 + LEAST:
        return "faster"
    return "slower" if speed.high < 1 - LEAST else "no difference shown"


def _late(records: Sequence[Record]) -> Runs:
    every = [record.steps.seconds for record in records]
    return [seconds[len(seconds) // 2 :] for seconds in every if seconds]


def _median(runs: Runs) -> float:
    return median(second for run in runs for second in run)


def _drawn(draw: random.Random, runs: Runs) -> float:
    return _median([draw.choices(run, k=len(run)) for run in draw.choices(runs, k=len(runs))])
