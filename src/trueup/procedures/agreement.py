"""Do candidates agree with controls, step by step: but for rounding, the control's noise, or as a reference says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from trueup.procedures.numerics import GROWTH, NOISE, NORM, SAME, TOLERANCE, Difference, by_step, lowest_dtype
from trueup.schema.record import Record
from trueup.schema.verification import Measure, Numerics, StepNumbers

KINDS = ("loss", "norm", "drift")
TITLES = {"loss": "loss", "norm": "gradient norm", "drift": "drift of the parameters"}
DRIFT = {"float32": 0.3, "float64": 0.3, "bfloat16": 0.8, "float16": 0.8}
"""Drift that rounding explains, by the lowest dtype of the multiplications: Adam moves a weight whose gradient is all
rounding (a bias before a normalisation, say) as far as any other. Weights that are not trained at all are 1 apart."""
LOW = ("bfloat16", "float16")
"""Parameters held in these move by steps of their own rounding: their drift is not judged."""
CLOSER = 1.5
"""How many times nearer to the reference is nearer."""

Differences = Mapping[int, Difference]
"""Step, from 1 → what differs."""


def agreement(controls: Sequence[Record], candidates: Sequence[Record], references: Sequence[Record] = ()) -> Numerics:
    """The verdict on runs made in pairs; `references` decide about differences that rounding does not explain."""
    dtype = lowest_dtype(*controls, *candidates)
    between = _largest(by_step(*pair) for pair in zip(controls, candidates, strict=False))
    noise = _largest(by_step(*pair) for pair in itertools.combinations(controls, 2))
    if all(found.loss is None for found in between.values()):
        return Numerics(verdict="not compared", why="no loss was seen in the same step of both", dtype=dtype)
    kinds = KINDS[:2] if _has_low_parameters(*controls, *candidates) else KINDS
    steps = _measured(between, noise, kinds, dtype)
    told = _in_words(steps)
    steps = tuple(_with_losses(step, controls[0], candidates[0], *references[:1]) for step in steps)
    beyond = [step for step in steps if step.beyond]
    if beyond:
        why = f"{told}; beyond what rounding and noise explain: {where(beyond)}"
        different = Numerics(verdict="different", why=why, dtype=dtype, steps=steps)
        return _decided(different, controls, candidates, references, kinds) if references else different
    if any(step.loss is not None and (step.loss.noise or 0) > explained("loss", step.step, dtype) for step in steps):
        why = f"{told}: the control does not reproduce itself, so set the job's seeds for a sharper comparison"
        return Numerics(verdict="within noise", why=why, dtype=dtype, steps=steps)
    equal = all(measure.difference <= SAME for step in steps for measure in [step.loss, step.norm] if measure)
    return Numerics(verdict="equal" if equal else "within rounding", why=told, dtype=dtype, steps=steps)


def explained(kind: str, step: int, dtype: str) -> float:
    """The difference that rounding explains at a step."""
    if kind == "drift":
        return DRIFT[dtype]
    tolerance = TOLERANCE[dtype] * (1 + GROWTH * (step - 1))
    return tolerance * NORM if kind == "norm" else tolerance


def _decided(
    different: Numerics,
    controls: Sequence[Record],
    candidates: Sequence[Record],
    references: Sequence[Record],
    kinds: Sequence[str],
) -> Numerics:
    """A candidate that is as near to the reference as the control differs from it by no fault."""
    of_controls = _largest(by_step(*pair) for pair in itertools.product(references, controls))
    of_candidates = _largest(by_step(*pair) for pair in itertools.product(references, candidates))
    ours, theirs = _mean(of_candidates), _mean(of_controls)
    if ours is None or theirs is None:
        return different
    closer: Literal["control", "candidate", "neither"] = "neither"
    if ours * CLOSER < theirs:
        closer = "candidate"
    elif theirs * CLOSER < ours:
        closer = "control"
    told = f"losses are {theirs:.2g} (control) and {ours:.2g} (candidate) from the reference"
    excused = not any(step.beyond for step in _measured(of_candidates, of_controls, kinds, different.dtype))
    return msgspec.structs.replace(
        different,
        verdict="within rounding" if excused else "different",
        why=f"{different.why}; {told}",
        closer=closer,
    )


def _measured(between: Differences, noise: Differences, kinds: Sequence[str], dtype: str) -> tuple[StepNumbers, ...]:
    """The differences `between` of each step, with what `noise` and rounding allow."""
    floors = {kind: _floor(kind, between, noise, dtype) for kind in kinds}
    steps = []
    for step, found in between.items():
        measures: dict[str, Measure] = {}
        for kind in kinds:
            difference, floor = getattr(found, kind), floors[kind].get(step)
            if difference is not None:
                allowed = max(explained(kind, step, dtype), NOISE * (floor or 0.0))
                measures[kind] = Measure(difference=difference, noise=floor, allowed=allowed)
        beyond = tuple(kind for kind, measure in measures.items() if measure.difference > measure.allowed)
        steps.append(
            StepNumbers(
                step=step,
                loss=measures.get("loss"),
                norm=measures.get("norm"),
                drift=measures.get("drift"),
                beyond=beyond,
            )
        )
    return tuple(steps)


def _floor(kind: str, steps: Iterable[int], noise: Differences, dtype: str) -> dict[int, float]:
    """{step: noise}, as far as it has grown. That of a job without seeds is from the first step on what it ever is."""
    known = {step: value for step, found in noise.items() if (value := getattr(found, kind)) is not None}
    if not known:
        return {}
    first = min(known)
    grown = max(known.values()) if known[first] > explained(kind, first, dtype) else 0.0
    floor = {}
    for step in steps:
        floor[step] = grown = max(grown, known.get(step, 0.0))
    return floor


def _largest(pairs: Iterable[Differences]) -> Differences:
    """{step: the largest differences} over pairs of runs."""
    largest: dict[int, Difference] = {}
    for found in pairs:
        for step, other in found.items():
            one = largest.get(step, Difference())
            largest[step] = Difference(*(_higher(getattr(one, kind), getattr(other, kind)) for kind in KINDS))
    return dict(sorted(largest.items()))


def _higher(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _mean(differences: Differences) -> float | None:
    """Of the losses."""
    losses = [found.loss for found in differences.values() if found.loss is not None and math.isfinite(found.loss)]
    return fmean(losses) if losses else None


def _has_low_parameters(*records: Record) -> bool:
    return any(name in LOW for record in records for name in record.actual.precision.parameters)


def _with_losses(step: StepNumbers, *runs: Record) -> StepNumbers:
    """With the losses of a control, a candidate and perhaps a reference."""
    losses: list[float | None] = [None, None, None]
    for place, run in enumerate(runs):
        index, rest = divmod(step.step - 1, run.steps.stride)
        if not rest and index < len(run.steps.losses):
            losses[place] = run.steps.losses[index]
    return msgspec.structs.replace(step, control=losses[0], candidate=losses[1], reference=losses[2])


def _in_words(steps: Sequence[StepNumbers]) -> str:
    """`loss differs by at most 2e-05 over 30 steps, the control's own runs by 0; gradient norm ...`."""
    told = []
    for kind in KINDS:
        measures = [measure for step in steps if (measure := getattr(step, kind)) is not None]
        if measures:
            worst = max(measure.difference for measure in measures)
            words = f"{TITLES[kind]} differs by at most {worst:.2g} over {len(measures)} steps"
            if measures[-1].noise is not None:
                words += f", between runs of the control by {measures[-1].noise:.2g}"
            told.append(words)
    return "; ".join(told)


def where(steps: Iterable[StepNumbers]) -> str:
    """`loss first at step 3, gradient norm first at step 1`: what differs by more than is allowed."""
    first: dict[str, int] = {}
    for step in steps:
        for kind in step.beyond:
            first.setdefault(kind, step.step)
    return ", ".join(f"{TITLES[kind]} first at step {step}" for kind, step in first.items())
