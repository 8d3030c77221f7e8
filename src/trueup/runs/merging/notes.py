"""What the record lacks, and why."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.remedies.registry import checked
from trueup.runs.events import Events
from trueup.runs.injection import EVENTS
from trueup.runs.interpreter import is_python, isolating_options
from trueup.runs.merging.endings import ending_notes, ranks_named
from trueup.runs.merging.job import Job, Member, world_size_of
from trueup.runs.merging.launch import missing_hosts
from trueup.runs.merging.values import mapping, text
from trueup.runs.outcome import Outcome
from trueup.runs.tree import Sighting
from trueup.schema.record import Note, unchanged
from trueup.schema.variant import Variant, orders

NOTHING = "No process of the command reported"
LONGEST_COMMAND = 80
"""Characters of a command line in a note."""
LARGE_SHARE = 0.5
"""Of the variables of the shell: with more of them, single ones were taken out and not all replaced."""


def merged_notes(job: Job, events: Events, outcome: Outcome | None, variant: Variant) -> tuple[Note, ...]:
    """One note for each thing that is missing; `outcome` is None while the command still runs."""
    return tuple(_notes(job, events, outcome, variant))


def _notes(job: Job, events: Events, outcome: Outcome | None, variant: Variant) -> Iterator[Note]:
    if outcome is not None:
        yield from (Note(what=what) for what in outcome.notes)
        if not job.ranks:
            yield Note(what=unobserved(outcome.sightings))
        if job.empty:
            yield Note(what=f"{job.empty} processes opened a file for their events and could write nothing into it")
        yield from ending_notes(job, outcome)
        if job.ranks:
            yield from _not_switched(events, variant)
    yield from _absent(job)
    if job.restarts:
        yield Note(what=f"Ranks were started again {job.restarts} times; the record shows the last start of each")
    yield from _observers_off(job)
    torn = tuple(member.rank for member in job.ranks if member.log.torn) if outcome is not None else ()
    if torn:
        yield Note(what=f"The last event of {ranks_named(torn)} is incomplete and was left out", ranks=torn)
    corrupt = sum(log.corrupt for log in events.processes)
    if corrupt:
        yield Note(what=f"{corrupt} lines of the events folder are no events and were left out")


def unobserved(sightings: list[Sighting]) -> str:
    """Why no process reported, from the command lines and environments seen in the process tree."""
    pythons = [one for one in sightings if is_python(one.command)]
    if not pythons:
        return f"{NOTHING}, and no Python process was seen among its {len(sightings)} processes"
    isolated = [one for one in pythons if isolating_options(one.command)]
    if isolated:
        options = " ".join(dict.fromkeys(option for one in isolated for option in isolating_options(one.command)))
        return f"{NOTHING}: Python was started with {options}, which shuts the observer out; leave the option out"
    lost = next((one for one in pythons if one.has_events is False), None)
    if lost is not None:
        return f"{NOTHING}: {lost_variables(lost)}"
    replaced = next((one for one in pythons if one.has_bootstrap is False), None)
    if replaced is not None:
        now = "has none" if replaced.python_path is None else f"has {replaced.python_path or 'an empty one'}"
        return (
            f"{NOTHING}: PYTHONPATH, to which trueup adds its folder, was replaced on the way to Python, and "
            f"{process_named(replaced)} {now}; keep what it holds, for example PYTHONPATH=src:$PYTHONPATH"
        )
    return f"{NOTHING}: Python ran, but neither trained nor failed nor imported torch, or could not write its events"


def lost_variables(python: Sighting) -> str:
    """What is known of a Python that lacks the variables trueup gave to the command."""
    seen = f"{process_named(python)} ran without {EVENTS}, which trueup had set for the command"
    if python.inherited is not None and python.inherited > LARGE_SHARE:
        return f"{seen}; most other variables arrived, so it was taken out on the way (unset, env -u); let it pass"
    few = "" if python.inherited is None else f", and with {python.inherited:.0%} of the variables of the shell"
    return (
        f"{seen}{few}: it was started with an environment of its own, as env -i, sudo, ssh and containers do; "
        "put `trueup run --` behind that, in front of Python or its launcher"
    )


def process_named(python: Sighting) -> str:
    """The process by its number and its command line."""
    return f"process {python.pid} ({shortened(' '.join(python.command), LONGEST_COMMAND)})"


def shortened(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[:longest]}…"


def _absent(job: Job) -> Iterator[Note]:
    """Ranks that the others know of and that never wrote."""
    hosts = missing_hosts(job)
    if hosts:
        yield Note(what=f"{hosts} hosts of the job write their events elsewhere; the record shows only the ranks here")
        return
    size = max((world_size_of(member) or 0 for member in job.ranks), default=0)
    absent = tuple(sorted(set(range(size)) - {member.rank for member in job.ranks}))
    if absent:
        yield Note(what=f"{ranks_named(absent)} never reported, of {size}", ranks=absent)


def _not_switched(events: Events, variant: Variant) -> Iterator[Note]:
    """Forced layers and remedies by which no process of the job changed anything, or left something as it was."""
    asked = {layer: f"--set {layer}={value}" for layer, value in variant.layers.items()}
    order = orders(variant)
    asked |= {each: each for each in order}
    asked |= {each.remedy: f"remedy {each.remedy}" for each in checked(variant.remedies) if each.in_process}
    for applier, what in asked.items():
        told = [event for log in events.processes for event in log.of("applier") if event.get("applier") == applier]
        details = [mapping(event.get("detail")) for event in told]
        reasons = list(dict.fromkeys(reason for detail in details if (reason := text(detail.get("cannot")))))
        changed = any(detail.get("change") for detail in details)
        if not changed:
            places = "the job has no two steps of these kinds that can change places, or has them in this order"
            why = reasons or [places if applier in order else "the job asks for nothing of this kind, or for just that"]
            yield Note(what=f"{unchanged(what)}: {'; '.join(why)}")
        elif reasons:
            yield Note(what=f"{what} did not reach everything: {'; '.join(reasons)}")


def _observers_off(job: Job) -> Iterator[Note]:
    off: dict[str, list[Member]] = {}
    for member in job.ranks:
        for event in member.log.of("observer-off"):
            off.setdefault(f"{event.get('observer')}: {event.get('error')}", []).append(member)
    for what, members in off.items():
        yield Note(what=f"An observer switched itself off: {what}", ranks=tuple(member.rank for member in members))
