"""Sharding was asked for and no parameter is split over ranks; no rule knows why."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import asked, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

SPLITTING = ("FSDP", "HSDP", "ZERO-3", "ZERO 3", "TP", "TENSOR")


def detect(record: Record) -> Sighting | None:
    requested = str(asked(record, "sharding", "strategy") or "")
    sharding, ranks = record.actual.sharding, record.launch.world_size or 1
    if not any(name in requested.upper() for name in SPLITTING) or not trained(record):
        return None
    launched = max(ranks, record.launch.requested_world_size or 1)
    if launched < 2 or sharding.fraction is None or sharding.fraction > 0:
        return None
    return Sighting(
        message=f"{requested} was requested, {sharding.strategy or 'nothing'} ran, and 0 % of the parameters are "
        f"split over {ranks} ranks.",
        evidence=(
            Evidence(what="sharding requested", value=requested),
            Evidence(what="sharding that ran", value=sharding.strategy),
            Evidence(what="share of parameter bytes sharded", value=sharding.fraction),
            Evidence(what="ranks that trained", value=ranks),
        ),
    )


RULE = Rule(
    id="sharding/requested-and-not-applied",
    title="Sharding was requested and every rank holds the whole model",
    layers=("sharding",),
    severity="warning",
    silent="The run works, with the memory of a replicated model.",
    cause=(
        "The trainer chose another strategy for this device or launcher, or the sharded object is not the one that "
        "trains."
    ),
    remedies=(
        Remedy(
            id="shard-before-optimizer",
            kind="code",
            automatic=False,
            how="fully_shard blocks and model before the optimizer is made, and check isinstance(model, FSDPModule)",
        ),
    ),
    caution="One process has nothing to split with; NO_SHARD and replication are strategies too.",
    residual=True,
    from_record=detect,
)
