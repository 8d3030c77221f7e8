"""The ranks see different numbers of batches."""

from __future__ import annotations

from trueup.rules.collective_logs import waiting
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import errors, listed
from trueup.rules.rank_ends import LEFT_ALONE, finished, place
from trueup.rules.rank_ends import waiting as waiting_ranks
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Rank, Record


def detect(record: Record) -> Sighting | None:
    """Some ranks ended by themselves, and others waited for them in a collective of a further step."""
    done, left = finished(record), waiting_ranks(record)
    if not done or not left or len(done) + len(left) < len(record.ranks):
        return None
    steps = max(rank.steps for rank in done)
    return Sighting(
        message=f"{_named(done).capitalize()} ended after {steps} steps, and {_named(left)} waited in the next one for "
        "a collective that never came.",
        evidence=(
            Evidence(what="optimizer steps of the ranks that ended", value=steps, ranks=numbers(done)),
            Evidence(what="optimizer steps of the ranks that waited", value=left[0].steps, ranks=numbers(left)),
            *(Evidence(what="waited at", at=place(rank), ranks=(rank.rank,)) for rank in left[:1] if place(rank)),
            *errors(record, LEFT_ALONE.pattern)[:1],
        ),
        confidence="likely",
    )


def numbers(ranks: tuple[Rank, ...]) -> tuple[int, ...]:
    return tuple(rank.rank for rank in ranks)


def _named(ranks: tuple[Rank, ...]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {listed(map(str, numbers(ranks)))}"


def detect_log(log: Log) -> Sighting | None:
    """A single all-to-all that timed out: sequence parallelism whose group ran out of batches. Only a possibility."""
    ranks = waiting(log)
    first = next((each for each in ranks if (each.operation or "").startswith("ALLTOALL")), None)
    if first is None or len({(each.sequence, each.operation) for each in ranks}) > 1:
        return None
    return Sighting(
        message="An all-to-all of sequence or expert parallelism timed out; at the end of an epoch that means uneven "
        "batches.",
        evidence=(first.seen.evidence(log),),
        confidence="possible",
        failure=first.seen.failure,
        specificity=1100,
    )


RULE = Rule(
    id="launcher/uneven-batches-at-epoch-end",
    title="Ranks see different numbers of batches",
    layers=("launcher", "sharding", "trainer"),
    severity="error",
    silent="",
    cause="The sampler does not give every data-parallel or sequence-parallel group the same number of steps.",
    remedies=(
        Remedy(
            id="drop-last-batch",
            kind="config-edit",
            automatic=False,
            how="DataLoader(..., drop_last=True), or a sampler that pads to the same number of batches",
        ),
        Remedy(
            id="shard-by-data-parallel-rank",
            kind="code",
            automatic=False,
            how="DistributedSampler(num_replicas=dp_size, rank=dp_rank) under sequence parallelism, never the global "
            "rank",
        ),
        Remedy(
            id="join-uneven-inputs",
            kind="code",
            automatic=False,
            how="with torch.distributed.algorithms.Join([ddp_model]): around the loop, for DDP",
        ),
    ),
    caution="Compare the number of batches of each rank; a timeout in the middle of an epoch has another cause.",
    sources=("https://github.com/verl-project/verl/issues/1158",),
    log=(
        LogText(text="Detected at least one rank that exhausted inputs", versions="torch 1.8 or newer, Join"),
        LogText(
            text="You can't use batches of different size with `dispatch_batches=True`",
            strength="supporting",
            versions="accelerate",
        ),
        LogText(
            text="does not have the same number of batches",
            strength="supporting",
            versions="data loaders of frameworks",
        ),
    ),
    from_record=detect,
    from_log=detect_log,
)
