"""How many blocks ran again during backward."""

from __future__ import annotations

from trueup.runs.events import Event
from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import blocks_of, ran_compiled, recorded, steady_samples, watched
from trueup.runs.merging.values import mapping, truth, whole
from trueup.schema.record import Checkpointing


def merged_checkpointing(job: Job) -> Checkpointing:
    """From the lead rank's last steady sample, and from what Dynamo captured in its graphs."""
    samples = watched(steady_samples(job))
    if not samples:
        return Checkpointing()
    sample = samples[-1]
    seen = mapping(sample.get("checkpointing"))
    calls, reentrant = whole(seen.get("calls")) or 0, whole(seen.get("reentrant_calls")) or 0
    captured = _captured(job, sample)
    return Checkpointing(
        fraction=_fraction(sample, captured),
        reentrant=reentrant > 0 if calls else False if captured else None,
        calls=calls,
        without_rng_state=whole(seen.get("without_rng_state")),
        random_ops=_drawn(sample, "random_ops"),
        random_again=_drawn(sample, "random_in_backward"),
        calls_in_training_mode=None if calls else _before_eval(job, sample),
    )


def _before_eval(job: Job, last: Event) -> int | None:
    """Calls of the newest step in training mode that checkpointed, when the last step ran in eval mode."""
    if truth(last.get("training_mode")) is not False:
        return None
    trained = [sample for sample in watched(job.of_lead("sample")) if truth(sample.get("training_mode"))]
    calls = [whole(mapping(sample.get("checkpointing")).get("calls")) for sample in trained]
    return next((number for number in reversed(calls) if number), None)


def _drawn(sample: Event, field: str) -> int | None:
    """Calls of random operators, or None when the operators were not recorded."""
    calls = sample.get(field) if recorded([sample]) else None
    return sum(whole(number) or 0 for number in calls.values()) if isinstance(calls, dict) else None


def _fraction(sample: Event, captured: int) -> float | None:
    """Share of blocks that ran again. Each backward pass of the step recomputes a checkpointed block once."""
    blocks = blocks_of(sample)
    if not blocks:
        return None
    again = sum(bool(block.get("recomputed")) for block in blocks)
    if not again:
        passes = max(1, whole(sample.get("backwards")) or 1)
        seen = mapping(sample.get("checkpointing"))
        recomputed, calls = whole(seen.get("recomputed")) or 0, whole(seen.get("calls")) or 0
        inside = max(whole(seen.get("blocks")) or 0, calls)  # one call may hold several
        again = -(-recomputed * inside // (passes * max(calls, 1)))
    return min(1.0, (again + captured) / len(blocks))


def _captured(job: Job, sample: Event) -> int:
    """Compiled blocks whose checkpoint became one operator of a graph: no Python function runs again for them.

    One graph may serve every block (compiled block by block) or hold all of them; the calls of compiled regions in the
    step tell which.
    """
    compiled = sum(map(ran_compiled, blocks_of(sample)))
    newest = {
        str(event.get("id")).partition("/")[0]: whole(event.get("checkpoints")) or 0
        for event in job.of_lead("compile")
        if event.get("what") == "graph"
    }
    inside = sum(newest.values())
    if not compiled or not inside:
        return 0
    regions = whole(mapping(sample.get("modules")).get("regions")) or 0
    return compiled if regions >= compiled else min(compiled, inside)
