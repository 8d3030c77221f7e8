"""Parameters that the optimizer holds never get a gradient."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

FOREIGN = "("
"""How the instrument begins the name of a tensor that an optimizer holds and no model owns."""


def detect(record: Record) -> Sighting | None:
    training = record.actual.training
    elsewhere = set(training.in_no_optimizer)
    dry = [name for name in training.without_gradient if name not in elsewhere and not name.startswith(FOREIGN)]
    if not training.observed or not dry:
        return None
    count = max(len(dry), (training.without_gradient_count or 0) - (len(training.without_gradient) - len(dry)))
    many = training.trainable > 0 and count >= training.trainable / 2
    return Sighting(
        message=f"{count} of {training.trainable} trainable parameters had no gradient at the sampled steps: "
        f"{listed(dry, total=count)}.",
        evidence=(
            *(Evidence(what="parameter without a gradient", value=name) for name in dry[:5]),
            Evidence(what="parameters without a gradient", value=count),
        ),
        severity="warning" if many else "note",
    )


RULE = Rule(
    id="trainer/parameters-without-gradient",
    title="Trainable parameters get no gradient",
    layers=("trainer",),
    severity="warning",
    silent="The optimizer skips parameters whose gradient is None.",
    cause="The loss does not depend on them: an unused head, a detached activation, a checkpoint that cuts the graph.",
    remedies=(
        Remedy(
            id="freeze-or-use-parameters",
            kind="code",
            automatic=False,
            how="requires_grad_(False) on parameters that are not used, or remove the detach() before them",
        ),
    ),
    caution="Heads that take part in some steps only, and experts that got no token, are no fault.",
    from_record=detect,
)
