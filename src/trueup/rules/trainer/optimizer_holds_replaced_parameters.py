"""The optimizer was made before the parameters were replaced, and updates tensors that nobody uses."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

REPLACING = ("fully_shard", "FullyShardedDataParallel", "parallelize_module", "to", "to_empty")


def detect(record: Record) -> Sighting | None:
    training = record.actual.training
    orphans = training.in_no_optimizer_count or len(training.in_no_optimizer)
    if not training.observed or not training.not_of_model or not orphans:
        return None
    if orphans < training.trainable and orphans < training.not_of_model:
        return None  # a parameter that was forgotten is another class
    events = [each.event for each in record.order]
    made = events.index("Optimizer") if "Optimizer" in events else len(events)
    later = [each for each in record.order[made:] if each.event in REPLACING]
    return Sighting(
        message=f"The optimizer holds {training.not_of_model} tensors that are not the model's, and {orphans} "
        f"trainable parameters are in no optimizer{'; ' + later[0].event + ' came after it' if later else ''}.",
        evidence=(
            Evidence(what="optimizer parameters that belong to no model", value=training.not_of_model),
            Evidence(what="trainable parameters in no optimizer", value=orphans),
            *places(applied(record, "Optimizer")[:1]),
            *places(later[:2]),
        ),
        confidence="established" if later or orphans >= training.trainable > 0 else "likely",
    )


RULE = Rule(
    id="trainer/optimizer-holds-replaced-parameters",
    title="Optimizer was made before parameters were replaced and updates nothing",
    layers=("sharding", "trainer"),
    severity="error",
    silent="Gradients exist, steps are made, the loss stays where it began.",
    cause=(
        "Sharding, casting or materialisation replaced the parameters after the optimizer was built; it "
        "holds the old tensors, whose gradient stays None."
    ),
    remedies=(
        Remedy(
            id="optimizer-after-wrapping",
            kind="in-process",
            automatic=True,
            how="make the optimizer after sharding and casting, or bind its parameter groups again",
        ),
    ),
    caution="Parameters that are frozen on purpose are in no optimizer either.",
    explains=(
        "trainer/parameters-missing-from-optimizer",
        "trainer/parameters-without-gradient",
        "adapter/adapters-not-trained",
    ),
    from_record=detect,
)
