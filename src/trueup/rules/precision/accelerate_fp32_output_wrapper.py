"""accelerate turned the cache that a model returned into float32, and generation goes on in a half type."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting, within
from trueup.rules.facts import applied, errors
from trueup.rules.log_facts import mentions, passes
from trueup.rules.log_parts import place
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = (
    r"query and (?:key|value) must have the same dtype"
    r"|Expected query, key, and value to have the same dtype"
)
HALF_QUERY = re.compile(r"query\.dtype: (?:c10::)?(?:Half|BFloat16),? key\.dtype: float\b")
TUPLES = {"transformers": "<4.48"}
"""Releases whose models return caches as tuples."""
WRAPPER = "accelerate/utils/operations.py"
GENERATION = "transformers/generation/"


def detect(record: Record) -> Sighting | None:
    """After steps that went well, a query in a half type meets keys in float32: those that the wrapper returned."""
    crashed = errors(record, TEXT)
    mixed = [each for each in applied(record, "Accelerator") if each.detail.get("mixed_precision") in ("fp16", "bf16")]
    if not crashed or not mixed or record.steps.count == 0 or not HALF_QUERY.search(str(crashed[0].value)):
        return None
    return Sighting(
        message=f"After {record.steps.count} training steps a query in a half type met keys in float32, the type in "
        "which accelerate's forward returns what it is given to cache.",
        evidence=(
            *crashed,
            Evidence(
                what="mixed precision of the Accelerator", value=mixed[0].detail["mixed_precision"], at=mixed[0].at
            ),
            Evidence(what="optimizer steps before", value=record.steps.count),
        ),
        confidence="likely",
    )


def detect_log(log: Log) -> Sighting | None:
    """Keys differ from the query within generation, below accelerate's wrapper, which runs everything in autocast."""
    if not within(log.versions, TUPLES):
        return None
    for seen in mentions(log, TEXT):
        wrapper, generation = passes(seen.failure, WRAPPER), passes(seen.failure, GENERATION)
        if wrapper is None or generation is None:
            continue
        return Sighting(
            message="generate() ran the forward that accelerate wraps, which returns the cache in float32: its keys do "
            "not have the dtype of the query.",
            evidence=(
                seen.evidence(log),
                Evidence(what="wrapper", value=f"{WRAPPER}: {wrapper.code}", at=place(log, seen.failure)),
            ),
            confidence="likely",
            failure=seen.failure,
        )
    return None


RULE = Rule(
    id="precision/accelerate-fp32-output-wrapper",
    title="accelerate's float32 output conversion breaks cached generation",
    layers=("precision", "attention", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Under mixed precision accelerate replaces forward by an autocast version whose outputs are converted to "
        "float32; caches that are tuples pass through that conversion."
    ),
    remedies=(
        Remedy(
            id="unwrap-before-generating",
            kind="in-process",
            automatic=True,
            how="accelerator.unwrap_model(model, keep_fp32_wrapper=False) before generate()",
        ),
        Remedy(
            id="upgrade-transformers",
            kind="install",
            automatic=False,
            how="a transformers whose model returns a Cache object, which the conversion leaves alone",
        ),
    ),
    caution="Training is not affected, and accelerate installs no such wrapper with FSDP2.",
    sources=("https://github.com/huggingface/transformers/issues/30019",),
    explains=("precision/attention-input-dtype-mismatch",),
    from_record=detect,
    from_log=detect_log,
)
