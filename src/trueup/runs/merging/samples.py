"""The sampled steps of the lead rank: which of them count as steady, and each in short."""

from __future__ import annotations

from typing import Any

from trueup.runs.events import Event
from trueup.runs.merging.job import Job
from trueup.runs.merging.kernels import kernels_of
from trueup.runs.merging.values import items, mapping, number, whole
from trueup.schema.record import Sample

COMPILED = "compiled"
IDLE = "idle"


def steady_samples(job: Job) -> list[Event]:
    """The samples in which nothing was compiled; when there is none, the last one."""
    samples = job.of_lead("sample")
    return [sample for sample in samples if not sample.get("compiled_during")] or samples[-1:]


def coverage_sample(job: Job) -> Event:
    """The sample that says how much of the model runs compiled; an empty one when no step could be followed.

    What runs compiled may depend on the sequence length: past the recompile limit, the lengths compiled before still
    do. So of the samples taken since the last compile the one with the least coverage speaks, the latest among equals.
    """
    samples = watched(steady_samples(job))
    compiling = [number(e.get("t")) or 0.0 for e in job.of_lead("compile") if e.get("what") in ("start", "limit")]
    settled = [sample for sample in samples if (number(sample.get("t")) or 0.0) > max(compiling, default=0.0)]
    candidates = settled or samples[-1:] or [{}]
    return min(reversed(candidates), key=lambda sample: fraction_compiled(sample) or 0.0)


def watched(samples: list[Event]) -> list[Event]:
    """Those in which Python's calls could be followed, without which nothing is known of modules."""
    return [sample for sample in samples if sample.get("watched") is not False and mapping(sample.get("modules"))]


def recorded(samples: list[Event]) -> list[Event]:
    """Those in which the operators were recorded."""
    return [sample for sample in samples if sample.get("recorded") is not False]


def blocks_of(sample: Event) -> list[dict[str, Any]]:
    """The blocks that took part in the sampled step."""
    blocks = [dict(block) for block in items(mapping(sample.get("modules")).get("blocks")) if isinstance(block, dict)]
    return [block for block in blocks if block.get("status") != IDLE]


def ran_compiled(block: dict[str, Any]) -> bool:
    return block.get("status") == COMPILED or block.get("compiled") is True


def fraction_compiled(sample: Event) -> float | None:
    """Share of the parameters whose modules ran compiled."""
    modules = mapping(sample.get("modules"))
    total, compiled = number(modules.get("parameters_total")), number(modules.get("parameters_compiled"))
    return compiled / total if total and compiled is not None else None


def merged_samples(job: Job) -> tuple[Sample, ...]:
    """Each sampled step of the lead rank in short."""
    return tuple(_short(sample, job.lead.rank if job.lead else 0) for sample in job.of_lead("sample"))


def _short(sample: Event, rank: int) -> Sample:
    seen = bool(watched([sample]))
    blocks = blocks_of(sample)
    return Sample(
        step=whole(sample.get("step")) or 0,
        rank=rank,
        seconds=number(sample.get("seconds")),
        compiled_during=bool(sample.get("compiled_during")),
        sequence_length=whole(sample.get("sequence_length")),
        blocks_compiled=sum(map(ran_compiled, blocks)) if seen else None,
        blocks_total=len(blocks) if seen else None,
        fraction=fraction_compiled(sample) if seen else None,
        kernels={name: calls.number for name, calls in kernels_of(sample).items()},
    )
