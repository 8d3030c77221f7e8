"""Dynamo traced the lazy initialisation of FSDP1, which assigns storage of another dtype."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention, passes
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log

ASSIGNED = r"Could not set tensor of type"
TRACED = r"Dynamo failed to run FX node with fake tensors|TorchRuntimeError|torch\._dynamo|fake tensors"
SHARDED = r"\bFSDP\b|FullyShardedDataParallel|_root_pre_forward|_lazy_init|flat_param|[Ff]latParam"


def detect_log(log: Log) -> Sighting | None:
    """A .data assignment between dtypes in a trace; sure with FSDP in the stack."""
    seen = mention(log, ASSIGNED)
    if seen is None:
        return None
    traced = (
        mention(log, TRACED) is not None or passes(seen.failure, "torch/_dynamo/", "torch/_subclasses/") is not None
    )
    quoted = any("torch/distributed/fsdp/" in each.file.replace("\\", "/") for each in seen.failure.user_frames)
    sharded = quoted or passes(seen.failure, "torch/distributed/fsdp/") or mention(log, SHARDED) is not None
    confidence: Confidence = "possible"
    if traced:
        confidence = "established" if sharded else "likely"
    elif sharded:
        confidence = "likely"
    return Sighting(
        message="The compiled root of FSDP1 was traced while it pointed parameters at storage of another dtype.",
        evidence=(seen.evidence(log),),
        confidence=confidence,
        failure=seen.failure,
    )


RULE = Rule(
    id="compile/fsdp1-data-assignment-across-dtypes",
    title="Dynamo traces FSDP1 lazy initialisation across dtypes",
    layers=("compile", "sharding", "precision"),
    severity="error",
    silent="",
    cause=(
        "FSDP1 initialises in the first forward and points .data of float32 shards at half-precision storage; "
        "compiling its "
        "root makes Dynamo trace that."
    ),
    remedies=(
        Remedy(
            id="compile-inner-module",
            kind="code",
            automatic=False,
            how="compile the blocks inside of the FSDP units, not the root",
        ),
        Remedy(
            id="eager-forward-first",
            kind="code",
            automatic=False,
            how="run one forward without compile before the compiled one, so that FSDP1 is initialised",
        ),
        Remedy(
            id="fsdp2",
            kind="config-edit",
            automatic=False,
            how="fsdp_version: 2 (accelerate), or block.compile() for each block, then fully_shard",
        ),
    ),
    caution="Only with FSDP1 and mixed precision; other .data assignments print the same.",
    sources=("https://github.com/pytorch/pytorch/issues/152162",),
    from_log=detect_log,
)
