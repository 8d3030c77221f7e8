"""The result of `trueup verify`: whether a candidate computes what a control computes, and how fast."""

from __future__ import annotations

from typing import Literal

import msgspec

from trueup.schema.fixing import Speed
from trueup.schema.record import Record

Verdict = Literal["verified", "within noise", "different", "not compared", "failed"]
PASSED: tuple[Verdict, ...] = ("verified", "within noise")
"""Verdicts with which nothing speaks against the candidate."""


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that the control was to run in another way, and what its record shows."""

    layer: str
    asked: str
    """The value that was forced, as in `off`."""
    state: Literal["as asked", "still on", "not observed"]
    control: str
    """What the control's record shows of the layer, in words."""
    candidate: str
    on_in_candidate: bool | None = None
    """None when the candidate's record does not show it."""


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A relative difference of one step, the largest over the pairs of runs."""

    difference: float
    """Infinite, null in JSON, where only one of the runs has a number."""
    noise: float | None = None
    """The same between runs of the control, as far as it has grown."""
    allowed: float
    """What rounding and noise explain."""


class StepNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One step of all runs."""

    step: int
    """From 1."""
    control: float | None = None
    candidate: float | None = None
    reference: float | None = None
    """Losses of the first run of each."""
    loss: Measure | None = None
    norm: Measure | None = None
    """Of the norm of all gradients, where both are known and of the same shards."""
    drift: Measure | None = None
    """Distance between the changes of the same parameters, relative to how far the control's have moved."""
    beyond: tuple[str, ...] = ()
    """Which of the measures differ by more than is allowed."""


class Numerics(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Literal["equal", "within rounding", "within noise", "different", "not compared"]
    """`within rounding`: the differences are those of the dtype, or the candidate is as near to the reference as the
    control. `within noise`: the control does not reproduce itself, and the candidate differs no more from it."""
    why: str
    dtype: str = ""
    """The lowest dtype of the multiplications, whose tolerance holds."""
    closer: Literal["control", "candidate", "neither"] | None = None
    """Which is closer to the reference; None when none was asked."""
    steps: tuple[StepNumbers, ...] = ()


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Highest memory over ranks and runs."""

    control_bytes: int | None = None
    candidate_bytes: int | None = None
    source: str | None = None


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    why: str
    """What decides, in a line."""
    numerics: Numerics
    speed: Speed
    """The candidate against the control: above 1 is faster."""
    effect: Literal["faster", "slower", "no difference shown", "not measured"] = "not measured"
    memory: Peak = Peak()
    switched: tuple[Switched, ...] = ()
    command: tuple[str, ...] = ()
    control: str = ""
    candidate: str = ""
    """Names of the variants; the records tell what they change."""
    reference: str | None = None
    """What was run to see which of the two is right."""
    controls: tuple[Record, ...] = ()
    candidates: tuple[Record, ...] = ()
    references: tuple[Record, ...] = ()
    same_random: tuple[Record, ...] = ()
    """Runs of the candidate whose compiled code drew the random numbers of eager code; then these are compared."""
    notes: tuple[str, ...] = ()
    """What could not be kept apart from the user's files, and other limits."""
