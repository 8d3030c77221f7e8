"""Attention kernels that were taken in place of others, by the ranks that did so."""

from __future__ import annotations

from trueup.runs.merging.job import Job
from trueup.runs.merging.values import text
from trueup.schema.record import Fallback


def merged_fallbacks(job: Job) -> tuple[Fallback, ...]:
    """One for each pair of kernels, reason and class of models."""
    found: dict[tuple[str | None, ...], list[int]] = {}
    for member in job.ranks:
        for event in member.log.of("fallback"):
            told = tuple(text(event.get(name)) for name in ("requested", "actual", "reason", "model"))
            ranks = found.setdefault(told, [])
            if member.rank not in ranks:
                ranks.append(member.rank)
    return tuple(
        Fallback(requested=requested or "", actual=actual or "", reason=reason or "", model=model, ranks=tuple(ranks))
        for (requested, actual, reason, model), ranks in found.items()
    )
