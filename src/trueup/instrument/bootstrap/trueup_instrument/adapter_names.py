"""Which parameters are those of an adapter, by the names that PEFT and classes of one's own give them."""

from __future__ import annotations

MARKS = (
    "lora_",
    "lora.",
    "lokr_",
    "hada_",
    "ia3_",
    "oft_",
    "vera_lambda_",
    "prompt_embeddings",
    "adapter_",
    "adaption_",
)


def is_adapter(name: str) -> bool:
    """True for the dotted name of an adapter's parameter; `adapter.` alone is often a projector, and is none."""
    return any(mark in name for mark in MARKS)
