"""The stack as a table: for each layer what was requested, what was observed, how much of the model got it, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trueup.reports.quantities import count, percent, size
from trueup.reports.variant import forced
from trueup.reports.verdict import FULL_PRECISION, attention_in_words
from trueup.schema.finding import SEVERITIES, Finding
from trueup.schema.layer import LAYERS, Layer
from trueup.schema.record import Applied, Record

SPEAKING = ("dtype", "module", "strategy")
"""Settings whose value says what it is without the setting's name."""

MOST_EVENTS = 4

WHOLE = re.compile(r"(\d+)/\1\b|100 %")
"""A coverage of everything: `2/2`, `111/111 tensors`, `100 % sharded`."""


class StackRow(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of the stack, in words."""

    layer: Layer
    requested: str = ""
    actual: str = ""
    coverage: str = ""
    why: str = ""
    """Message of the worst finding of the layer; empty when there is none."""


def stack_rows(record: Record) -> list[StackRow]:
    """The layers that were requested or seen, the launch first, then in the order in which they were applied."""
    own = {finding.rule.partition("/")[0] for finding in record.findings}
    rows = [_row(record, layer) for layer in _order(record)]
    return [row for row in rows if row.requested or row.actual or row.layer in own]


def _order(record: Record) -> list[Layer]:
    applied = dict.fromkeys(step.layer for step in record.order)
    first: tuple[Layer, ...] = ("environment", "launcher")
    return list(dict.fromkeys((*first, *applied, *LAYERS)))


def _row(record: Record, layer: Layer) -> StackRow:
    actual, coverage = _observed(record, layer)
    return StackRow(
        layer=layer,
        requested=_requested(record, layer),
        actual=actual,
        coverage=coverage,
        why=_why(record.findings, layer, coverage),
    )


def _why(findings: tuple[Finding, ...], layer: Layer, coverage: str) -> str:
    """What the worst finding of the layer says; for a layer that another one's finding only touches, which that is.

    A layer that has all of its coverage needs no pointer to another's finding.
    """
    touching = [finding for finding in findings if layer in finding.layers]
    own = [finding for finding in touching if finding.rule.startswith(f"{layer}/")]
    worst = min(own or touching, key=lambda finding: SEVERITIES.index(finding.severity), default=None)
    if worst is None:
        return ""
    if own:
        return worst.message
    return "" if WHOLE.match(coverage) else f"see {worst.rule}"


def _wanted(record: Record, layer: Layer) -> bool:
    """True when configuration, code or a finding names the layer."""
    return (
        bool(record.requested.get(layer) or forced(record, layer))
        or any(_applied(record, layer))
        or any(layer in finding.layers for finding in record.findings)
    )


def _requested(record: Record, layer: Layer) -> str:
    value = forced(record, layer)
    return "; ".join(filter(None, (_asked(record, layer), f"{value} (forced)" if value else "")))


def _asked(record: Record, layer: Layer) -> str:
    if layer == "launcher" and record.launch.requested_world_size is not None:
        return count(record.launch.requested_world_size, "process", "processes")
    settings = [_setting(name, value) for name, value in record.requested.get(layer, {}).items()]
    if layer == "attention" and record.actual.attention.requested and not settings:
        settings = [record.actual.attention.requested]
    return ", ".join(filter(None, settings)) or _events(record, layer)


def _setting(name: str, value: Any) -> str:
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    if value is None or value is False:
        return ""
    if value is True:
        return name
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    return str(value) if name in SPEAKING else f"{name}: {value}"


def _applied(record: Record, layer: Layer) -> Iterator[Applied]:
    """The events of a layer on the lowest rank, without what was switched off and moves that changed a device only."""
    lowest = min((step.rank for step in record.order), default=0)
    for step in record.order:
        moved = step.event == "to" and step.detail.get("dtype") == step.detail.get("dtype_before")
        if step.layer == layer and step.rank == lowest and not moved and step.detail.get("enabled") is not False:
            yield step


def _events(record: Record, layer: Layer) -> str:
    """What the code itself asked for: the layer's events with the modules they were given."""
    seen: dict[tuple[str, str], int] = {}
    for step in _applied(record, layer):
        key = (step.event, step.module or "")
        seen[key] = seen.get(key, 0) + int(step.detail.get("count", 1))
    parts = [
        event + (f": {number} × {module}" if module and number > 1 else f": {module}" if module else "")
        for (event, module), number in seen.items()
    ]
    return ", ".join(parts[:MOST_EVENTS]) + (f", {len(parts) - MOST_EVENTS} more" if len(parts) > MOST_EVENTS else "")


def _observed(record: Record, layer: Layer) -> tuple[str, str]:
    """(what ran, coverage) of a layer; empty where it was not observed."""
    match layer:
        case "launcher":
            return _launcher(record)
        case "compile":
            return _compile(record)
        case "attention":
            attention = record.actual.attention
            fused = attention.fused_fraction
            return attention_in_words(attention) or "", "" if fused is None else f"{percent(fused)} fused"
        case "sharding":
            return _sharding(record)
        case "checkpointing":
            return _checkpointing(record)
        case "precision":
            return _precision(record)
        case "adapter":
            return _adapter(record)
        case "trainer":
            return _trainer(record)
        case "memory":
            peak = record.actual.memory.peak_bytes
            return (f"{size(peak)} at the peak", "") if peak is not None and _wanted(record, "memory") else ("", "")
        case "environment":
            return "", ""


def _launcher(record: Record) -> tuple[str, str]:
    launch = record.launch
    if launch.world_size is None:
        return "", ""
    asked = launch.requested_world_size
    return count(launch.world_size, "process", "processes"), f"{launch.world_size}/{asked}" if asked else ""


def _compile(record: Record) -> tuple[str, str]:
    compiled = record.actual.compile
    if not (compiled.frames or compiled.graphs or compiled.entries):
        return "", ""
    facts = [count(compiled.graphs, "graph")]
    for number, noun in (
        (sum(item.count for item in compiled.recompiles), "recompile"),
        (sum(item.count for item in compiled.breaks), "break"),
        (len(compiled.failures), "failure"),
    ):
        if number:
            facts.append(count(number, noun))
    if compiled.limits:
        facts.append("recompile limit reached")
    if compiled.root_eager:
        facts.append("outermost forward eager")
    coverage = [] if compiled.fraction is None else [percent(compiled.fraction)]
    if compiled.blocks.total and compiled.fraction is not None:
        coverage.insert(0, f"{compiled.blocks.compiled}/{compiled.blocks.total} blocks")
    return ", ".join(facts), ", ".join(coverage) or "not sampled"


def _sharding(record: Record) -> tuple[str, str]:
    sharding = record.actual.sharding
    if sharding.strategy is None or (sharding.strategy == "none" and not _wanted(record, "sharding")):
        return "", ""
    actual = sharding.strategy
    if sharding.units:
        actual += f", {count(sharding.units, 'unit')}"
    if sharding.replicas and sharding.replicas > 1:
        actual += f", {sharding.replicas} replicas"
    return actual, "" if sharding.fraction is None else f"{percent(sharding.fraction)} sharded"


def _checkpointing(record: Record) -> tuple[str, str]:
    checkpointing = record.actual.checkpointing
    if not (checkpointing.calls or checkpointing.fraction):
        return (
            ("none", "0 % of blocks") if checkpointing.fraction == 0 and _wanted(record, "checkpointing") else ("", "")
        )
    actual = {True: "reentrant", False: "non-reentrant", None: ""}[checkpointing.reentrant]
    if checkpointing.calls:
        actual = ", ".join(filter(None, (actual, f"{count(checkpointing.calls, 'call')} a step")))
    coverage = "" if checkpointing.fraction is None else f"{percent(checkpointing.fraction)} of blocks"
    return actual or "recomputed", coverage


def _precision(record: Record) -> tuple[str, str]:
    precision = record.actual.precision
    low = sum(share for dtype, share in precision.matmul.items() if dtype not in FULL_PRECISION)
    if not low and not _wanted(record, "precision"):
        return "", ""  # full precision by default is no layer
    facts = [f"{dtype} {percent(share)} of matmuls" for dtype, share in precision.matmul.items()]
    if precision.parameters:
        facts.append("weights " + ", ".join(precision.parameters))
    if precision.reduce_dtype:
        facts.append(f"reduced in {precision.reduce_dtype}")
    return ", ".join(facts), f"{percent(low)} low" if precision.matmul else ""


def _adapter(record: Record) -> tuple[str, str]:
    adapter = record.actual.adapter
    if not adapter.adapter_parameters:
        return "", ""
    actual = f"{adapter.adapter_trainable} of {count(adapter.adapter_parameters, 'adapter tensor')} trainable"
    if adapter.names:
        actual = f"{', '.join(adapter.names)}: {actual}"
    share = adapter.trainable_fraction
    return actual, "" if share is None else f"{percent(share)} of model trainable"


def _trainer(record: Record) -> tuple[str, str]:
    training = record.actual.training
    if not training.observed:
        return "", ""
    left_out = max(training.in_no_optimizer_count or 0, len(training.in_no_optimizer))
    actual = ", ".join(training.optimizers) or "no optimizer"
    if training.accumulation and training.accumulation > 1:
        actual += f", {training.accumulation} backward passes a step"
    return actual, f"{training.trainable - left_out}/{training.trainable} tensors" if training.trainable else ""
