"""A model was compiled, or wrapped, before FSDP1 wraps it automatically."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.schema.finding import Remedy
from trueup.schema.record import Record

WRAPPED_TWICE = r"FSDP auto wrapping requires modules to not already have FSDP applied"


def detect(record: Record) -> Sighting | None:
    """A second FSDP1 around the first. The order of compile and DDP alone does no harm: DDPOptimizer acts in both."""
    failed = errors(record, WRAPPED_TWICE)
    if not failed:
        return None
    wrapped = applied(record, "FullyShardedDataParallel")
    compiled = [each for each in applied(record, "torch.compile", "Module.compile") if "FSDP1" in around(each.detail)]
    return Sighting(
        message="FSDP1 was to wrap automatically a model that it had wrapped before"
        f"{', with compile between the two' if compiled else ''}.",
        evidence=(*failed, *places(wrapped), *places(compiled)),
    )


def around(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Layers that were inside of what was compiled."""
    return tuple(map(str, detail.get("around") or ()))


RULE = Rule(
    id="compile/data-parallel-wrapper-order",
    title="Model compiled on the wrong side of the DDP or FSDP1 wrapper",
    layers=("compile", "sharding", "trainer"),
    severity="error",
    silent="With DDP nothing is printed: communication only does not overlap with compute.",
    cause=(
        "DDPOptimizer and FSDP1 act on the graph of the wrapped model; compiling first, or preparing the compiled "
        "wrapper again, bypasses them or wraps twice."
    ),
    remedies=(
        Remedy(
            id="compile-after-wrapping",
            kind="code",
            automatic=False,
            how="model = DDP(model) or FSDP(model), then model = torch.compile(model); prepare exactly once",
        ),
        Remedy(
            id="wrap-once",
            kind="in-process",
            automatic=True,
            how="prepare the model once: leave out the second wrapping, which has nothing left to wrap",
        ),
        Remedy(
            id="upgrade-accelerate", kind="install", automatic=False, how="accelerate >= 0.23 decides the order itself"
        ),
    ),
    caution="For FSDP2 it is the reverse: blocks are compiled before fully_shard.",
    sources=("https://github.com/huggingface/transformers/issues/22215",),
    from_record=detect,
    log=(
        LogText(
            text="FSDP auto wrapping requires modules to not already have FSDP applied",
            versions="torch 1.12 and newer",
        ),
    ),
)
