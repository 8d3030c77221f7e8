"""The stack: the layers of the lead rank in the order in which they were applied."""

from __future__ import annotations

from typing import cast

from trueup.runs.events import Event
from trueup.runs.merging.job import Job
from trueup.runs.merging.values import mapping, text
from trueup.schema.layer import LAYERS, Layer
from trueup.schema.record import Applied


def merged_order(job: Job) -> tuple[Applied, ...]:
    """All `layer` events of the lead rank; those of layers that this trueup does not know are left out."""
    rank = job.lead.rank if job.lead else 0
    events = [event for event in job.of_lead("layer") if event.get("layer") in LAYERS]
    return tuple(_applied(event, rank) for event in sorted(events, key=lambda event: event.get("t") or 0.0))


def _applied(event: Event, rank: int) -> Applied:
    return Applied(
        layer=cast(Layer, event["layer"]),
        event=str(event.get("event")),
        module=text(event.get("module")),
        at=text(event.get("at")),
        detail=dict(mapping(event.get("detail"))),
        rank=rank,
    )
