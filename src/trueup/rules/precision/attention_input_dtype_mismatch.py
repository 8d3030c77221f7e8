"""Query, key, value or mask are not of one dtype."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.schema.finding import Remedy
from trueup.schema.record import Record

TEXT = (
    r"Expected query, key, and value to have the same dtype|Expected attn_mask dtype to be bool or"
    r"|invalid dtype for bias|Query/Key/Value should either all have the same dtype"
)


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="Attention was given query, key, value or mask of different dtypes.",
        evidence=(*crashed, *places(applied(record, "to", "autocast")[:2])),
    )


RULE = Rule(
    id="precision/attention-input-dtype-mismatch",
    title="Query, key, value or mask have different dtypes",
    layers=("precision", "attention", "adapter", "sharding", "compile"),
    severity="error",
    silent="",
    cause=(
        "One producer of an attention input leaves the compute dtype: a rotary embedding in float32, adapters "
        "in float32 on some projections only, a cache or mask made before the cast."
    ),
    remedies=(
        Remedy(
            id="cast-at-producer",
            kind="code",
            automatic=False,
            how="cast the odd tensor to query.dtype where it is made, or run the forward under autocast",
        ),
    ),
    caution=(
        "The text names all dtypes: blame the one that differs. The CPU takes a float32 mask beside bf16 queries."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/128798", "https://github.com/segmind/SSD-1B/issues/6"),
    explains=("precision/forward-outside-autocast",),
    from_record=detect,
)
