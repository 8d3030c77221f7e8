"""Sharding: how much must be split for the fault to show, and which units of FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.asking import forced, outcomes
from trueup.procedures.bisection.inside.few import Found
from trueup.procedures.bisection.inside.parts import most, needed_parts, parts_told
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed, Outcome
from trueup.schema.record import Record

STRATEGIES = ("grad_op", "replicate")
"""Values of `--set sharding`, the one that splits most first."""
MOST = len(STRATEGIES) + most(32)
"""Runs that the questions may cost, with some tens of units."""
SHARDED = ("FSDP", "fully_shard", "FullyShardedDataParallel", "HSDP")
"""Names of what has strategies."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """Split less and less: nothing to ask of DDP, which splits nothing."""
    if not is_fsdp(record):
        return
    found = outcomes(trials, [forced(base, "sharding", each) for each in STRATEGIES], "sharding")
    told = dict(zip(STRATEGIES, found, strict=True))
    answer = _answer(told)
    if answer is not None:
        evidence = "; ".join(f"sharding={name}: {_seen(outcome)}" for name, outcome in told.items())
        yield Narrowed(layer="sharding", what="strategy", answer=answer, evidence=evidence)
    units = needed_parts(trials, base, "sharding", "off")
    if units is not None:
        yield _units(units)


def is_fsdp(record: Record) -> bool:
    """Whether FSDP, of either kind, is applied in the job, or was to be when it failed."""
    asked = str((record.requested.get("sharding") or {}).get("strategy") or "")
    names = [asked, record.actual.sharding.strategy or ""]
    names += [each.event for each in record.order if each.layer == "sharding"]
    return any(name.startswith(SHARDED) for name in names)


def _answer(told: dict[str, Outcome]) -> str | None:
    if told["replicate"] == "fails":
        return "the units and hooks of FSDP, also where nothing is split"
    if told["replicate"] != "passes":
        return None
    if told["grad_op"] == "fails":
        return "split gradients and optimizer states (SHARD_GRAD_OP) are enough"
    if told["grad_op"] == "passes":
        return "parameters that are split again after the forward pass (FULL_SHARD)"
    return "what is split: it passes where nothing is"


def _units(found: Found) -> Narrowed:
    if not found.parts:
        told = "fails with each of the units within it kept whole"
        return Narrowed(layer="sharding", what="unit", answer="the outermost unit", evidence=told)
    evidence = parts_told(found, "sharded, of those within the outermost unit")
    return Narrowed(layer="sharding", what="unit", answer=", ".join(found.parts), evidence=evidence)


def _seen(outcome: Outcome) -> str:
    return "ends otherwise, or changes nothing" if outcome == "unresolved" else outcome
