"""Packed rows run through attention that takes them for one long sequence."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import argument, listed
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    packed = attention.packed or bool(argument(record, "padding_free"))
    dense = [kernel for kernel in attention.kernels if kernel.name.startswith(("sdpa", "eager"))]
    if not packed or not dense or attention.boundaries or attention.masks.get("other"):
        return None
    return Sighting(
        message=f"Rows are packed, and attention ran {listed(kernel.name for kernel in dense)} without document "
        "boundaries or a block mask.",
        evidence=(
            Evidence(what="position ids restart within a row", value=attention.packed),
            *(Evidence(what=f"calls of {kernel.op or kernel.name}", value=kernel.calls) for kernel in dense),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="attention/packing-without-varlen-attention",
    title="Packed batch runs through attention that ignores document boundaries",
    layers=("attention", "sharding", "compile", "trainer"),
    severity="error",
    silent="The loss is higher than with padding, and nothing else shows.",
    cause=(
        "Packing was switched on while the model was created with, or fell back to, an implementation that "
        "sees one long sequence."
    ),
    remedies=(
        Remedy(
            id="request-varlen-attention",
            kind="config-edit",
            automatic=False,
            how=(
                'attn_implementation="flash_attention_2" or flex_attention, or a block-diagonal mask; '
                "then a leakage probe"
            ),
        ),
    ),
    caution=(
        "transformers from 4.53 on builds the block mask itself for sdpa and eager when position ids "
        "restart and neither mask nor cache is given: probe before you believe it."
    ),
    versions={"transformers": "<4.53"},
    sources=(
        "https://github.com/huggingface/trl/issues/2834",
        "https://github.com/axolotl-ai-cloud/axolotl/issues/1386",
    ),
    from_record=detect,
)
