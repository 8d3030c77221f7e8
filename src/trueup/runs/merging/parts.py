"""The parts of the layers that were forced in some of them alone."""

from __future__ import annotations

from trueup.runs.merging.job import Job


def merged_parts(job: Job) -> dict[str, tuple[str, ...]]:
    """Layer → names of its parts, as the lead rank told them last."""
    return {str(event.get("layer")): tuple(map(str, event.get("names") or ())) for event in job.of_lead("parts")}
