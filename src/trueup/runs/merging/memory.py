"""The highest memory of each rank, and how much of it scores over a vocabulary took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup.runs.events import Event, ProcessEvents
from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import recorded, steady_samples
from trueup.runs.merging.values import mapping, number, text, whole
from trueup.schema.record import Logits, Memory

SHARDING = ("fully_shard", "FullyShardedDataParallel")


def merged_memory(job: Job) -> Memory:
    """Peaks of all ranks; the highest is the run's."""
    peaks: dict[str, int] = {}
    source = None
    for member in job.ranks:
        events = member.log.of("memory")
        seen = [peak for event in events if (peak := whole(event.get("peak_bytes"))) is not None]
        if seen:
            peaks[str(member.rank)] = max(seen)
            source = source or text(events[-1].get("source"))
    sharded = number(mapping(job.last_of_lead("model").get("sharding")).get("bytes_total"))
    loads = {member.rank: load for member in job.ranks if (load := _load_before_sharding(member.log, sharded))}
    largest = max(
        loads.values(), key=lambda load: whole(mapping(load.get("detail")).get("total_bytes")) or 0, default={}
    )
    return Memory(
        peak_bytes=max(peaks.values(), default=None),
        source=source,
        per_rank=peaks,
        logits=_logits(job),
        loaded_before_sharding={
            str(rank): whole(mapping(load.get("detail")).get("host_bytes")) or 0 for rank, load in loads.items()
        },
        loaded_total=whole(mapping(largest.get("detail")).get("total_bytes")),
        loaded_at=text(largest.get("at")),
    )


def _load_before_sharding(log: ProcessEvents, sharded: float | None) -> Event | None:
    """The last `load_state_dict` event before a rank began to shard, of a model of about `sharded` bytes."""
    load = None
    for event in log.of("layer"):
        if event.get("event") in SHARDING:
            return load
        if event.get("event") == "load_state_dict":
            total = whole(mapping(event.get("detail")).get("total_bytes")) or 0
            if sharded is None or 0.5 * sharded <= total <= 1.5 * sharded:
                load = event
    return None


def _logits(job: Job) -> Logits | None:
    """Where the gradient of the scores was seen, as many positions count as it had: an evaluation has none."""
    found = [each for sample in recorded(steady_samples(job)) if (each := _of_step(mapping(sample.get("logits"))))]
    return max(found, key=lambda logits: logits.bytes, default=None)


def _of_step(seen: Mapping[str, Any]) -> Logits | None:
    copies = {what: mapping(seen.get(what)) for what in ("head", "log_softmax", "gradient") if mapping(seen.get(what))}
    trained = copies.get("gradient") or copies.get("head") or {}
    vocabulary, most = whole(trained.get("vocabulary")), whole(trained.get("positions"))
    if not vocabulary or not most:
        return None
    kept = {what: copy for what, copy in copies.items() if copy.get("vocabulary") == vocabulary}
    size = 0
    for copy in kept.values():
        positions, held = whole(copy.get("positions")) or 1, whole(copy.get("bytes")) or 0
        size += held * min(positions, most) // positions
    return Logits(
        positions=most,
        vocabulary=vocabulary,
        copies={what: str(copy.get("dtype")) for what, copy in kept.items()},
        bytes=size,
        at=text(seen.get("at")),
    )
