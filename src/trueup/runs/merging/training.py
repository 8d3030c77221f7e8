"""What the optimizer really trains."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import steady_samples
from trueup.runs.merging.values import items, mapping, names, text, truth, whole
from trueup.schema.record import Training


def merged_training(job: Job) -> Training:
    """From the lead rank's last look at its model, and from what its samples saw of gradients and updates."""
    model = job.last_of_lead("model")
    parameters, optimizer = mapping(model.get("parameters")), mapping(model.get("optimizer"))
    tied = mapping(model.get("tied"))
    steady = steady_samples(job)
    return Training(
        parameters=whole(parameters.get("tensors")) or 0,
        trainable=whole(parameters.get("trainable_tensors")) or 0,
        in_no_optimizer=names(optimizer.get("in_no_optimizer")),
        in_no_optimizer_count=whole(optimizer.get("in_no_optimizer_count")),
        not_of_model=whole(optimizer.get("not_of_model")) or 0,
        without_gradient=_in_every(job, "gradients", "without"),
        without_gradient_count=_fewest(job, "gradients", "without_count"),
        unchanged=_in_every(job, "updates", "unchanged"),
        optimizers=names(optimizer.get("names")),
        accumulation=_accumulation(job),
        observed=bool(model),
        models=tuple(
            text(mapping(root).get("class")) or "" for root in items(model.get("roots")) if mapping(root).get("class")
        ),
        training_mode=truth(steady[-1].get("training_mode")) if steady else None,
        tied_requested=truth(tied.get("config")),
        tied=truth(tied.get("actual")),
        shared=whole(model.get("shared")),
    )


def _in_every(job: Job, part: str, field: str) -> tuple[str, ...]:
    """Names that every sample lists: what one step left out, as an expert without tokens, may be as it should."""
    lists = [names(mapping(sample[part]).get(field)) for sample in job.of_lead("sample") if mapping(sample.get(part))]
    if not lists:
        return ()
    return tuple(name for name in lists[-1] if all(name in each for each in lists))


def _fewest(job: Job, part: str, field: str) -> int | None:
    """The smallest number that a sample gives."""
    numbers = [whole(mapping(sample.get(part)).get(field)) for sample in job.of_lead("sample")]
    return min((number for number in numbers if number is not None), default=None)


def _accumulation(job: Job) -> int | None:
    """The commonest number of backward passes per optimizer step."""
    counts: Counter[Any] = Counter()
    for event in job.of_lead("steps"):
        counts.update(number for number in items(event.get("micro")) if whole(number))
    return whole(counts.most_common(1)[0][0]) if counts else None
