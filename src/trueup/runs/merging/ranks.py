"""The ranks: who they are, how far they came, how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from trueup.runs.events import Event, Events
from trueup.runs.merging.endings import end_of, silent_end
from trueup.runs.merging.job import Job, Member, process_group_of, world_size_of
from trueup.runs.merging.values import items, mapping, text, whole
from trueup.runs.outcome import Outcome
from trueup.schema.record import Exit, Loop, Rank

STACK_KEPT = 20_000
FRAMES_KEPT = 4
ERROR_KEPT = 8_000
LOOPS_KEPT = 8


def merged_ranks(job: Job, events: Events, outcome: Outcome | None) -> tuple[Rank, ...]:
    """One entry a rank; `outcome` is None while the command still runs."""
    return tuple(_rank(member, job, events, outcome) for member in job.ranks)


def steps_of(member: Member) -> int:
    """The number of the last optimizer step that the rank told of."""
    end = member.log.last("end") or {}
    last = [whole(end.get("steps")) or 0]
    for event in member.log.of("steps"):
        kept = len(items(event.get("seconds")))
        if kept:
            last.append((whole(event.get("first")) or 1) + (kept - 1) * (whole(event.get("stride")) or 1))
    last += [whole(event.get("step")) or 0 for event in member.log.of("sample")]
    return max(last)


def error_text(error: Event) -> str:
    """Type and message of an uncaught exception, of what caused it, and the user's line last."""
    chain = [mapping(link) for link in items(error.get("chain"))] or [error]
    lines = [_headline(link) if not place else f"caused by {_headline(link)}" for place, link in enumerate(chain)]
    at = error.get("user_at")
    return "\n".join([*lines, *([f"at {at}"] if at else [])])[:ERROR_KEPT]


def error_headline(error: Event) -> str:
    """The last line that Python prints of an uncaught exception: type and first line of the message."""
    return _headline(error).splitlines()[0][:500]


def _headline(link: Any) -> str:
    kind, message = text(link.get("type")) or "exception", (text(link.get("message")) or "").strip()
    return f"{kind}: {message}" if message else kind


def _rank(member: Member, job: Job, events: Events, outcome: Outcome | None) -> Rank:
    process = member.process
    pid = whole(process.get("pid")) or 0
    stack = outcome.stacks.get(pid) if outcome else None
    group = process_group_of(member)
    return Rank(
        rank=member.rank,
        local_rank=whole(process.get("local_rank")),
        world_size=world_size_of(member),
        host=text(process.get("host")) or "",
        pid=pid,
        exit=_exit(member, job, outcome),
        error=_error(member, events.crashes.get(pid)),
        frames=_frames(member),
        trained=member.trained,
        steps=steps_of(member),
        process_group=text(group.get("backend")),
        stack=stack[:STACK_KEPT] if stack else None,
        loops=tuple(_loops(member))[-LOOPS_KEPT:],
    )


def _loops(member: Member) -> Iterator[Loop]:
    begun = member.log.of("loop-begin")
    if any(begin.get("last") for begin in begun):
        return
    ends = {event.get("loop"): event for event in member.log.of("loop-end")}
    numbers: Counter[str | None] = Counter()
    for begin in begun:
        at, end = text(begin.get("at")), ends.get(begin.get("loop"), {})
        numbers[at] += 1
        yield Loop(batches=whole(end.get("batches")), steps=whole(end.get("steps")), at=at, number=numbers[at])


def _exit(member: Member, job: Job, outcome: Outcome | None) -> Exit:
    end, error = member.log.last("end"), member.log.last("error")
    reason: str | None = None
    if outcome is not None and outcome.reason == "timeout" and end is None:
        reason = "timeout"
    elif error is not None and (end is None or not error.get("thread")):
        reason = error_headline(error)
    elif end is not None:
        reason = text(end.get("reason"))
    elif outcome is not None:
        reason = silent_end(member, job, outcome).rstrip(",:")
    known = end_of(member, job, outcome) if outcome is not None else None
    return Exit(code=known.code, signal=known.signal, reason=reason) if known is not None else Exit(reason=reason)


def _frames(member: Member) -> tuple[str, ...]:
    chain = items((member.log.last("error") or {}).get("chain"))
    named = [text(frame) for frame in items(mapping(chain[0]).get("frames"))] if chain else []
    return tuple(frame for frame in reversed(named[-FRAMES_KEPT:]) if frame)


def _error(member: Member, crash: str | None) -> str | None:
    error = member.log.last("error")
    if error is not None:
        return error_text(error)
    return crash.strip()[:ERROR_KEPT] if crash else None
