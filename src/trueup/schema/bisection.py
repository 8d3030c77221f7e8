"""The result of `trueup bisect`: the smallest set of layers with which a job fails as it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from trueup.schema.finding import Finding
from trueup.schema.record import Record
from trueup.schema.variant import Variant

Outcome = Literal["fails", "passes", "unresolved"]
"""`unresolved`: it ended otherwise than the fault that is looked for, which tells nothing of it."""
Verdict = Literal["found", "not of the layers", "nothing fails", "not reproduced", "not settled", "interrupted"]
Kind = Literal["exception", "exit", "hang", "memory", "not finite", "finding", "loss", "slow", "coverage"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What one run is made of. The empty attempt is the job as it is."""

    variant: Variant = Variant()
    command: tuple[str, ...] | None = None
    """Another command than the job's own, where one word of it must differ: the number of ranks."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What the fault that is looked for looks like."""

    kind: Kind
    text: str
    """In words: the exception with its message, the rule, the threshold."""
    rule: str | None = None
    """Of a finding."""
    exception: str | None = None
    """Type of the exception of the rank that failed first."""
    message: str | None = None
    """Its message without numbers, addresses and paths."""
    frames: tuple[str, ...] = ()
    """Its innermost frames, `file name:function`, the last one first."""
    code: int | None = None
    """The exit code that was given; None for any."""
    layer: str | None = None
    """Whose coverage was lost."""
    threshold: float | None = None
    """Relative difference of losses, times of a step, share of coverage: beyond which it is the fault."""
    given: bool = False
    """Whether it was given by `--fails-when` and not taken from the first run that failed."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one variant."""

    name: str
    """What differs from the job as it is."""
    stage: Literal["search", "order", "inside"] = "search"
    on: tuple[str, ...] = ()
    """Layers that ran as the job has them; the others were forced off."""
    outcome: Outcome
    """`fails` when any run has failed in this way."""
    why: str
    runs: int = 1
    failed: int = 0
    seconds: float = 0.0
    """Of all runs."""


class Narrowed(msgspec.Struct, frozen=True, kw_only=True):
    """What within a guilty layer the fault comes from."""

    layer: str
    what: str
    """Of compile `backend`, `function`, `graph`, `subsystem`, `pass`, `decomposition`, `lowering`, `setting`, `cache`;
    of others `kernel`, `strategy`, `unit`, `implementation`, `blocks`, `modules`, `batch`, `length`, `ranks`."""
    answer: str
    """`inductor`, `graph 3`, `LlamaMLP.down_proj`, ..."""
    evidence: str
    """What was run, and how it ended."""


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """A script of its own that fails with the same signature, and passes without each of the guilty layers."""

    script: str
    launch: str
    """The command that fails: `python repro.py`."""
    without: dict[str, str] = {}
    """Layer → the command that passes."""
    issue: str
    """Text for a report: versions, commands, signature, minimal set."""


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    why: str
    minimal: tuple[str, ...] = ()
    """Layers without any of which the fault is gone; all others were off in a run that failed."""
    one_minimal: bool = False
    """Whether that was run: the set alone fails, and passes without each of its layers."""
    order_matters: bool | None = None
    """None when no other order could be tried."""
    order: str | None = None
    """What was seen of another order."""
    signature: Signature | None = None
    layers: tuple[str, ...] = ()
    """That could be switched off."""
    control: Literal["passes", "fails", "unresolved", "not run"] = "not run"
    rate: float | None = None
    """Share of runs in which the fault shows where the set is on, as far as it is known."""
    belief: float | None = None
    """In the set, between 0 and 1."""
    inside: tuple[Narrowed, ...] = ()
    probes: tuple[Trial, ...] = ()
    finding: Finding | None = None
    """The rule of the catalogue that names the fault."""
    repro: Reproduction | None = None
    stacks: tuple[str, ...] = ()
    """Of a hang: where each rank stood."""
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    record: Record | None = None
    """Of the job as it is."""


def with_notes(found: Bisection, notes: Sequence[str]) -> Bisection:
    """`found` and what else is to be said."""
    return msgspec.structs.replace(found, notes=(*found.notes, *notes))
