"""Recomputation draws other dropout masks than the forward did."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

EVENTS = ("checkpoint", "checkpoint_wrapper", "apply_activation_checkpointing")


def detect(record: Record) -> Sighting | None:
    checkpointing = record.actual.checkpointing
    careless, random = checkpointing.without_rng_state, checkpointing.random_again
    if not careless or not random:
        return None
    places = [each.at for each in applied(record, *EVENTS)]
    return Sighting(
        message=f"{careless} checkpoints do not preserve the random state, and their recomputation drew "
        f"random numbers {random} times.",
        evidence=(
            Evidence(
                what="checkpoint calls with preserve_rng_state=False", value=careless, at=next(iter(places), None)
            ),
            Evidence(what="random operators within the backward passes of the last sampled step", value=random),
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
            automatic=True,
            how="preserve_rng_state=True where the block is random, or dropout 0",
        ),
    ),
    caution="Without randomness in the checkpointed block it is harmless and faster.",
    from_record=detect,
)
