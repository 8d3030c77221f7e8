"""FSDP1 refuses a unit that holds two floating dtypes; FSDP2 one whose trained parameters do."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.rules.log_facts import mention
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = (
    r"Must flatten tensors with (?:the same|uniform) dtype but got (?!\S*int)\S+ and (?!\S*int)\S+"
    r"|FSDP expects uniform original parameter dtype but got"
)
DTYPES = (
    r"(?:Must flatten tensors with (?:the same|uniform)|requires uniform|expects uniform)(?: original parameter)? dtype"
    r" but got (?P<dtypes>\{?torch\.\w+(?:(?:,| and) torch\.\w+)*)"
)
FLOATING = re.compile(r"torch\.(?:b?float\d*|half|double|float8\w*)$")


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP refused a unit that holds parameters of two dtypes.",
        evidence=(
            *crashed,
            *places(applied(record, "FullyShardedDataParallel", "fully_shard", "to", "get_peft_model")[:3]),
        ),
    )


def detect_log(log: Log) -> Sighting | None:
    """Both dtypes are floating; an integer one is quantised storage."""
    seen = mention(log, DTYPES)
    if seen is None:
        return None
    dtypes = re.findall(r"torch\.\w+", seen.found["dtypes"])
    if not all(FLOATING.match(dtype) for dtype in dtypes):
        return None
    return Sighting(
        message=f"One unit holds parameters of {' and '.join(dtypes)}.",
        evidence=(seen.evidence(log), *(Evidence(what="dtype in the unit", value=dtype) for dtype in dtypes)),
        failure=seen.failure,
    )


RULE = Rule(
    id="sharding/fsdp1-nonuniform-dtype",
    title="FSDP1 unit mixes parameter dtypes",
    layers=("adapter", "sharding", "precision", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Norms or adapters are float32 beside half-precision weights, or the 4-bit storage dtype is another than that "
        "of training, within one unit."
    ),
    remedies=(
        Remedy(
            id="one-parameter-dtype",
            kind="in-process",
            automatic=True,
            how=(
                "cast every floating parameter to one dtype before wrapping (autocast_adapter_dtype=False in peft), "
                "or FSDP2"
            ),
        ),
        Remedy(
            id="quant-storage-dtype",
            kind="code",
            automatic=False,
            how="bnb_4bit_quant_storage = the training dtype",
        ),
    ),
    caution="When one of the two is an integer type the class is fsdp1-integer-quantized-storage.",
    sources=(
        "https://github.com/axolotl-ai-cloud/axolotl/issues/1482",
        "https://github.com/axolotl-ai-cloud/axolotl/issues/1494",
    ),
    from_record=detect,
    log=(
        LogText(
            text="Must flatten tensors with uniform dtype",
            versions="torch 2.0 or newer",
            not_with=("torch.int8", "torch.uint8", "torch.int32"),
        ),
        LogText(
            text="requires uniform dtype but got",
            versions="torch 1.12 to 1.13",
            not_with=("torch.int8", "torch.uint8", "torch.int32"),
        ),
        LogText(text="FSDP expects uniform original parameter dtype", versions="torch 2.4 or newer, FSDP2"),
    ),
    from_log=detect_log,
)
