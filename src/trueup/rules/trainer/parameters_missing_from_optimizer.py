"""Parameters get gradients and are in no optimizer."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, listed, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    training = record.actual.training
    # A reference model that only runs forward requires gradients and gets none; it is not meant to be trained.
    unused = set(training.without_gradient)
    missing = [name for name in training.in_no_optimizer if name not in unused]
    if not training.observed or not training.optimizers or not missing:
        return None
    named_as_unused = len(training.in_no_optimizer) - len(missing)
    count = max(len(missing), (training.in_no_optimizer_count or 0) - named_as_unused)
    return Sighting(
        message=f"{count} of {training.trainable} trainable parameters get gradients and are in no optimizer: "
        f"{listed(missing, total=count)}.",
        evidence=(
            *(Evidence(what="parameter in no optimizer", value=name) for name in missing[:5]),
            Evidence(what="parameters in no optimizer", value=count),
            *places(applied(record, "Optimizer")[:2]),
        ),
    )


RULE = Rule(
    id="trainer/parameters-missing-from-optimizer",
    title="Trainable parameters are in no optimizer",
    layers=("trainer",),
    severity="warning",
    silent="The rest of the model learns, so the loss falls.",
    cause="The optimizer was given part of the parameters, or modules were added after it was made.",
    remedies=(
        Remedy(
            id="add-missing-parameters",
            kind="in-process",
            automatic=True,
            how=(
                "optimizer.add_param_group for the missing parameters, or requires_grad_(False) if they "
                "are to stay fixed"
            ),
        ),
    ),
    caution="A model that runs forward only (reference, teacher) gets no gradients and is not meant.",
    from_record=detect,
)
