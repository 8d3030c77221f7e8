"""Which layers really ran as a variant forced them: from the record, never from what was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from trueup.schema.record import Record
from trueup.schema.verification import Switched

Seen = tuple[str, bool | None]
"""What a record shows of a layer, in words, and whether the layer is on; None when it was not observed."""

OFF = {"compile": "off", "attention": "math", "checkpointing": "off"}
"""The optional layers of a control: they may change no result, and the control holds what the job itself holds of the
model. Sharding stays, since without it each rank needs the memory of the whole model."""
PLAIN = ("off", "math", "eager", "fp32", "fp64")
"""Forced values by which a layer is off; `eager` of compile is a backend, which is on."""
FULL = ("float32", "float64", "complex64", "complex128")


def switched(layer: str, asked: str, control: Record, candidate: Record) -> Switched:
    """What both records show of a `layer` that the control was to run as `asked`."""
    words, is_on = seen(layer, control)
    theirs, theirs_on = seen(layer, candidate)
    is_to_be_off = is_off(layer, asked)
    state: Literal["as asked", "still on", "not observed"] = "as asked"
    if is_on is None:
        state = "not observed"
    elif is_on and is_to_be_off:
        state = "still on"
    return Switched(layer=layer, asked=asked, state=state, control=words, candidate=theirs, on_in_candidate=theirs_on)


def is_off(layer: str, value: str) -> bool:
    """Whether a layer that is forced to a value is off."""
    return value in PLAIN and (layer, value) != ("compile", "eager")


def seen(layer: str, record: Record) -> Seen:
    """What `record` shows of `layer`."""
    observe = OBSERVED.get(layer)
    return observe(record) if observe is not None and record.ranks else ("not observed", None)


def _compile(record: Record) -> Seen:
    compiled = record.actual.compile
    if compiled.graphs or compiled.regions_per_step or compiled.fraction:
        share = "" if compiled.fraction is None else f", {_percent(compiled.fraction)} of the parameters"
        return f"{compiled.graphs} graph{'' if compiled.graphs == 1 else 's'}{share}", True
    return "no graph", False


def _attention(record: Record) -> Seen:
    attention = record.actual.attention
    if not attention.kernels or attention.fused_fraction is None:
        return "no attention seen", None
    return ", ".join(kernel.name for kernel in attention.kernels), attention.fused_fraction > 0


def _checkpointing(record: Record) -> Seen:
    checkpointing, captured = record.actual.checkpointing, record.actual.compile.checkpoints_in_graph
    if checkpointing.fraction or captured:
        return f"{_percent(checkpointing.fraction or 0)} of the blocks run again, {captured} in graphs", True
    if checkpointing.fraction is None:
        return "not observed", None
    return "no block runs again", False


def _precision(record: Record) -> Seen:
    shares = record.actual.precision.matmul
    if not shares:
        return "no multiplication seen", None
    told = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())
    return told, any(share and name not in FULL for name, share in shares.items())


def _sharding(record: Record) -> Seen:
    sharding = record.actual.sharding
    if sharding.fraction is None:
        return sharding.strategy or "not observed", None
    return f"{sharding.strategy}, {_percent(sharding.fraction)} of the bytes split", sharding.fraction > 0


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


OBSERVED: dict[str, Callable[[Record], Seen]] = {
    "compile": _compile,
    "attention": _attention,
    "checkpointing": _checkpointing,
    "precision": _precision,
    "sharding": _sharding,
}
