"""Checkpointing was asked for and no block is recomputed; no rule knows why."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, asked, is_on, places, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

EVENTS = ("gradient_checkpointing_enable", "checkpoint_wrapper", "apply_activation_checkpointing")


def detect(record: Record) -> Sighting | None:
    enabled = applied(record, *EVENTS)
    checkpointing = record.actual.checkpointing
    if not (enabled or is_on(asked(record, "checkpointing", "enabled"))):
        return None
    in_graphs = record.actual.compile.checkpoints_in_graph
    if checkpointing.fraction != 0.0 or checkpointing.calls or in_graphs or not trained(record):
        return None
    return Sighting(
        message="Activation checkpointing was requested, and no block was recomputed in the sampled step.",
        evidence=(
            Evidence(what="share of blocks recomputed", value=0.0),
            Evidence(what="checkpoints in compiled graphs", value=in_graphs),
            *places(enabled[:1]),
        ),
    )


RULE = Rule(
    id="checkpointing/requested-and-not-applied",
    title="Activation checkpointing was requested and nothing is recomputed",
    layers=("checkpointing",),
    severity="warning",
    silent="Only the memory shows it.",
    cause="The model ignores the setting, is in eval mode, or the wrapped modules are not those that run.",
    remedies=(
        Remedy(
            id="checkpoint-blocks",
            kind="code",
            automatic=False,
            how="apply_activation_checkpointing to the blocks that run, before compile and sharding, and model.train()",
        ),
    ),
    caution="A checkpoint inside of a compiled graph counts as applied.",
    residual=True,
    from_record=detect,
)
