"""An explicit mask keeps SDPA from its flash kernel."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import explicit_masks, listed, percent, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    masks = explicit_masks(attention)
    sdpa = [kernel for kernel in attention.kernels if kernel.name.startswith("sdpa")]
    if not masks or not sdpa or switched(record, "attention"):
        return None
    if any("flash" in kernel.name for kernel in attention.kernels):
        return None
    all_ones = masks.get("all-ones", 0)
    ran = listed(f"{kernel.name} {percent(kernel.share)}" for kernel in sdpa)
    return Sighting(
        message=f"{sum(masks.values())} attention calls had an explicit mask"
        f"{f', {all_ones} of them all ones' if all_ones else ''}, and no flash kernel ran ({ran}).",
        evidence=(
            *(Evidence(what=f"calls with a mask of kind {kind}", value=calls) for kind, calls in masks.items()),
            *(Evidence(what=f"calls of {kernel.op or kernel.name}", value=kernel.calls) for kernel in sdpa),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="attention/explicit-mask-deselects-flash",
    title="Passing an attention mask keeps SDPA from using flash",
    layers=("attention",),
    severity="note",
    silent="The result is right, the kernel is another one.",
    cause=(
        "SDPA's flash kernel for GPUs takes no arbitrary mask, so the dispatcher refuses it and takes "
        "memory-efficient, cuDNN or math instead. The mask is honoured."
    ),
    remedies=(
        Remedy(
            id="drop-plain-mask",
            kind="in-process",
            automatic=True,
            how="drop an all-ones mask and use is_causal=True; flash_attention_2 or FlexAttention for real masks",
        ),
    ),
    caution=(
        "The mask is not ignored. transformers drops an all-ones 2-D mask by itself; the flash kernel for "
        "CPUs takes masks."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/122753",),
    from_record=detect,
)
