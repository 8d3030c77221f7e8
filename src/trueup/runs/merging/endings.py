"""How a rank ended when it did not say so itself: from its launcher, and from the command's end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass

from trueup.runs.merging.job import Job, Member
from trueup.runs.merging.values import items, mapping, number, whole
from trueup.runs.outcome import Outcome
from trueup.schema.record import Note

BY_THE_LAUNCHER = "SIGTERM"
"""What a launcher sends to the other ranks when one has failed: a consequence, never the cause."""


@dataclass(frozen=True)
class Failure:
    """A process that ended badly, as its launcher saw it."""

    rank: int
    pid: int
    code: int
    """As a shell gives it: 128 + signal for a death by signal."""
    signal: str | None
    moment: float


def failures_of(job: Job) -> list[Failure]:
    """The processes that launchers saw fail, first the earliest."""
    found = []
    for log in job.launchers:
        for event in log.of("ranks-failed"):
            for entry in map(mapping, items(event.get("ranks"))):
                code = whole(entry.get("code")) or 0
                found.append(
                    Failure(
                        rank=whole(entry.get("rank")) or 0,
                        pid=whole(entry.get("pid")) or 0,
                        code=128 - code if code < 0 else code,
                        signal=_signal_name(-code) if code < 0 else None,
                        moment=number(entry.get("t")) or 0.0,
                    )
                )
    return sorted(found, key=lambda failure: (failure.moment, failure.rank))


def killed_first(job: Job) -> Failure | None:
    """The rank that a signal killed first: what the others say of it afterwards are consequences."""
    killed = [each for each in failures_of(job) if each.signal not in (None, BY_THE_LAUNCHER)]
    return killed[0] if killed else None


def end_of(member: Member, job: Job, outcome: Outcome) -> Failure | None:
    """Exit code and signal of a rank's process, where they are known."""
    pid = whole(member.process.get("pid")) or 0
    if pid == outcome.pid:
        return Failure(member.rank, pid, outcome.code, outcome.signal, 0.0)
    return next((failure for failure in failures_of(job) if failure.pid == pid), None)


def silent_end(member: Member, job: Job, outcome: Outcome) -> str:
    """What became of a rank that has written no end."""
    if outcome.reason == "timeout":
        return "was stopped by the timeout"
    end = end_of(member, job, outcome)
    if end is not None and end.signal is not None:
        return f"was killed by {end.signal}"
    if end is not None and end.code:
        return f"ended with exit code {end.code}, by os._exit or a crash,"
    if outcome.code == 0:
        return "succeeded, but left by os._exit or could not write its events to the end:"
    return "was killed or crashed"


def ending_notes(job: Job, outcome: Outcome) -> Iterator[Note]:
    """One note for the ranks that ended alike without a word."""
    silent: dict[str, list[int]] = {}
    for member in job.ranks:
        if member.log.last("end") is None:
            silent.setdefault(silent_end(member, job, outcome), []).append(member.rank)
    first = killed_first(job)
    for how, ranks in silent.items():
        what = f"{ranks_named(tuple(ranks))} {how} before it could write how it ended"
        if how.endswith(":"):
            what = f"{ranks_named(tuple(ranks))} {how} what came last is missing"
        elif first is not None and len(silent) > 1 and first.rank in ranks:
            what += "; it was the first to fail"
        yield Note(what=what, ranks=tuple(ranks))


def ranks_named(numbers: tuple[int, ...]) -> str:
    """`Rank 3`, `Ranks 0, 1, ...`."""
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"Rank {shown}" if len(numbers) == 1 else f"Ranks {shown}"


def _signal_name(value: int) -> str:
    try:
        return signal.Signals(value).name
    except ValueError:
        return f"signal {value}"
