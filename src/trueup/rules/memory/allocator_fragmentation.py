"""Out of memory although much is reserved and not allocated."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import errors, percent, variable
from trueup.rules.out_of_memory import out_of_memory
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
ALLOCATED = re.compile(r"([\d.]+) ([KMG]iB) is allocated by PyTorch")
UNALLOCATED = re.compile(r"([\d.]+) ([KMG]iB) is reserved by PyTorch but unallocated")
LARGE = 0.2
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def detect(record: Record) -> Sighting | None:
    if any("expandable_segments:True" in (variable(record, name) or "") for name in SETTINGS):
        return None
    for crash in errors(record, r"out of memory"):
        text = str(crash.value)
        allocated, idle = _bytes(ALLOCATED, text), _bytes(UNALLOCATED, text)
        if allocated and idle and idle / (allocated + idle) >= LARGE:
            return Sighting(
                message=f"Out of memory with {percent(idle / (allocated + idle))} of the reserved memory unallocated.",
                evidence=(crash, Evidence(what="bytes reserved and unallocated", value=round(idle))),
                confidence="likely",
            )
    return None


def detect_log(log: Log) -> Sighting | None:
    """Enough is reserved and idle for what was asked, in a share that the hint in the message is right."""
    for memory in out_of_memory(log):
        if not memory.allocated or not memory.idle or memory.idle < memory.tried:
            continue
        share = memory.idle / (memory.allocated + memory.idle)
        if share < LARGE or (memory.held_by_others or 0) > memory.idle:
            continue
        return Sighting(
            message=f"Out of memory with {percent(share)} of the reserved memory unallocated.",
            evidence=(
                memory.seen.evidence(log),
                Evidence(what="bytes reserved and unallocated", value=round(memory.idle)),
                Evidence(what="bytes asked for", value=round(memory.tried)),
            ),
            confidence="likely",
            failure=memory.seen.failure,
            specificity=300,
        )
    return None


def _bytes(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) * UNITS[match[2]] if match else None


RULE = Rule(
    id="memory/allocator-fragmentation",
    title="Allocator fragmentation with varying sequence lengths",
    layers=("memory", "environment", "trainer"),
    severity="error",
    silent="Reserved memory grows for hours before the failure.",
    cause=(
        "The caching allocator keeps blocks whose sizes do not fit new requests when shapes change from step to step."
    ),
    remedies=(
        Remedy(
            id="expandable-segments",
            kind="env-var",
            automatic=True,
            how="PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before torch 2.9)",
        ),
        Remedy(id="bucket-lengths", kind="in-process", automatic=True, how="pad to a few lengths"),
    ),
    caution="The hint is printed with every out-of-memory error; it counts only where the unallocated share is large.",
    from_record=detect,
    from_log=detect_log,
)
