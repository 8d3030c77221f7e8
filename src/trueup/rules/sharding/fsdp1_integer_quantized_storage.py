"""FSDP1 cannot flatten integer weights."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, of_model, said
from trueup.rules.facts import applied, errors, is_on, places
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
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


def detect_in_environment(environment: Environment) -> Sighting | None:
    """A quantised model in the working folder, and accelerate set to FSDP1. 4-bit storage is uint8 unless named."""
    sharded, version = asks_for_fsdp(environment), configured(environment, "fsdp_version")
    if sharded is None or (version is not None and version.value != "1"):
        return None
    in_8_bit = of_model(environment, "quantization_config.load_in_8bit")
    in_4_bit = of_model(environment, "quantization_config.load_in_4bit")
    storage = of_model(environment, "quantization_config.bnb_4bit_quant_storage")
    if in_8_bit is not None and is_on(in_8_bit.value):
        seen, bits = in_8_bit, "8-bit weights are stored as int8"
    elif in_4_bit is not None and is_on(in_4_bit.value) and (storage is None or INTEGER.search(_torch(storage.value))):
        seen, bits = storage or in_4_bit, "4-bit weights are stored as uint8"
    else:
        return None
    return Sighting(
        message=f"{bits} in the model of this folder, and accelerate is set to FSDP1, which cannot flatten them.",
        evidence=(said(seen), said(sharded), *((said(version),) if version else ())),
        confidence="possible",
        severity="warning" if version is not None else "note",
    )


def _torch(dtype: str) -> str:
    return f"torch.{dtype.removeprefix('torch.')}"


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
    from_environment=detect_in_environment,
)
