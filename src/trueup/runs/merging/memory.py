"""The highest memory of each rank."""

from __future__ import annotations

from trueup.runs.merging.job import Job
from trueup.runs.merging.values import text, whole
from trueup.schema.record import Memory


def merged_memory(job: Job) -> Memory:
    """Peaks of all ranks; the highest is the run's."""
    peaks: dict[str, int] = {}
    source = None
    for member in job.ranks:
        events = member.log.of("memory")
        seen = [peak for event in events if (peak := whole(event.get("peak_bytes"))) is not None]
        if seen:
            peaks[str(member.rank)] = max(seen)
            source = source or text(events[-1].get("source"))
    return Memory(peak_bytes=max(peaks.values(), default=None), source=source, per_rank=peaks)
