"""What the packing probes of all ranks found, as one result."""

from __future__ import annotations

import msgspec

from trueup.runs.merging.job import Job
from trueup.schema.record import Leakage

WORST_FIRST = ("leak", "rounding", "none", "not probed", "not packed")


def merged_leakage(job: Job) -> Leakage | None:
    """The result of the rank with the worst verdict and, of those, the largest change."""
    told: dict[int, Leakage] = {}
    for member in job.ranks:
        for event in member.log.of("probe"):
            if event.get("probe") == "packing" and event.get("verdict") in WORST_FIRST:
                told[member.rank] = msgspec.convert(event, Leakage)
    if not told:
        return None
    worst = min(told.values(), key=lambda each: (WORST_FIRST.index(each.verdict), -(each.change or 0.0)))
    ranks = tuple(rank for rank, each in told.items() if each.verdict == worst.verdict)
    return msgspec.structs.replace(worst, ranks=ranks)
