"""Recomputation passes through FSDP's hooks again, so each unit is gathered once more during backward."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

MORE = 1.2
"""A unit is gathered once in a backward pass; beyond this many gathers a unit, recomputation gathers as well."""


def detect(record: Record) -> Sighting | None:
    sharding, checkpointing = record.actual.sharding, record.actual.checkpointing
    gathers = sharding.gathers_per_backward
    if not (sharding.strategy or "").startswith(("FSDP", "HSDP")) or sharding.units < 2 or gathers is None:
        return None
    if not checkpointing.calls or gathers <= MORE * sharding.units:
        return None
    return Sighting(
        message=f"{gathers:.0f} all-gathers ran in a backward pass over {sharding.units} units: recomputation gathers "
        "parameters again.",
        evidence=(
            Evidence(what="all-gathers in a backward pass", value=gathers),
            Evidence(what="FSDP units", value=sharding.units),
            Evidence(what="checkpoint calls in the last sampled step", value=checkpointing.calls),
            Evidence(what="reentrant variant ran", value=checkpointing.reentrant),
            *places(applied(record, "gradient_checkpointing_enable", "checkpoint_wrapper", "checkpoint")[:1]),
        ),
    )


RULE = Rule(
    id="checkpointing/fsdp-redundant-all-gather",
    title="Checkpoint recomputation gathers FSDP parameters again",
    layers=("checkpointing", "sharding", "trainer"),
    severity="warning",
    silent="The result is right; each step moves half as many bytes again.",
    cause=(
        "The checkpoint lies outside of the FSDP unit, or its reentrant variant looks like another forward to it, so "
        "recomputation passes through the gathering hooks."
    ),
    remedies=(
        Remedy(
            id="non-reentrant-checkpoint",
            kind="in-process",
            automatic=True,
            how="use_reentrant=False (gradient_checkpointing_kwargs, NO_REENTRANT for checkpoint_wrapper)",
        ),
        Remedy(
            id="checkpoint-inside-unit",
            kind="config-edit",
            automatic=False,
            how=(
                "checkpoint_wrapper(block) before the block is wrapped (FSDP_ACTIVATION_CHECKPOINTING=true with "
                "accelerate, instead of the Trainer's gradient_checkpointing), or use_reentrant=False"
            ),
        ),
    ),
    caution="One gather in forward and one in backward for each unit is normal where parameters are freed in between.",
    sources=(
        "https://github.com/huggingface/transformers/issues/30404",
        "https://github.com/NVIDIA-NeMo/Automodel/pull/3411",
    ),
    explains=("checkpointing/reentrant-variant-used",),
    from_record=detect,
)
