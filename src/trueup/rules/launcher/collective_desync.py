"""The ranks issue different collectives."""

from __future__ import annotations

from collections import defaultdict

from trueup.rules.collective_logs import Waiting, desync, in_words, waiting
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.rank_ends import Turn, finished, joins, main_thread, place, same_data, timed_out, turns
from trueup.rules.rank_ends import waiting as waiting_ranks
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Loop, Rank, Record


def detect(record: Record) -> Sighting | None:
    """All ranks stood in collectives, at different lines, or some had stopped although they had the same data."""
    stood = tuple(rank for rank in waiting_ranks(record) if rank.exit.reason == "timeout")
    return (
        apart(record, stood, "when the run was ended")
        or apart(record, timed_out(record), "until they timed out")
        or decided_alone(record)
    )


def apart(record: Record, left: tuple[Rank, ...], until: str) -> Sighting | None:
    places = {place(rank) for rank in left}
    if len(left) < 2 or len(left) < len(record.ranks) or len(places) < 2 or None in places or any(map(joins, left)):
        return None
    return Sighting(
        message=f"All {len(left)} ranks waited in collectives {until}, at {len(places)} places: one of them took "
        "another path, or left the loop before the others.",
        evidence=tuple(Evidence(what="waited at", at=place(rank), ranks=(rank.rank,)) for rank in left[:4]),
        confidence="likely",
    )


def decided_alone(record: Record) -> Sighting | None:
    """Ranks that ended by themselves, after as many batches as those that waited for them had."""
    done, left = finished(record), waiting_ranks(record)
    if not done or not left or len(done) + len(left) < len(record.ranks) or not same_data(record):
        return None
    steps, further = done[0].steps, left[0]
    trained = _trained_on(further, done)
    if trained:
        message = (
            f"Rank {done[0].rank} stopped after {steps} steps and rank {further.rank} went on, although the data of "
            "all ranks are of one length: a decision to stop, as in early stopping, was not the same on all of them."
        )
    else:
        message = (
            f"Rank {done[0].rank} ended after {steps} steps and rank {further.rank} waited for it in a collective, "
            "although the data of all ranks are of one length: one of them decided alone to stop, or the other called "
            "a collective that is not for all ranks."
        )
    loop = next((each for each in further.loops if each.batches is not None), Loop())
    return Sighting(
        message=message,
        evidence=(
            *(Evidence(what="steps of a rank that stopped", value=each.steps, ranks=(each.rank,)) for each in done[:2]),
            *(Evidence(what="waited at", at=place(each), ranks=(each.rank,)) for each in left[:2] if place(each)),
            Evidence(what="batches of a loop on each rank", value=loop.batches, at=loop.at),
        ),
        remedies=(DECIDE_TOGETHER,) if trained else (DECIDE_TOGETHER, SAME_COLLECTIVES),
        confidence="likely",
    )


def _trained_on(rank: Rank, done: tuple[Rank, ...]) -> bool:
    """Whether it was seen to train beyond what the ranks that ended did."""
    begun = {turn for each in done for turn in turns(each)}
    further = {Turn(turn.at, turn.number + 1) for turn in begun} - begun
    backward = any(frame.function == "_engine_run_backward" for frame in main_thread(rank.stack or ""))
    return backward or rank.steps > max(each.steps for each in done) or any(turn in further for turn in turns(rank))


def detect_log(log: Log) -> Sighting | None:
    return reported(log) or numbers_differ(log)


def reported(log: Log) -> Sighting | None:
    """The report of torch itself, unless it says no more than that a rank did not join."""
    report = desync(log)
    if report is None or (report.behind and not report.different):
        return None
    if report.different:
        number, operations = report.different
        told = ", ".join(f"{name} on {in_words(ranks)}" for name, ranks in operations.items())
        message = f"Collective number {number} is {told}."
    elif report.unfinished:
        message = f"{in_words(report.unfinished.ranks)} joined collective {report.unfinished.number} without an end."
    else:
        message = "torch reports that the ranks are out of step; the log does not show which."
    return Sighting(
        message=message[:1].upper() + message[1:],
        evidence=(report.seen.evidence(log),),
        confidence="established" if report.different else "likely",
        failure=report.seen.failure,
        specificity=1200,
    )


def numbers_differ(log: Log) -> Sighting | None:
    """Ranks of one group whose watchdogs name different collectives."""
    for ranks in _by_group(waiting(log)).values():
        first = next((each for each in ranks if each.sequence is not None), None)
        if first is None:
            continue
        other = next((each for each in ranks if each.rank != first.rank and _differs(first, each)), None)
        if other is None:
            continue
        return Sighting(
            message=f"Rank {first.rank} waits for {_in_words(first)}, rank {other.rank} for {_in_words(other)}.",
            evidence=(first.seen.evidence(log), other.seen.evidence(log), *_numbers(ranks)),
            confidence="likely",
            failure=first.seen.failure,
            specificity=1200,
        )
    return None


def _by_group(ranks: list[Waiting]) -> dict[str | None, list[Waiting]]:
    """Sequence numbers count within a group only."""
    groups: dict[str | None, list[Waiting]] = defaultdict(list)
    for each in ranks:
        if each.rank is not None:
            groups[each.group].append(each)
    return groups


def _differs(one: Waiting, other: Waiting) -> bool:
    if other.sequence is None:
        return False
    if one.sequence != other.sequence:
        return True
    return (one.operation, one.elements) != (other.operation, other.elements)


def _in_words(each: Waiting) -> str:
    return f"{each.operation or 'a collective'} number {each.sequence}"


def _numbers(ranks: list[Waiting]) -> tuple[Evidence, ...]:
    by_number: dict[int, set[int]] = defaultdict(set)
    for each in ranks:
        if each.sequence is not None and each.rank is not None:
            by_number[each.sequence].add(each.rank)
    return tuple(
        Evidence(what="sequence number", value=number, ranks=tuple(sorted(which)))
        for number, which in sorted(by_number.items())[:3]
    )


DECIDE_TOGETHER = Remedy(
    id="decide-on-all-ranks",
    kind="code",
    automatic=False,
    how="tell all ranks before any leaves the loop: dist.broadcast(stop, 0), or dist.all_reduce(stop, MAX), then `if "
    "stop.item(): break`",
)

SAME_COLLECTIVES = Remedy(
    id="same-collectives-on-all-ranks",
    kind="code",
    automatic=False,
    how="run the same collectives on every rank: 0 * output of a skipped tower in the loss, the same metric "
    "keys, decisions reduced over the ranks before they are taken",
)

RULE = Rule(
    id="launcher/collective-desync",
    title="Ranks issue different collectives",
    layers=("launcher", "sharding", "precision", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Control flow depends on the rank or on its data: logging, evaluation or saving with a collective inside on "
        "some ranks, batches that skip a submodule, a local decision about overflow or early stopping."
    ),
    remedies=(
        Remedy(
            id="show-diverging-collective",
            kind="env-var",
            automatic=False,
            how="TORCH_DISTRIBUTED_DEBUG=DETAIL for one run names the first collective that differs; "
            "TORCH_FR_BUFFER_SIZE=2000 and torchfrtrace do so without slowing the job",
        ),
        SAME_COLLECTIVES,
    ),
    caution="Two barriers that mismatch under DETAIL may be a false alarm of the debug mode of torch 2.6.",
    sources=(
        "https://github.com/pytorch/pytorch/issues/118369",
        "https://github.com/deepspeedai/DeepSpeed/issues/7568",
    ),
    explains=("launcher/collective-timeout-absent-rank",),
    log=(
        LogText(text="Detected mismatch between collectives on ranks", versions="torch 1.12 or newer, with DETAIL"),
        LogText(text="Collectives differ in the following aspects:", versions="torch 1.13 or newer, with DETAIL"),
        LogText(text="op.preamble.length <= op.nbytes", versions="gloo: another size than the peer's"),
        LogText(text="disagreement between rank0 and rank<number>", versions="deepspeed ZeRO-3"),
        LogText(text="Message truncated : received <number> bytes instead of <number>", versions="NCCL: another size"),
        LogText(text="Mismatched collective detected", versions="NCCL"),
        LogText(text="mismatch in collective", strength="supporting", versions="flight recorder analysis"),
        LogText(text="appears not to match <text> of the same param in process", strength="supporting", versions="DDP"),
    ),
    from_record=detect,
    from_log=detect_log,
)
