"""FSDP1 puts a half gradient on a float32 parameter."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention, passes
from trueup.rules.log_parts import frames
from trueup.rules.printed_dtypes import PRINTED, dtype
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log

ASSIGNED = (
    rf"attempting to assign a gradient with dtype (?P<gradient>{PRINTED}) to a tensor with dtype (?P<tensor>{PRINTED})"
    r"|attempting to assign a gradient with dtype|assigned grad has data of a different type"
)
FSDP = r"\bFSDP\b|FullyShardedDataParallel|_flat_param|FlatParam"


def detect_log(log: Log) -> Sighting | None:
    """With frames of FSDP; outside of it the same text says that the job assigns .grad by hand."""
    seen = mention(log, ASSIGNED)
    if seen is None:
        return None
    frame = passes(seen.failure, "torch/distributed/fsdp/")
    by_hand = frame is None and any(each.code and ".grad =" in each.code for each in frames(seen.failure))
    if by_hand or (frame is None and seen.found.group().startswith("assigned")):
        return None
    confidence: Confidence = "possible"
    if frame is not None:
        confidence = "established"
    elif mention(log, FSDP) is not None:
        confidence = "likely"
    dtypes = ""
    if seen.found["gradient"]:
        dtypes = f" ({dtype(seen.found['gradient'])} to {dtype(seen.found['tensor'])})"
    return Sighting(
        message=f"A gradient of another dtype was put on a parameter{dtypes}.",
        evidence=(
            seen.evidence(log),
            *(
                (Evidence(what="raised through", value=frame.function, at=f"{frame.file}:{frame.line}"),)
                if frame
                else ()
            ),
        ),
        confidence=confidence,
        failure=seen.failure,
    )


RULE = Rule(
    id="precision/fsdp1-gradient-dtype-mismatch",
    title="FSDP1 assigns a half gradient to a float32 parameter",
    layers=("precision", "sharding", "compile"),
    severity="error",
    silent="",
    cause=(
        "With SHARD_GRAD_OP, or accumulation without sync, under compile, FSDP1 of torch 2.1.0 does not cast the "
        "unsharded "
        "gradient back to the dtype of the parameter."
    ),
    remedies=(
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.1.2"),
        Remedy(
            id="fsdp-full-shard",
            kind="config-edit",
            automatic=False,
            how="fsdp_sharding_strategy: FULL_SHARD and no no_sync(), or fsdp_version: 2",
        ),
    ),
    caution="Outside of FSDP the same text means that the job assigns .grad by hand.",
    from_log=detect_log,
)
