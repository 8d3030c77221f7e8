"""Do two runs compute the same: losses and gradient norms, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from trueup.schema.fixing import Numerics
from trueup.schema.record import Record

SAME = 1e-6
"""Relative difference up to which no second run of the job is needed to tell that nothing has changed."""
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "bfloat16": 2e-3, "float16": 1e-3}
"""Relative difference of a loss that another order of the same operations makes in the first step, by the lowest dtype
of the multiplications. Training carries it on from step to step."""
GROWTH = 0.5
"""Share by which the tolerance grows with each step."""
NORM = 10.0
"""A gradient norm may differ by so many times as much as a loss: no mean over tokens evens it out."""
NOISE = 3.0
"""How many times the difference between two runs of the same job is still its own noise."""


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
    tolerance = TOLERANCE[_lowest_dtype(before, after)]
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
    if one.steps.stride != other.steps.stride:
        return
    losses = _pairs(one.steps.losses, other.steps.losses)
    norms = _pairs(one.steps.grad_norms, other.steps.grad_norms) if _norms_are_alike(one, other) else {}
    broken = set(one.steps.not_finite) ^ set(other.steps.not_finite)
    for step in sorted({*losses, *(number - 1 for number in broken)}):
        if step + 1 in broken:
            yield step, math.inf
            continue
        found = _relative(*losses[step])
        if step in norms:
            found = max(found, _relative(*norms[step]) / NORM)
        yield step, found


def _norms_are_alike(one: Record, other: Record) -> bool:
    """Whether gradient norms are of the same gradients: a rank sees those of its shards, and reduced or not."""
    ones, others = one.actual.sharding, other.actual.sharding
    alike = (ones.strategy, ones.units, ones.fraction) == (others.strategy, others.units, others.fraction)
    return alike and not one.exit.code and not other.exit.code


def _pairs(ones: Sequence[float | None], others: Sequence[float | None]) -> dict[int, tuple[float, float]]:
    pairs = enumerate(zip(ones, others, strict=False))
    return {step: (a, b) for step, (a, b) in pairs if a is not None and b is not None}


def _relative(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), 1e-8)


def _lowest_dtype(*records: Record) -> str:
    used = {name for record in records for name in record.actual.precision.matmul}
    return next((name for name in ("bfloat16", "float16") if name in used), "float32")
