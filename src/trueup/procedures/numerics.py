"""Do two runs compute the same: losses, gradient norms and the drift of parameters, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trueup.rules.rank_ends import steps_together
from trueup.schema.fixing import Numerics
from trueup.schema.record import Record

SAME = 1e-6
"""Relative difference up to which no second run of the job is needed to tell that nothing has changed."""
TOLERANCE = {"float32": 1e-4, "float64": 1e-6, "bfloat16": 2e-3, "float16": 1e-3}
"""Relative difference of a loss that another order of the same operations makes in the first step, by the lowest dtype
of the multiplications. Training carries it on from step to step. Jobs in float64 have losses in float32, too."""
GROWTH = 0.5
"""Share by which the tolerance grows with each step."""
NORM = 10.0
"""A gradient norm may differ by so many times as much as a loss: no mean over tokens evens it out."""
NOISE = 3.0
"""How many times the difference between two runs of the same job is still its own noise."""


SMALL = 0.01
"""Share of the largest loss to which a smaller one's difference is relative: a loss near zero is all rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Relative differences of one step; None for what not both runs know, infinite where only one is a number."""

    loss: float | None = None
    norm: float | None = None
    drift: float | None = None
    """Distance between the changes of the same parameters since the first step, relative to how far the first moved."""


def by_step(one: Record, other: Record) -> dict[int, Difference]:
    """{number of the step, from 1: what differs} for the steps of which both runs know anything.

    Those of a failed run are left out from where its ranks were in different steps.
    """
    if one.steps.stride != other.steps.stride:
        return {}
    last = min(steps_together(one) or math.inf, steps_together(other) or math.inf)
    alike = _gradients_are_alike(one, other)
    losses = _relatives(one, one.steps.losses, other.steps.losses)
    losses |= dict.fromkeys(set(one.steps.not_finite) ^ set(other.steps.not_finite), math.inf)
    norms = _relatives(one, one.steps.grad_norms, other.steps.grad_norms) if alike else {}
    drifts = _drifts(one, other) if alike else {}
    return {
        step: Difference(losses.get(step), norms.get(step), drifts.get(step))
        for step in sorted({*losses, *norms, *drifts})
        if step <= last
    }


def difference(one: Record, other: Record) -> tuple[int, float | None]:
    """Steps compared, and the largest relative difference of a loss or gradient norm; None when nothing is comparable.

    Infinite where one run has a number and the other has none.
    """
    worst: float | None = None
    steps = 0
    for _, found in _differences(one, other):
        steps += 1
        worst = found if worst is None else max(worst, found)
    return steps, worst


def is_same(before: Record, after: Record) -> bool:
    """Whether both runs agree so well that the noise of the job need not be known."""
    worst = difference(before, after)[1]
    return worst is not None and worst <= SAME


def compared(before: Record, after: Record, control: Record | None = None) -> Numerics:
    """The verdict on `after`; `control` is a second run of what `before` ran, whose difference is the noise."""
    steps, worst = difference(before, after)
    if worst is None:
        return Numerics(verdict="not compared", why="no step of both runs has a loss")
    noise = difference(before, control)[1] if control is not None else None
    tolerance = TOLERANCE[lowest_dtype(before, after)]
    told = f"worst relative difference {worst:.2g} over {steps} steps"
    if noise is not None:
        told += f", {noise:.2g} between two runs of the job as it was"
    if noise is not None and noise > tolerance:
        verdict: Literal["within noise", "different"] = "within noise" if worst <= NOISE * noise else "different"
        return Numerics(
            verdict=verdict,
            why=f"{told}: the job does not reproduce itself, so set its seeds for a sharper proof",
            steps=steps,
            worst=worst,
            noise=noise,
        )
    beyond = [step for step, found in _differences(before, after) if found > tolerance * (1 + GROWTH * step)]
    if beyond:
        return Numerics(
            verdict="different", why=f"{told}; the first at step {beyond[0] + 1}", steps=steps, worst=worst, noise=noise
        )
    return Numerics(verdict="equal", why=told, steps=steps, worst=worst, noise=noise)


def _differences(one: Record, other: Record) -> Iterator[tuple[int, float]]:
    """(step from 0, relative difference) of each step whose loss both runs know; gradient norms are known of some."""
    for step, found in by_step(one, other).items():
        if found.loss is not None:
            yield step - 1, max(found.loss, (found.norm or 0.0) / NORM)


def _gradients_are_alike(one: Record, other: Record) -> bool:
    """Whether a rank sees the same gradients and parameters: those of its shards, and reduced or not."""
    ones, others = one.actual.sharding, other.actual.sharding
    alike = (ones.strategy, ones.units, ones.fraction) == (others.strategy, others.units, others.fraction)
    return alike and not one.exit.code and not other.exit.code


def _relatives(run: Record, ones: Sequence[float | None], others: Sequence[float | None]) -> dict[int, float]:
    """{step: relative difference}, of the steps at which both are known."""
    least = max(SMALL * max((abs(value) for value in ones if value is not None), default=0.0), 1e-8)
    return {
        1 + place * run.steps.stride: abs(a - b) / max(abs(a), least)
        for place, (a, b) in enumerate(zip(ones, others, strict=False))
        if a is not None and b is not None
    }


def _drifts(one: Record, other: Record) -> dict[int, float]:
    """{step: distance}, the largest over the ranks that hold as many parameters in both runs."""
    others = {(drift.rank, drift.step): drift.changes for drift in other.steps.drifts}
    found: dict[int, float] = {}
    for drift in one.steps.drifts:
        changes = others.get((drift.rank, drift.step), ())
        if len(changes) == len(drift.changes):
            moved, apart = math.hypot(*drift.changes), math.dist(drift.changes, changes)
            found[drift.step] = max(found.get(drift.step, 0.0), apart / moved if moved else math.inf if apart else 0.0)
    return found


def lowest_dtype(*records: Record) -> str:
    """The lowest dtype of the multiplications; of the parameters, where no step was sampled."""
    used: set[str] = set()
    for record in records:
        precision = record.actual.precision
        used |= {*(precision.matmul or precision.parameters)}
    known = (name for name in ("bfloat16", "float16", "float32", "float64") if name in used)
    return next(known, "float32")
