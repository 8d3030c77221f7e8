"""The result of `trueup fix`: what was applied, what was dropped and why, and the proof."""

from __future__ import annotations

from typing import Literal

import msgspec

from trueup.schema.record import Record
from trueup.schema.variant import Variant


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy that proved itself."""

    remedy: str
    rule: str
    """The finding that it cured."""
    variables: dict[str, str] = {}
    """Environment variables that it sets."""


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy that was tried and did not prove itself."""

    remedy: str
    rule: str
    why: str
    harmful: bool = False
    """With it the job fails or computes something else: no change of files makes that permanent."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A permanent change of one of the user's files, shown and never made there."""

    path: str
    """Relative to the folder in which the command was started."""
    diff: str
    """Unified, of the file as it is."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the recipe: the permanent change, and the finding that it cures."""

    rule: str
    remedy: str
    how: str
    """The exact line, setting or command, for a person."""
    at: tuple[str, ...] = ()
    """`file:line` of the user's code where the fault was seen."""
    automatic: bool = False
    """Applied and proved here; else left to a person."""
    edits: tuple[Edit, ...] = ()
    """The change as diffs, where it can be written safely."""
    command: str | None = None
    """The launch command with the change, where it is one of the command's own words."""
    install: str | None = None
    """The exact command that installs what is to be installed; run by `trueup fix --yes` only."""


class Numerics(msgspec.Struct, frozen=True, kw_only=True):
    """Losses and gradient norms of the repaired job against those of the job as it was, step by step."""

    verdict: Literal["equal", "within noise", "different", "corrected", "not compared"]
    """`within noise`: the job does not reproduce itself, and differs no more from the repaired one."""
    why: str
    """The measure behind the verdict, in words with numbers."""
    steps: int = 0
    """Steps compared."""
    worst: float | None = None
    """Largest difference of a loss or gradient norm, relative to the job as it was."""
    noise: float | None = None
    """The same between two runs of the job as it was; None where one run was enough to tell."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per late step, before over after: above 1 is faster."""

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval of the ratio."""
    before_s: float | None = None
    after_s: float | None = None
    """Median seconds of a step in the later half of the run."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    findings_gone: bool
    numerics: Numerics
    speed: Speed
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None


class Fixing(msgspec.Struct, frozen=True, kw_only=True):
    before: Record
    after: Record | None = None
    """The run with all that was kept; None when nothing was applied."""
    applied: tuple[Applied, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    proof: Proof | None = None
    recipe: tuple[Step, ...] = ()
    variant: Variant | None = None
    """What to give to `trueup run --with`; None when nothing was applied."""
    installed: tuple[str, ...] = ()
    """Commands that were run before everything else, because `--yes` was given."""
    probes: int = 0
    """Runs that were made."""
    notes: tuple[str, ...] = ()
    """What could not be kept apart from the user's files, and other limits."""
