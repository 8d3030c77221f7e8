"""FSDP1 refuses a unit that holds two floating dtypes."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.schema.finding import Remedy
from trueup.schema.record import Record

TEXT = r"Must flatten tensors with (?:the same|uniform) dtype but got (?!\S*int)\S+ and (?!\S*int)\S+"


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP1 refused to flatten a unit that holds parameters of two dtypes.",
        evidence=(*crashed, *places(applied(record, "FullyShardedDataParallel", "to", "get_peft_model")[:3])),
    )


RULE = Rule(
    id="sharding/fsdp1-nonuniform-dtype",
    title="FSDP1 unit mixes parameter dtypes",
    layers=("adapter", "sharding", "precision", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Norms or adapters are float32 beside half-precision weights, or the 4-bit storage dtype is another "
        "than that of training, within one unit."
    ),
    remedies=(
        Remedy(
            id="one-parameter-dtype",
            kind="code",
            automatic=False,
            how=(
                "cast every floating parameter to one dtype before wrapping (autocast_adapter_dtype=False in "
                "peft), or FSDP2"
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
)
