"""How many processes were asked for, and how many trained."""

from __future__ import annotations

from trueup.runs.events import Event
from trueup.runs.merging.job import Job, world_size_of
from trueup.runs.merging.values import mapping, text, whole
from trueup.schema.record import Launch


def merged_launch(job: Job) -> Launch:
    """Requested from the outermost launcher that knows a number, else from WORLD_SIZE as a cluster sets it."""
    asked = [event for log in job.launchers for event in log.of("launcher")]
    names = tuple(dict.fromkeys(str(event.get("name")) for event in asked if event.get("name")))
    counting = next((event for event in asked if whole(event.get("processes"))), None)
    requested = whole(job.lead.process.get("world_size")) if job.lead else None
    source = "environment variable WORLD_SIZE" if requested is not None else None
    if counting is not None:
        requested, source = whole(counting.get("processes")), _source(counting)
    return Launch(requested_world_size=requested, world_size=_world(job), launchers=names, source=source)


def missing_hosts(job: Job) -> int:
    """How many hosts of the job have not written into this folder (each host may have one of its own)."""
    nodes = [whole(event.get("nodes")) or 1 for log in job.launchers for event in log.of("launcher")]
    hosts = {str(member.process.get("host")) for member in job.ranks}
    return max(0, max(nodes, default=1) - len(hosts)) if hosts else 0


def _world(job: Job) -> int | None:
    """Processes that trained; where the other hosts' events are not here, what the ranks themselves know."""
    if not job.trained:
        return None
    if missing_hosts(job) and job.lead is not None:
        return world_size_of(job.lead) or len(job.trained)
    return len(job.trained)


def _source(event: Event) -> str:
    """Where the number stands: as the launcher says, else its own name."""
    detail = mapping(event.get("detail"))
    return text(event.get("source") or detail.get("source") or detail.get("config_file")) or str(event.get("name"))
