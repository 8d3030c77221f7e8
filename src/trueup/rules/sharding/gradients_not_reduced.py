"""Data parallelism was applied, and the ranks never reduce a gradient: each trains a model of its own."""

from __future__ import annotations

from collections.abc import Callable

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, trained
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.record import Exchange, Record

SHARDED = ("FSDP", "HSDP")
WITHOUT_DATA = {"barrier"}
ENOUGH = 3
"""Sampled steps below which suspended reductions may be a pause: local SGD averages every few steps."""

SCALARS = 4
"""Elements that a step may exchange without a gradient being among them, however small the model is."""


def detect(record: Record) -> Sighting | None:
    sharding = record.actual.sharding
    steps = [step for step in sharding.exchanges if step.backwards]
    if (record.launch.world_size or 1) < 2 or not trained(record) or not steps:
        return None
    if any(step.reducing_backwards for step in steps):
        return None
    strategy = sharding.strategy or ""
    if strategy.startswith(SHARDED):
        return _judged(record, steps, "the model is called past its hooks", "likely") if _silent(steps) else None
    if strategy != "DDP" or not _gradients_stay(steps, sharding.trainable_elements) or _inlined(record):
        return None
    if _all(steps, lambda step: step.wrapper_forwards == 0):
        what = "DistributedDataParallel's forward was never called"
        return _judged(record, steps, what, "established" if len(steps) > 1 else "likely")
    if len(steps) >= ENOUGH and _all(steps, lambda step: step.without_sync >= step.backwards):
        return _judged(record, steps, "every backward pass ran under no_sync()", "likely")
    return None  # a communication hook may average at other times


def _all(steps: list[Exchange], holds: Callable[[Exchange], bool]) -> bool:
    return all(map(holds, steps))


def _silent(steps: list[Exchange]) -> bool:
    return all(not set(step.collectives) - WITHOUT_DATA for step in steps)


def _gradients_stay(steps: list[Exchange], trainable: int | None) -> bool:
    """True when all that the ranks exchanged is smaller than the gradients: a loss, a metric, a buffer."""
    if _silent(steps):
        return True
    most = max(SCALARS, (trainable or 0) // 10)
    return all(step.elements is not None and step.elements <= most < (trainable or 0) for step in steps)


def _inlined(record: Record) -> bool:
    """True when the wrapper's forward may be part of a compiled graph, where neither it nor its collectives show."""
    calls = [call for call in applied(record, "torch.compile", "Module.compile") if not call.detail.get("disabled")]
    around = any(
        call.detail.get("target", "module") != "module" or call.module == "DistributedDataParallel" for call in calls
    )
    return around and record.actual.compile.fraction != 0.0


def _judged(record: Record, steps: list[Exchange], why: str, confidence: Confidence) -> Sighting:
    ranks = record.launch.world_size
    wrapped = applied(record, "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard")
    forwards = [step.wrapper_forwards for step in steps if step.wrapper_forwards is not None]
    elements = [step.elements for step in steps if step.elements is not None]
    return Sighting(
        message=(
            f"{record.actual.sharding.strategy} over {ranks} ranks reduced no gradient in any of {len(steps)} sampled "
            f"steps: {why}, and each rank trains a model of its own."
        ),
        evidence=(
            Evidence(what="backward passes in the sampled steps", value=sum(step.backwards for step in steps)),
            Evidence(what="of them with a gradient reduction", value=0),
            *([Evidence(what="calls of the wrapper's forward", value=sum(forwards))] if forwards else []),
            *([Evidence(what="elements exchanged in a step, at most", value=max(elements))] if elements else []),
            *(Evidence(what="wrapped here", value=each.module, at=each.at) for each in wrapped[:1]),
        ),
        confidence=confidence,
    )


RULE = Rule(
    id="sharding/gradients-not-reduced",
    title="Data parallelism was applied, and no gradient is reduced over ranks",
    layers=("sharding",),
    severity="error",
    silent="The loss falls on each rank, which learns from its own share of the data only; one of them is saved.",
    cause=(
        "The reduction is set up in the wrapper's forward. model.module(x), the model kept from before wrapping, or "
        "what accelerator.prepare was given instead of its result pass it by; so does no_sync() around every backward."
    ),
    remedies=(
        Remedy(
            id="call-the-wrapper",
            kind="in-process",
            automatic=True,
            how=(
                "call what DistributedDataParallel (or accelerator.prepare) returned: model = DDP(model); "
                "loss = model(batch); keep model.module for saving only, and leave no_sync() in the last micro-step"
            ),
        ),
    ),
    caution=(
        "Reductions written by hand, those within compiled code, communication hooks and averages of local SGD are as "
        "good; what the ranks exchange beside gradients, such as a loss, is no reduction of them."
    ),
    explains=("sharding/requested-and-not-applied",),
    from_record=detect,
)
