"""Checkpointing is switched on, and the model trains in eval mode, where it does nothing."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, asked, is_on, places, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    enabled = applied(record, "gradient_checkpointing_enable")
    checkpointing = record.actual.checkpointing
    before = checkpointing.calls_in_training_mode
    wanted = enabled or before or is_on(asked(record, "checkpointing", "enabled"))
    if not wanted:
        return None
    idle = checkpointing.fraction == 0.0 or (checkpointing.fraction is None and checkpointing.calls == 0)
    if record.actual.training.training_mode is not False or not idle or not trained(record):
        return None
    return Sighting(
        message=f"Gradient checkpointing {'ran in training mode' if before else 'is enabled'}, the model trains in "
        f"eval mode{' now' if before else ''}, and no block is recomputed.",
        evidence=(
            Evidence(what="model is in training mode", value=False),
            Evidence(what="share of blocks recomputed", value=checkpointing.fraction),
            *((Evidence(what="checkpoint calls of an earlier step in training mode", value=before),) if before else ()),
            *places(enabled[:1]),
        ),
        confidence="established" if checkpointing.fraction == 0.0 else "likely",
    )


RULE = Rule(
    id="checkpointing/inactive-in-eval-mode",
    title="Checkpointing is enabled but the model is in eval mode",
    layers=("checkpointing", "trainer"),
    severity="warning",
    silent="The flag says on; memory is that of a run without it, and dropout is off as well.",
    cause="from_pretrained or an evaluation left the model in eval mode, and it checkpoints in training mode only.",
    remedies=(
        Remedy(
            id="train-mode",
            kind="in-process",
            automatic=True,
            how="model.train() before the loop and after each evaluation",
        ),
    ),
    caution="Fine-tuning in eval mode can be meant.",
    explains=("checkpointing/requested-and-not-applied",),
    from_record=detect,
)
