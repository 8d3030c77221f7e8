"""In which dtypes the run computed, stored and reduced."""

from __future__ import annotations

from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import recorded, steady_samples
from trueup.runs.merging.values import added, mapping, shares, text, whole
from trueup.schema.record import Precision


def merged_precision(job: Job) -> Precision:
    """Matmuls over all steady samples of the lead rank; the rest from its last look at model and gradients."""
    steady = steady_samples(job)
    model = job.last_of_lead("model")
    last = steady[-1] if steady else {}
    state = mapping(last.get("optimizer_state")) or mapping(mapping(model.get("optimizer")).get("state_dtypes"))
    return Precision(
        matmul=shares(added(sample.get("matmul") for sample in recorded(steady))),
        parameters=shares(mapping(mapping(model.get("parameters")).get("dtypes"))),
        gradients=shares(mapping(mapping(last.get("gradients")).get("dtypes"))),
        optimizer_state=shares(state),
        reduce_dtype=text(mapping(model.get("sharding")).get("reduce_dtype")),
        unchanged_share=_unchanged(job),
    )


def _unchanged(job: Job) -> float | None:
    updates = [mapping(sample.get("updates")) for sample in job.of_lead("sample")]
    probed = sum(whole(update.get("elements_probed")) or 0 for update in updates)
    still = sum(whole(update.get("elements_unchanged")) or 0 for update in updates)
    return still / probed if probed else None
