"""FSDP1 cannot flatten integer weights."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.rules.log_facts import mention
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = (
    r"Cannot flatten integer dtype tensors"
    r"|Must flatten tensors with (?:the same|uniform) dtype but got (?:\S+ and )?torch\.u?int8"
)
DTYPES = (
    r"(?:the same|uniform)(?: original parameter)? dtype but got (?P<dtypes>\{?torch\.\w+(?:(?:,| and) torch\.\w+)*)"
)
INTEGER = re.compile(r"torch\.u?int\d+")


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP1 refused to flatten weights that are stored as integers.",
        evidence=(*crashed, *places(applied(record, "FullyShardedDataParallel")[:1])),
    )


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, DTYPES)
    integers = INTEGER.findall(seen.found["dtypes"]) if seen else []
    if seen is None or not integers:
        return None
    return Sighting(
        message=f"One unit holds {integers[0]} storage of quantised weights beside floating parameters.",
        evidence=(seen.evidence(log), Evidence(what="dtype in the unit", value=integers[0])),
        failure=seen.failure,
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
    log=(
        LogText(text="Cannot flatten integer dtype tensors", versions="torch 2.0 or newer"),
        LogText(
            text="Must flatten tensors with uniform dtype but got <dtype> and torch.int8", versions="torch 2.0 or newer"
        ),
        LogText(
            text="Must flatten tensors with uniform dtype but got <dtype> and torch.uint8",
            versions="torch 2.0 or newer",
        ),
        LogText(
            text="Only Tensors of floating point and complex dtype can require gradients",
            strength="supporting",
            versions="torch any",
            inside=("torch/distributed/fsdp/", "accelerate/utils/fsdp_utils.py"),
        ),
    ),
    from_log=detect_log,
)
