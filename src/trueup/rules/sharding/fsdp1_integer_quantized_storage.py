"""FSDP1 cannot flatten integer weights."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.schema.finding import Remedy
from trueup.schema.record import Record

TEXT = (
    r"Cannot flatten integer dtype tensors"
    r"|Must flatten tensors with (?:the same|uniform) dtype but got (?:\S+ and )?torch\.u?int8"
)


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP1 refused to flatten weights that are stored as integers.",
        evidence=(*crashed, *places(applied(record, "FullyShardedDataParallel")[:1])),
    )


RULE = Rule(
    id="sharding/fsdp1-integer-quantized-storage",
    title="FSDP1 cannot flatten integer quantized weights",
    layers=("adapter", "sharding"),
    severity="error",
    silent="",
    cause=("Quantised weights are stored as uint8 or int8 tensors, and a flat parameter must be floating point."),
    remedies=(
        Remedy(
            id="quant-storage-dtype",
            kind="code",
            automatic=False,
            how="bnb_4bit_quant_storage=torch.bfloat16 for 4-bit weights; no 8-bit weights under FSDP1",
        ),
    ),
    caution="FSDP2 of accelerate leaves integer parameters unsharded: no error, and no memory saved.",
    sources=("https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1709",),
    from_record=detect,
)
