"""The ranks see different numbers of batches."""

from __future__ import annotations

import re

from trueup.rules.collective_logs import waiting
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import errors, listed
from trueup.rules.rank_ends import (
    LEFT_ALONE,
    Turn,
    finished,
    joins,
    place,
    same_data,
    stood_together,
    turns,
)
from trueup.rules.rank_ends import waiting as waiting_ranks
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Loop, Rank, Record


def detect(record: Record) -> Sighting | None:
    return left_the_job(record) or left_the_loop(record)


def left_the_job(record: Record) -> Sighting | None:
    """Some ranks ended by themselves, and others waited for them in a collective of a further step."""
    done, left = finished(record), waiting_ranks(record)
    if not done or not left or len(done) + len(left) < len(record.ranks) or same_data(record):
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


OUT_OF_STEP = re.compile(rf"{LEFT_ALONE.pattern}|op\.preamble\.length <= op\.nbytes|Fatal Python error: Aborted")
"""What a rank prints that met another collective than its own, or that lost its partners to that."""


SOON = 3
"""Steps that a rank may still make after the end of its data until it is out of step; one that made more copes."""


def left_the_loop(record: Record) -> Sighting | None:
    """A rank had reached the end of its data, others went on to a further batch, and the ranks were out of step."""
    ranks, left = record.ranks, waiting_ranks(record)
    if len(ranks) < 2 or not all(rank in left or _out_of_step(rank) for rank in ranks):
        return None
    if stood_together(record) or any(joins(rank) for rank in ranks):
        return None
    each = [(rank, turns(rank)) for rank in ranks]
    for turn in dict.fromkeys(turn for _, mine in each for turn in mine):
        ended = [(rank, mine[turn]) for rank, mine in each if turn in mine and mine[turn].batches is not None]
        if not ended or all(Turn(turn.at, turn.number + 1) in mine for _, mine in each):
            continue
        first, end = min(ended, key=lambda one: one[1].steps or 0)
        further = tuple(rank for rank, mine in each if _went_on(rank, mine.get(turn), end))
        if further and first.steps <= (end.steps or 0) + SOON:
            return Sighting(
                message=f"The data of rank {first.rank} ended after {end.batches} batches, and {_named(further)} went "
                "on: from there on the ranks were in different collectives.",
                evidence=(
                    Evidence(what="batches until the data ended", value=end.batches, at=end.at, ranks=(first.rank,)),
                    *(
                        Evidence(what="waited at", at=place(rank), ranks=(rank.rank,))
                        for rank in further[:2]
                        if place(rank)
                    ),
                ),
                confidence="likely",
            )
    return None


def _went_on(rank: Rank, loop: Loop | None, end: Loop) -> bool:
    """Whether its data were of another length in this loop, or have not ended although it came as far."""
    if loop is None:
        return False  # it takes its batches from elsewhere: accelerate's dispatcher sends them from rank 0
    return rank.steps >= (end.steps or 0) if loop.batches is None else loop.batches != end.batches


def _out_of_step(rank: Rank) -> bool:
    return bool(rank.error and OUT_OF_STEP.search(rank.error))


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
            id="end-loops-together",
            kind="in-process",
            automatic=True,
            how="end the loop on all ranks with the one whose data ends first: dist.all_reduce of `has a batch`, MIN, "
            "before each further batch",
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
    explains=("launcher/collective-desync", "launcher/collective-timeout-absent-rank"),
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
