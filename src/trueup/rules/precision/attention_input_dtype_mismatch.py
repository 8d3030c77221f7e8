"""Query, key, value or mask are not of one dtype."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, autocasts, errors, places
from trueup.rules.log_facts import Mention, mention
from trueup.rules.printed_dtypes import PRINTED, dtype, odd_one
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
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
        evidence=(*crashed, *places((*applied(record, "to"), *autocasts(record))[:2])),
    )


THREE = (
    rf"query\.dtype *: (?P<query>{PRINTED})[,;\s]+key\.dtype *: (?P<key>{PRINTED})[,;\s]+(?:and )?value\.dtype *: "
    rf"(?P<value>{PRINTED})"
)
MASK = rf"attn_mask\.dtype *: (?P<mask>{PRINTED}) and query\.dtype *: (?P<query>{PRINTED})"
NAMES = {"query": "query", "key": "key", "value": "value", "mask": "attn_mask"}


def detect_log(log: Log) -> Sighting | None:
    """The dtypes are in the text: the one that differs is to blame."""
    seen = mention(log, THREE) or mention(log, MASK)
    if seen is None:
        return None
    dtypes = {NAMES[name]: dtype(printed) for name, printed in seen.found.groupdict().items() if printed}
    if len(set(dtypes.values())) == 1:
        return None
    odd = "attn_mask" if "attn_mask" in dtypes else odd_one(list(dtypes), list(dtypes.values()))
    others = sorted({each for name, each in dtypes.items() if name != odd})
    told = f"{odd} is {dtypes[odd]}, the others are {others[0]}" if odd else _listed(dtypes)
    return Sighting(
        message=f"Attention got inputs of different dtypes: {told}.",
        evidence=(seen.evidence(log), *_sentence(log, seen)),
        failure=seen.failure,
        remedies=_remedies(odd, others[0]) if odd else (),
    )


def _listed(dtypes: dict[str, str]) -> str:
    return ", ".join(f"{name} {each}" for name, each in dtypes.items())


def _sentence(log: Log, seen: Mention) -> tuple[Evidence, ...]:
    """The line above the dtypes, where they stand on lines of their own."""
    sentence = mention(log, r"(?:same|match)[^\n]*dtype")
    return (sentence.evidence(log),) if sentence and sentence.failure is seen.failure else ()


def _remedies(odd: str, wanted: str) -> tuple[Remedy, ...]:
    return (
        Remedy(
            id="cast-attention-input",
            kind="in-process",
            automatic=True,
            how=f"{odd} = {odd}.to(torch.{wanted}) where {odd} is made, in front of the attention call",
        ),
        *(each for each in RULE.remedies if each.id != "cast-attention-input"),
    )


RULE = Rule(
    id="precision/attention-input-dtype-mismatch",
    title="Query, key, value or mask have different dtypes",
    layers=("precision", "attention", "adapter", "sharding", "compile"),
    severity="error",
    silent="",
    cause=(
        "One producer of an attention input leaves the compute dtype: a rotary embedding in float32, adapters "
        "in float32 on some projections only, a learned prefix, a cache or mask made before the cast."
    ),
    remedies=(
        Remedy(
            id="cast-attention-input",
            kind="in-process",
            automatic=True,
            how="query, key, value and mask .to(the half type among them) in front of the attention call",
        ),
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
    log=(
        LogText(
            text="Expected query, key, and value to have the same dtype, but got query.dtype:",
            versions="torch 2.0 and newer",
        ),
        LogText(text="Expected query, key, and value to have the same dtype", versions="cut short"),
        LogText(
            text="Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype:",
            versions="torch 2.2 and newer",
        ),
        LogText(text="Expected attn_mask dtype to be bool or to match query dtype", versions="torch 2.0 and 2.1"),
        LogText(text="Expected attn_mask dtype to be bool or float or to match query dtype", versions="cut short"),
        LogText(
            text="invalid dtype for bias - should match query's dtype", versions="memory-efficient kernel, torch 2"
        ),
        LogText(text="invalid dtype for bias", versions="cut short"),
        LogText(text="Query/Key/Value should either all have the same dtype", versions="xformers"),
        LogText(text="Query/Key/Value should all have the same dtype", versions="xformers 0.0.16 and older"),
        LogText(text="query and key must have the same dtype", versions="flash-attn 2"),
        LogText(text="query and value must have the same dtype", versions="flash-attn 2"),
        LogText(text="q, k, v must have the same dtype", versions="flash-attn 3 and 4"),
        LogText(text="Expected query, key and value to have the same dtype", versions="FlexAttention"),
        LogText(
            text="Index put requires the source and destination dtypes match",
            strength="supporting",
            versions="torch 2, a static cache in another dtype among others",
            inside=("cache_utils.py",),
        ),
    ),
    from_log=detect_log,
)
