"""Events as processes write them, for the tests of merging."""

from __future__ import annotations

from typing import Any

from trueup.runs.events import Event, Events, ProcessEvents
from trueup.runs.merge import merge
from trueup.runs.outcome import Outcome
from trueup.schema.record import Record


def process(*events: Event, start: float = 1.0, end: str | None = "finished", **fields: Any) -> ProcessEvents:
    """The events of one process; `fields` are those of its `process` event."""
    header = {
        "t": start,
        "kind": "process",
        "schema": 1,
        "host": "a",
        "pid": int(100 + start),
        "role": "rank",
        "rank": None,
        "world_size": None,
        "python": "3.11.7",
        "variables": {},
        **fields,
    }
    log = ProcessEvents(f"events-{header['host']}-{header['pid']}-{start}.jsonl", process=header)
    log.events = [header, *events]
    if end is not None:
        log.events.append(event("end", t=start + 10, reason=end, trained=False, steps=0))
    return log


def event(kind: str, t: float = 2.0, **fields: Any) -> Event:
    return {"t": t, "kind": kind, **fields}


def steps(*losses: float | None, first: int = 1, stride: int = 1, **fields: Any) -> Event:
    return event(
        "steps",
        first=first,
        stride=stride,
        seconds=[0.5] * len(losses),
        losses=list(losses),
        tokens=[8] * len(losses),
        micro=[2] * len(losses),
        **fields,
    )


def ranks(number: int, *events: Event, **fields: Any) -> list[ProcessEvents]:
    """Processes as torchrun starts them, all with the same events."""
    return [
        process(*events, start=10.0 + rank, rank=rank, local_rank=rank, world_size=number, **fields)
        for rank in range(number)
    ]


def merged(*logs: ProcessEvents, code: int | None = 0, **outcome: Any) -> Record:
    ended = None if code is None else Outcome(code=code, **outcome)
    return merge(Events(processes=list(logs)), command=("torchrun", "train.py"), outcome=ended)


def notes(record: Record) -> str:
    return "\n".join(note.what for note in record.notes)


def launcher(name: str = "torchrun", processes: int | None = 2, **fields: Any) -> ProcessEvents:
    told = event("launcher", name=name, processes=processes, per_node=processes, nodes=1, detail={}, **fields)
    return process(told, role="launcher", rank=None)
