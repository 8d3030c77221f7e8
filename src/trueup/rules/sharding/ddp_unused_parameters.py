"""DDP waits for parameters that took no part in the loss."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, errors, listed
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

TEXT = (
    r"Expected to have finished reduction in the prior iteration"
    r"|your LightningModule has parameters that were not used in producing the loss"
)
"""Lightning writes its own sentence in the place of torch's."""


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    wraps = applied(record, "DistributedDataParallel")
    training = record.actual.training
    unused, count = training.without_gradient, training.without_gradient_count or 0
    strict = bool(wraps) and not any(wrap.detail.get("find_unused_parameters") for wrap in wraps)
    hung = strict and bool(unused) and record.exit.reason == "timeout"
    if not crashed and not hung:
        return None
    which = f": {listed(unused, total=count)}" if unused else ""
    return Sighting(
        message=f"DDP waited for the gradients of parameters that had none{which}; "
        f"the {'next forward raised' if crashed else 'job hung'}.",
        evidence=(
            *crashed,
            *(Evidence(what="parameter without a gradient", value=name) for name in unused[:5]),
            *(Evidence(what="find_unused_parameters", value=False, at=wrap.at) for wrap in wraps[:1] if strict),
        ),
        confidence="established" if crashed else "likely",
    )


RULE = Rule(
    id="sharding/ddp-unused-parameters",
    title="DDP waits for parameters that got no gradient",
    layers=("sharding",),
    severity="error",
    silent="",
    cause="Some parameters take no part in a step's loss, and DDP waits for the bucket that holds their gradients.",
    remedies=(
        Remedy(
            id="ddp-find-unused-parameters",
            kind="in-process",
            automatic=True,
            how="DistributedDataParallel(..., find_unused_parameters=True) where the set varies",
        ),
        Remedy(
            id="use-all-parameters",
            kind="code",
            automatic=False,
            how="add 0 * sum of the unused outputs to the loss, or freeze the parameters before wrapping",
        ),
    ),
    caution="The same text comes when an output is left out of the loss, or when forward runs twice before a backward.",
    explains=("trainer/parameters-without-gradient",),
    from_record=detect,
    log=(
        LogText(
            text="Expected to have finished reduction in the prior iteration before starting a new one",
            versions="torch any",
        ),
        LogText(
            text="It looks like your LightningModule has parameters that were not used in producing the loss returned "
            "by training_step",
            versions="lightning 1.8 and newer",
        ),
        LogText(text="Parameter indices which did not receive grad for rank", versions="torch 1.9 or newer"),
        LogText(text="Parameters which did not receive grad for rank", versions="torch 1.9 or newer, with DETAIL"),
        LogText(
            text="You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True`",
            versions="torch any",
        ),
        LogText(text="marked as unused, but was used", strength="supporting", versions="torch any"),
    ),
)
