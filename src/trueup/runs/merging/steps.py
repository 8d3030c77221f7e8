"""Step times, losses, tokens and gradient norms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from trueup.runs.merging.job import Job
from trueup.runs.merging.ranks import steps_of
from trueup.runs.merging.values import items, mapping, number, whole
from trueup.schema.record import Drift, Steps

Row = tuple[float, float | None, int | None]
"""Seconds, loss and tokens of a step."""
DRIFTING_RANKS = 8
"""Ranks whose drift is kept."""


def merged_steps(job: Job) -> Steps:
    """The lead rank's series. In a long job the lists keep every `stride`-th step, beginning with the first."""
    if job.lead is None:
        return Steps()
    rows, stride = _rows(job)
    kept = sorted(step for step in rows if (step - 1) % stride == 0)
    norms = gradient_norms(job)
    losses = [rows[step][1] for step in kept]
    return Steps(
        count=steps_of(job.lead),
        seconds=tuple(rows[step][0] for step in kept),
        losses=tuple(finite(loss) for loss in losses),
        grad_norms=tuple(finite(norms.get(step)) for step in kept),
        tokens=tuple(rows[step][2] for step in kept),
        stride=stride,
        not_finite=tuple(
            step for step, loss in zip(kept, losses, strict=True) if loss is not None and not math.isfinite(loss)
        ),
        drifts=tuple(_drifts(job)),
    )


def gradient_norms(job: Job) -> dict[int, float]:
    """{step: global norm}: squares of replicated gradients of one rank, and of sharded ones summed over all ranks.

    A step of which a rank has not told its shards is left out. With replicas each shard is held that many times.
    """
    by_rank: list[dict[int, tuple[float, float]]] = []
    for member in job.trained:
        squares: dict[int, tuple[float, float]] = {}
        for event in member.log.of("gradient"):  # one for each optimizer
            step = whole(event.get("step"))
            if step is not None:
                whole_part, shards = squares.get(step, (0.0, 0.0))
                squares[step] = (
                    whole_part + (number(event.get("replicated_squares")) or 0.0),
                    shards + (number(event.get("sharded_squares")) or 0.0),
                )
        by_rank.append(squares)
    if not by_rank:
        return {}
    copies = whole(mapping(job.last_of_lead("model").get("sharding")).get("replicas")) or 1
    norms = {}
    for step, (replicated, own) in by_rank[0].items():
        shard_squares = [squares[step][1] for squares in by_rank if step in squares]
        if own and len(shard_squares) < len(by_rank):
            continue
        norms[step] = math.sqrt(replicated + sum(shard_squares) / copies)
    return norms


def _drifts(job: Job) -> Iterator[Drift]:
    for member in job.trained[:DRIFTING_RANKS]:
        for event in member.log.of("drift"):
            changes = [number(change) for change in items(event.get("changes"))]
            known = tuple(change for change in changes if change is not None and math.isfinite(change))
            if known and len(known) == len(changes):
                yield Drift(step=whole(event.get("step")) or 0, rank=member.rank, changes=known)


def finite(value: float | None) -> float | None:
    """JSON knows no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _rows(job: Job) -> tuple[dict[int, Row], int]:
    rows: dict[int, Row] = {}
    longest = 1
    for event in job.of_lead("steps"):
        first, stride = whole(event.get("first")) or 1, whole(event.get("stride")) or 1
        longest = max(longest, stride)
        losses, tokens = items(event.get("losses")), items(event.get("tokens"))
        for place, seconds in enumerate(items(event.get("seconds"))):
            rows[first + place * stride] = (
                number(seconds) or 0.0,
                number(_at(losses, place)),
                whole(_at(tokens, place)),
            )
    return rows, longest


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else None
