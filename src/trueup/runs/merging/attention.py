"""Which attention ran, by the operators and functions seen in the steady samples."""

from __future__ import annotations

from collections.abc import Mapping

from trueup.runs.merging.fallbacks import merged_fallbacks
from trueup.runs.merging.job import Job
from trueup.runs.merging.kernels import added_kernels
from trueup.runs.merging.leakage import merged_leakage
from trueup.runs.merging.samples import recorded, steady_samples
from trueup.runs.merging.values import added, any_true, mapping, text, whole
from trueup.schema.record import Attention, Kernel


def merged_attention(job: Job) -> Attention:
    """Kernels with their share of the attention calls in all steady samples of the lead rank."""
    steady = recorded(steady_samples(job))
    samples = [mapping(sample.get("attention")) for sample in steady]
    kernels = added_kernels(steady)
    padded = [mapping(sample.get("padding")) for sample in steady if mapping(sample.get("padding"))]
    total = sum(calls.number for calls in kernels.values())
    return Attention(
        requested=_requested(job, samples),
        kernels=tuple(
            Kernel(name=name, calls=calls.number, share=calls.number / total, op=calls.seen_as)
            for name, calls in sorted(kernels.items(), key=lambda item: (-item[1].number, item[0]))
        ),
        fused_fraction=sum(calls.number for calls in kernels.values() if calls.fused) / total if total else None,
        masks=added(sample.get("masks") for sample in samples),
        sdpa_calls=added(sample.get("sdpa") for sample in samples),
        toggles={
            str(name): bool(value) for sample in samples[-1:] for name, value in mapping(sample.get("toggles")).items()
        },
        given_mask=next((text(sample["given_mask"]) for sample in reversed(samples) if sample.get("given_mask")), None),
        packed=any_true(sample.get("packed") for sample in samples),
        boundaries=any_true(sample.get("boundaries") for sample in samples),
        cache=any_true(sample.get("cache") for sample in samples),
        padding=next((text(each.get("side")) for each in padded), None),
        padding_seen_in=next((text(each.get("seen_in")) for each in padded), None),
        unmasked_padded={
            words: calls
            for words, field in (("no mask", "unmasked"), ("no mask causal", "unmasked_causal"))
            if (calls := sum(whole(each.get(field)) or 0 for each in padded))
        },
        leakage=merged_leakage(job),
        fallbacks=merged_fallbacks(job),
    )


def _requested(job: Job, samples: list[Mapping[str, object]]) -> str | None:
    """What was asked for in configuration or code, else what the model's configuration says it will use."""
    for event in reversed(job.of_lead("request")):
        if event.get("layer") == "attention" and event.get("setting") == "implementation" and event.get("value"):
            return str(event["value"])
    return next((text(sample["requested"]) for sample in reversed(samples) if sample.get("requested")), None)
