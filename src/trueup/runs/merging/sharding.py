"""How the parameters are split over ranks."""

from __future__ import annotations

from trueup.runs.events import Event
from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import recorded, steady_samples
from trueup.runs.merging.values import added, mapping, number, text, whole
from trueup.schema.record import Exchange, Sharding


def merged_sharding(job: Job) -> Sharding:
    """From the last look at the lead rank's model; collectives from its last steady sample."""
    model = job.last_of_lead("model")
    seen = mapping(model.get("sharding"))
    samples = recorded(steady_samples(job))
    sample = samples[-1] if samples else {}
    gathers, backwards = number(sample.get("gathers_in_backward")), number(sample.get("backwards"))
    total, split = number(seen.get("bytes_total")), number(seen.get("bytes_sharded"))
    return Sharding(
        strategy=text(seen.get("strategy")),
        fraction=split / total if total and split is not None else None,
        units=whole(seen.get("units")) or 0,
        replicas=whole(seen.get("replicas")),
        collectives=added([sample.get("collectives")]),
        reducing_backwards=whole(sample.get("reducing_backwards")),
        gathers_per_backward=gathers / backwards if gathers is not None and backwards else None,
        exchanges=tuple(_exchange(each) for each in samples if not each.get("compiled_during")),
        trainable_elements=whole(mapping(model.get("parameters")).get("trainable_elements")),
    )


def _exchange(sample: Event) -> Exchange:
    followed = sample.get("watched") is not False
    return Exchange(
        step=whole(sample.get("step")) or 0,
        backwards=whole(sample.get("backwards")) or 0,
        reducing_backwards=whole(sample.get("reducing_backwards")) or 0,
        collectives=added([sample.get("collectives")]),
        elements=whole(sample.get("exchanged_elements")),
        wrapper_forwards=whole(sample.get("wrapper_forwards")) if followed else None,
        without_sync=whole(sample.get("no_sync")) or 0,
    )
