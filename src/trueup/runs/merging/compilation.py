"""What torch.compile did, and how much of the model ran compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trueup.runs.events import Event
from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import blocks_of, coverage_sample, fraction_compiled, ran_compiled
from trueup.runs.merging.values import items, mapping, number, text, truth, whole
from trueup.schema.record import Blocks, CapturedGraph, Compile, GraphBreak, LimitHit, Recompile

ENTRY = re.compile(r"^\s*\d+/\d+:\s*")
VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")
ENTRY_EVENTS = ("torch.compile", "Module.compile", "compile_regions")


def merged_compile(job: Job) -> Compile:
    """Dynamo's events of the lead rank, and the coverage that its samples show."""
    events = job.of_lead("compile")
    by_what: dict[str, list[Event]] = {}
    for event in events:
        by_what.setdefault(str(event.get("what")), []).append(event)
    sample = coverage_sample(job)
    modules = mapping(sample.get("modules"))
    seconds = [number(event.get("seconds")) for event in by_what.get("seconds", ())]
    caches = [bool(event.get("hit")) for event in by_what.get("cache", ())]
    return Compile(
        fraction=fraction_compiled(sample),
        blocks=_blocks(job, sample),
        graphs=len(by_what.get("graph", ())),
        captured=_captured(by_what),
        applied=_applied(by_what.get("bisected", ())),
        last_applied=_last_applied(by_what.get("bisected", ())),
        regions_per_step=_regions(sample),
        recompiles=_recompiles(by_what.get("recompile", ())),
        breaks=_breaks(by_what.get("break", ())),
        limits=_limits(by_what.get("limit", ())),
        failures=tuple(dict.fromkeys(map(_failure, filter(_is_failure, by_what.get("failure", ()))))),
        frames=len(by_what.get("start", ())),
        checkpoints_in_graph=sum(whole(event.get("checkpoints")) or 0 for event in by_what.get("graph", ())),
        seconds=sum(each for each in seconds if each is not None) if seconds else None,
        cache_hits=sum(caches),
        cache_misses=len(caches) - sum(caches),
        eager_modules={str(name): whole(calls) or 0 for name, calls in mapping(modules.get("eager")).items()},
        root_eager=truth(modules.get("root_eager")),
        evaluated_eager=_most_evaluated(job),
        entries=tuple(
            dict.fromkeys(
                str(event["module"])
                for event in job.of_lead("layer")
                if event.get("event") in ENTRY_EVENTS and event.get("module")
            )
        ),
        holders=whole(job.last_of_lead("model").get("compile_entries")),
    )


def _captured(by_what: Mapping[str, Sequence[Event]]) -> tuple[CapturedGraph, ...]:
    """Each frame once, where it was first compiled. Graphs of compiled autograd have no frame."""
    frames = {_frame(event) for event in by_what.get("graph", ())} - {None}
    starts: dict[int | None, Event] = {}
    for event in by_what.get("start", ()):
        starts.setdefault(_frame(event), event)
    return tuple(
        CapturedGraph(
            frame=frame,
            function=text(starts.get(frame, {}).get("function")),
            at=text(starts.get(frame, {}).get("at")),
        )
        for frame in sorted(each for each in frames if each is not None)
    )


def _frame(event: Event) -> int | None:
    """Of a compile id such as `3/1`, or `!2/3/1` inside of compiled autograd."""
    parts = str(event.get("id")).split("/")
    return int(parts[-2]) if len(parts) > 1 and parts[-2].isdigit() else None


def _applied(events: Iterable[Event]) -> dict[str, int]:
    applied: dict[str, int] = {}
    for event in events:
        for name, calls in mapping(event.get("applied")).items():
            applied[str(name)] = max(applied.get(str(name), 0), whole(calls) or 0)
    return applied


def _last_applied(events: Iterable[Event]) -> str | None:
    return next((last for event in events if (last := text(event.get("last")))), None)


def _blocks(job: Job, sample: Event) -> Blocks:
    """Blocks that took part in the sampled step; before the first sample, those of the model, none known compiled."""
    blocks = blocks_of(sample)
    if blocks:
        names = tuple(dict.fromkeys(str(block.get("class")) for block in blocks))
        return Blocks(total=len(blocks), compiled=sum(map(ran_compiled, blocks)), names=names)
    of_model = mapping(job.last_of_lead("model").get("blocks"))
    return Blocks(total=whole(of_model.get("total")) or 0, names=tuple(map(str, items(of_model.get("classes")))))


def _most_evaluated(job: Job) -> int | None:
    """The largest number of a sample: not every sampled step holds an evaluation."""
    seen = [whole(mapping(sample.get("modules")).get("evaluated_eager")) for sample in job.of_lead("sample")]
    return max((number for number in seen if number is not None), default=None)


def _regions(sample: Event) -> int | None:
    if sample.get("recorded") is False:
        return None
    found = whole(mapping(sample.get("modules")).get("regions"))
    return found if found is not None else whole(sample.get("regions"))


def _recompiles(events: Iterable[Event]) -> tuple[Recompile, ...]:
    """Equal recompiles of one step together; the reason is that of the newest cached graph."""
    groups: dict[Any, Recompile] = {}
    for event in events:
        reasons = items(event.get("reasons"))
        reason = str(reasons[0]) if reasons else "no reason given"
        at, function, step = text(event.get("at")), text(event.get("function")), whole(event.get("step"))
        key = (alike(reason), at, function, step)
        if key in groups:
            groups[key] = msgspec.structs.replace(groups[key], count=groups[key].count + 1)
        else:
            groups[key] = Recompile(
                reason=reason, at=at, function=function, step=step, within=text(event.get("within"))
            )
    return tuple(groups.values())


def _breaks(events: Iterable[Event]) -> tuple[GraphBreak, ...]:
    groups: dict[Any, GraphBreak] = {}
    for event in events:
        found = GraphBreak(
            reason=_reason(event),
            explanation=text(event.get("explanation")),
            at=text(event.get("at")),
            kind=text(event.get("type")),
            frame=text(event.get("frame")),
            inside=text(event.get("inside")),
        )
        key = (alike(found.reason), found.at, found.frame)
        if key in groups:
            groups[key] = msgspec.structs.replace(groups[key], count=groups[key].count + 1)
        else:
            groups[key] = found
    return tuple(groups.values())


def _reason(event: Event) -> str:
    """Headline of a break, and the context that Dynamo gives for developers on a second line."""
    parts = [text(event.get(name)) for name in ("reason", "context")]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def _limits(events: Iterable[Event]) -> tuple[LimitHit, ...]:
    """Each function and limit once, with the last reason."""
    found: dict[Any, LimitHit] = {}
    for event in events:
        function, limit = text(event.get("function")) or "a function", text(event.get("limit")) or "recompile_limit"
        found[function, limit] = LimitHit(function=function, limit=limit, reason=text(event.get("reason")))
    return tuple(found.values())


def _is_failure(event: Event) -> bool:
    """Dynamo reports a recompile limit as a failed compile; that is what `limit` events tell."""
    return "recompile limit exceeded" not in str(event.get("error"))


def _failure(event: Event) -> str:
    where = event.get("at") or event.get("function")
    return f"{event.get('error')} ({where})" if where else str(event.get("error"))


def alike(reason: str) -> str:
    """The reason without numbers, addresses and object ids: equal for recompiles that differ in nothing else."""
    return VARYING.sub("#", ENTRY.sub("", reason))
