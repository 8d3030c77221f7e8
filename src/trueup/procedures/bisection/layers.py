"""The layers of a job that a bisect can switch, and which of their combinations cannot run whatever the fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trueup.procedures.bisection.suspects import Layers
from trueup.procedures.switched import seen
from trueup.schema.bisection import Attempt
from trueup.schema.record import Record, unchanged
from trueup.schema.variant import Variant, named

OFF: Mapping[str, str] = {
    "adapter": "off",
    "precision": "fp32",
    "attention": "math",
    "checkpointing": "off",
    "sharding": "off",
    "compile": "off",
}
"""Layer → the value by which it is off, in the order in which stacks are put together."""
NAMED, NOT_NAMED = 0.7, 0.15
"""Belief, before any run, that a layer is of the set, where a finding names layers of the fault."""
QUANTIZED = ("uint8", "int8", "int4", "float8_e4m3fn", "float8_e5m2")
HALF_ONLY = ("flash-attn", "fa2", "fa3", "fa4", "flash_attention")
"""Names of attention kernels that take half precision only."""


def without(layers: tuple[str, ...], on: Layers, environment: Mapping[str, str] | None = None) -> Attempt:
    """The job with those of `layers` off that are not `on`."""
    off = {each: OFF[each] for each in layers if each not in on}
    return Attempt(variant=named(Variant(layers=off, environment=dict(environment or {}))))


def present(job: Record, control: Record, chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the `chosen` layers that a job has: they ran, were applied, or the control had them to switch off."""
    return tuple(each for each in OFF if each in chosen and (_ran(each, job) or was_switched(each, control)))


def _ran(layer: str, record: Record) -> bool:
    return seen(layer, record)[1] is True or any(
        each.layer == layer and each.detail.get("enabled") is not False for each in record.order
    )


def was_switched(layer: str, control: Record) -> bool:
    """Whether the control had the layer to switch off: no note of it says that there was nothing."""
    if layer == "attention":  # its switch narrows torch's choice of kernels, whether or not the job makes a call
        return bool(control.actual.attention.kernels)
    asked = unchanged(f"--set {layer}={OFF[layer]}")
    switched = layer in (control.variant.get("layers") or {})
    return switched and bool(control.ranks) and not any(note.what.startswith(asked) for note in control.notes)


def weights(layers: tuple[str, ...], job: Record) -> dict[str, float]:
    """Layer → belief that it is of the set, by the first finding of the job; empty where none names a layer of it."""
    found = next((each for each in job.findings if each.severity != "note" and not each.follows), None)
    told = set(found.layers) & set(layers) if found is not None and found.confidence != "possible" else set()
    return {each: NAMED if each in told else NOT_NAMED for each in layers} if told else {}


def can_run(layers: tuple[str, ...], job: Record) -> Callable[[Layers], bool]:
    """Whether a set of layers on, the others off, is worth a run: those that cannot train tell nothing."""
    needs = [(on, other) for on, other, applies in NEEDS if on in layers and other in layers and applies(job)]
    return lambda chosen: all(on not in chosen or other in chosen for on, other in needs)


def fixed(layers: tuple[str, ...], job: Record) -> dict[str, str]:
    """Layer → why it stays on, of those that cannot be switched off in this job."""
    quantized = any(name in QUANTIZED for name in job.actual.precision.parameters)
    if quantized and "adapter" in layers:
        return {"adapter": "quantized weights cannot be trained, so the adapters stay"}
    return {}


def _needs_half(job: Record) -> bool:
    attention = job.actual.attention
    names = [attention.requested or "", *(kernel.name for kernel in attention.kernels)]
    return any(name.startswith(HALF_ONLY) for name in names)


NEEDS: tuple[tuple[str, str, Callable[[Record], bool]], ...] = (("attention", "precision", _needs_half),)
"""(layer, another that it needs, in which jobs)."""
