"""FSDP1 casts rotary buffers, and the code behind a graph break meets another dtype than was traced."""

from __future__ import annotations

import re

from trueup.rules.compilation import compile_asked
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors
from trueup.rules.log_facts import mentions, passes
from trueup.rules.log_parts import frames, place
from trueup.rules.printed_dtypes import HALVES, dtype, mixed_precision
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Failure, Frame, Log
from trueup.schema.record import Applied, Record

TEXT = r"AssertionError: (?P<one>torch\.\w+) != (?P<other>torch\.\w+)"
CHECK = "torch/_subclasses/meta_utils.py"
"""Where torch compares a tensor with the one that it traced in its place."""
ROTARY = re.compile(r"rotary|cos_cached|sin_cached|inv_freq|freqs_cis", re.I)
FSDP1 = ("torch/distributed/fsdp/fully_sharded_data_parallel.py", "torch/distributed/fsdp/_runtime_utils.py")


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    cast = tuple(wrap for wrap in applied(record, "FullyShardedDataParallel") if _buffers(wrap) in HALVES)
    if not crashed or not cast or not compile_asked(record):
        return None
    dtypes = re.search(TEXT, str(crashed[0].value))
    if dtypes is None or not mixed_precision((dtype(dtypes["one"]), dtype(dtypes["other"]))):
        return None
    return Sighting(
        message=f"FSDP1 casts buffers to {_buffers(cast[0])}, and the compiled model met {dtypes['other']} where "
        f"{dtypes['one']} was traced, or the reverse.",
        evidence=(
            *crashed,
            *(
                Evidence(what="dtype of buffers in MixedPrecision", value=_buffers(wrap), at=wrap.at)
                for wrap in cast[:1]
            ),
        ),
        confidence="likely",
    )


def _buffers(wrap: Applied) -> str | None:
    policy = wrap.detail.get("mixed_precision")
    name = policy.get("buffer") if isinstance(policy, dict) else None
    return dtype(str(name)) if name else None


def detect_log(log: Log) -> Sighting | None:
    """The comparison failed for a tensor of the rotary embedding."""
    for seen in mentions(log, TEXT):
        rotary = _rotary(seen.failure)
        if rotary is None or passes(seen.failure, CHECK) is None:
            continue
        if not mixed_precision((dtype(seen.found["one"]), dtype(seen.found["other"]))):
            continue
        wrapped = passes(seen.failure, *FSDP1)
        return Sighting(
            message=f"Compile met {seen.found['other']} in place of {seen.found['one']} in the rotary embedding"
            f"{' of a model that FSDP1 wraps' if wrapped else ''}.",
            evidence=(
                seen.evidence(log),
                Evidence(what="in", value=f"{rotary.file}: {rotary.code}", at=place(log, seen.failure)),
            ),
            confidence="likely" if wrapped else "possible",
            failure=seen.failure,
        )
    return None


def _rotary(failure: Failure) -> Frame | None:
    return next((frame for frame in reversed(list(frames(failure))) if ROTARY.search(frame.code or "")), None)


RULE = Rule(
    id="precision/fsdp-buffer-dtype-rotary-embedding",
    title="FSDP buffer dtype changes rotary buffers under compile",
    layers=("compile", "sharding", "precision"),
    severity="error",
    silent="",
    cause=(
        "MixedPrecision(buffer_dtype=...) casts the buffers of cos and sin; the code resumed after a graph break sees "
        "another dtype than the part that was traced."
    ),
    remedies=(
        Remedy(
            id="buffers-in-float32",
            kind="config-edit",
            automatic=False,
            how="leave buffer_dtype of MixedPrecision unset, so that rotary buffers stay float32",
        ),
        Remedy(
            id="no-break-in-rotary",
            kind="code",
            automatic=False,
            how="remove prints and other graph breaks from the rotary module, or compile per block",
        ),
        Remedy(id="fsdp2", kind="config-edit", automatic=False, how="fully_shard, which casts no buffers"),
    ),
    caution="Also without an error: rotary buffers of low precision hurt long contexts.",
    sources=("https://github.com/pytorch/pytorch/issues/108211",),
    from_record=detect,
    from_log=detect_log,
)
