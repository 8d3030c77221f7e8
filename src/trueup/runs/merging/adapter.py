"""How much of an adapter is trained."""

from __future__ import annotations

from trueup.runs.merging.job import Job
from trueup.runs.merging.values import mapping, names, number, whole
from trueup.schema.record import Adapter


def merged_adapter(job: Job) -> Adapter:
    """From the lead rank's last look at its model; what changed, from its last sample."""
    model = job.last_of_lead("model")
    seen, parameters = mapping(model.get("adapter")), mapping(model.get("parameters"))
    whole_model, trained = number(parameters.get("elements")), number(parameters.get("trainable_elements"))
    return Adapter(
        trainable_fraction=trained / whole_model if whole_model and trained is not None else None,
        names=names(seen.get("names")),
        adapter_parameters=whole(seen.get("parameters")) or 0,
        adapter_trainable=whole(seen.get("trainable")) or 0,
        adapter_changed=whole(mapping(job.last_of_lead("sample").get("updates")).get("adapter_changed")),
    )
