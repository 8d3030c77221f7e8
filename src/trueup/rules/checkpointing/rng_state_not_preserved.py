"""Recomputation draws other dropout masks than the forward did."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

EVENTS = ("checkpoint", "checkpoint_wrapper", "apply_activation_checkpointing")


def detect(record: Record) -> Sighting | None:
    careless = [each for each in applied(record, *EVENTS) if each.detail.get("preserve_rng_state") is False]
    random = record.actual.checkpointing.random_ops
    if not careless or not random or switched(record, "checkpointing"):
        return None
    return Sighting(
        message=f"Checkpointing does not preserve the random state, and {random} dropout operators ran in a step.",
        evidence=(
            Evidence(what="preserve_rng_state", value=False, at=careless[0].at),
            Evidence(what="random operators in the last sampled step", value=random),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="checkpointing/rng-state-not-preserved",
    title="Recompute draws other dropout masks than the forward",
    layers=("checkpointing",),
    severity="error",
    silent="Training works, with gradients that are noisy and wrong.",
    cause="preserve_rng_state=False with dropout in the checkpointed block; accelerate sets it under FSDP2.",
    remedies=(
        Remedy(
            id="preserve-rng-state",
            kind="in-process",
            automatic=False,
            how="preserve_rng_state=True where the block is random, or dropout 0",
        ),
    ),
    caution="Without randomness in the checkpointed block it is harmless and faster.",
    from_record=detect,
)
