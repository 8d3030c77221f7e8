"""Who is who among the processes that wrote events: ranks, launchers, and processes that were neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trueup.runs.events import Event, ProcessEvents


@dataclass
class Member:
    """One rank of the job."""

    rank: int
    log: ProcessEvents
    trained: bool

    @property
    def process(self) -> Event:
        return self.log.process


@dataclass
class Job:
    """The processes of a run by role."""

    ranks: list[Member] = field(default_factory=list)
    """In the order of their numbers."""
    launchers: list[ProcessEvents] = field(default_factory=list)
    """Processes that said what they would start, in the order in which they did."""
    empty: int = 0
    """Processes whose file holds no event."""
    restarts: int = 0
    """How many processes had the number of a rank that a later process took over."""

    @property
    def trained(self) -> list[Member]:
        return [member for member in self.ranks if member.trained]

    @property
    def lead(self) -> Member | None:
        """The lowest rank that trained, else the lowest that reported: values that differ by rank are taken from it."""
        return next(iter(self.trained), next(iter(self.ranks), None))

    def of_lead(self, *kinds: str) -> list[Event]:
        """The lead's events of these kinds."""
        return self.lead.log.of(*kinds) if self.lead else []

    def last_of_lead(self, kind: str) -> Event:
        """The lead's newest event of a kind; empty when there is none."""
        return (self.lead.log.last(kind) if self.lead else None) or {}


def job_of(processes: list[ProcessEvents]) -> Job:
    """Find the ranks.

    A process that made steps is a rank, whatever started it; without a number of its own it gets the next one, so that
    a plain `python` process is rank 0. A process that has a number but did not train (yet) is a rank as well. One that
    has neither is a rank only when no process trained and none has a number: the parent of `mp.spawn` is none.
    """
    told = [log for log in processes if log.events]
    by_time = sorted(told, key=lambda log: (_started(log), log.file))
    launchers = [log for log in by_time if log.of("launcher")]
    logs = [log for log in by_time if has_trained(log) or (_role(log) == "rank" and number_of(log) is not None)]
    if not logs:
        logs = _plain([log for log in by_time if _role(log) == "rank"])
    members: dict[int, Member] = {}
    restarts = 0
    without_number = []
    for log in logs:
        number = number_of(log)
        if number is None:
            without_number.append(log)
            continue
        member = Member(number, log, has_trained(log))
        restarts += number in members
        if number not in members or member.trained or not members[number].trained:
            members[number] = member
    if members and without_number:  # two jobs one after the other, of which one had no launcher: the later one counts
        if _started(without_number[-1]) > max(_started(member.log) for member in members.values()):
            members = {}
        else:
            without_number = []
    for number, log in enumerate(_together(without_number)):
        members[number] = Member(number, log, has_trained(log))
    ranks = [members[number] for number in sorted(members)]
    return Job(_of_one_launch(ranks), launchers, empty=len(processes) - len(told), restarts=restarts)


def has_trained(log: ProcessEvents) -> bool:
    """True when the process made an optimizer step or a backward pass."""
    end = log.last("end")
    return any(event["kind"] in ("steps", "sample", "gradient") for event in log.events) or bool(
        end and end.get("trained")
    )


def number_of(log: ProcessEvents) -> int | None:
    """The rank of a process: from its environment, else from torch.distributed's default group."""
    number = log.process.get("rank")
    if isinstance(number, int):
        return number
    for event in log.of("layer"):
        if event.get("event") == "init_process_group":
            found = (event.get("detail") or {}).get("rank")
            if isinstance(found, int):
                return found
    return None


def world_size_of(member: Member) -> int | None:
    """How many ranks this one knows of."""
    group = process_group_of(member)
    for size in (group.get("world_size"), member.process.get("world_size")):
        if isinstance(size, int):
            return size
    return None


def process_group_of(member: Member) -> dict[str, Any]:
    """What the process said of torch.distributed's default group; empty when it was never made."""
    for event in member.log.of("layer"):
        if event.get("event") == "init_process_group":
            return dict(event.get("detail") or {})
    end = member.log.last("end") or {}
    group = end.get("process_group")
    if isinstance(group, dict):
        return group
    return {"backend": group} if isinstance(group, str) else {}


def _role(log: ProcessEvents) -> str:
    return str(log.process.get("role") or "rank")


def _started(log: ProcessEvents) -> float:
    first = log.process or (log.events[0] if log.events else {})
    moment = first.get("t")
    return float(moment) if isinstance(moment, (int, float)) else 0.0


def _plain(logs: list[ProcessEvents]) -> list[ProcessEvents]:
    """Of processes without a number none of which trained, the one that tells most: it failed, or says a lot."""
    return [max(logs, key=lambda log: (log.last("error") is not None, len(log.events)))] if logs else []


def _together(logs: list[ProcessEvents]) -> list[ProcessEvents]:
    """Those that ran at the same time as the last one: of two jobs one after the other, the last."""
    if not logs:
        return []
    last = logs[-1]
    return [log for log in logs if log is last or _ended(log) > _started(last)]


def _ended(log: ProcessEvents) -> float:
    moment = log.events[-1].get("t") if log.events else None
    return float(moment) if isinstance(moment, (int, float)) else 0.0


def _of_one_launch(ranks: list[Member]) -> list[Member]:
    """Without ranks of an earlier, larger launch in the same run."""
    size = world_size_of(ranks[0]) if ranks else None
    return [member for member in ranks if size is None or member.rank < size]
