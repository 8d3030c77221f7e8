"""Compiled autograd runs FSDP's callbacks outside of the backward pass."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.rules.log_facts import mention, passes
from trueup.rules.log_parts import frames
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = r"Final callbacks can only be installed during backward pass"


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP could not install its final callback: the backward pass was traced by compiled autograd.",
        evidence=(*crashed, *places(applied(record, "dynamo.config", "fully_shard", "FullyShardedDataParallel")[:2])),
    )


COMPILED = r"compiled_autograd|compile_autograd|CompiledAutograd"


def detect_log(log: Log) -> Sighting | None:
    """Other misuse of callbacks prints it too, so frames that show neither FSDP nor the compiler acquit."""
    seen = mention(log, TEXT)
    if seen is None:
        return None
    compiled = passes(seen.failure, "_dynamo/compiled_autograd", "_dynamo/external_utils") or mention(log, COMPILED)
    sharded = passes(seen.failure, "torch/distributed/fsdp/", "torch/distributed/_composable/")
    if not compiled and not sharded and any(frames(seen.failure)):
        return None
    confidence: Confidence = "established" if compiled else "likely"
    return Sighting(
        message="A final callback was queued outside of the backward pass: compiled autograd ran the backward of FSDP.",
        evidence=(seen.evidence(log),),
        confidence=confidence,
        failure=seen.failure,
    )


RULE = Rule(
    id="compile/compiled-autograd-with-fsdp",
    title="Compiled autograd combined with FSDP",
    layers=("compile", "sharding"),
    severity="error",
    silent="",
    cause=(
        "FSDP queues callbacks on the autograd engine, and compiled autograd runs the traced backward outside of it."
    ),
    remedies=(
        Remedy(
            id="compiled-autograd-off",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.compiled_autograd = False, and no compiled-autograd context",
        ),
    ),
    caution="Other misuse of autograd callbacks prints the same text: compiled autograd must be on.",
    sources=("https://github.com/pytorch/pytorch/issues/121071",),
    from_record=detect,
    from_log=detect_log,
)
