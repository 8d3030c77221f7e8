"""Attention kernels and their calls in a sample, out of the operators, device kernels and functions seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trueup.attention.kernels import FUNCTIONS, AttentionKernel, kernel_of
from trueup.runs.events import Event
from trueup.runs.merging.values import mapping, whole

OWN_LAUNCH = frozenset({"flex"})
"""Device kernels that compiled code launches itself, without an operator above them."""


class Calls(NamedTuple):
    """Calls of one kernel."""

    number: int
    fused: bool
    seen_as: str
    """The operator, device kernel or function that was seen."""


def kernels_of(sample: Event) -> dict[str, Calls]:
    """{kernel: calls} of one sample.

    One call of attention may show three times: as the function of the model's code, as an operator, and as the device
    kernel that the operator launches. Operators count; device kernels only where no operator was seen; of a function
    and the operators it is made of, the larger number, which is that of the operators where it ran inside a graph.
    """
    seen = mapping(sample.get("attention"))
    known = {op: kernel for op in mapping(seen.get("ops")) if (kernel := kernel_of(op)) is not None}
    operators = {op: kernel for op, kernel in known.items() if kernel.is_operator}
    launched = {
        op: kernel
        for op, kernel in known.items()
        if not kernel.is_operator and (not operators or kernel.name in OWN_LAUNCH)
    }
    functions = {name: FUNCTIONS[name] for name in mapping(seen.get("functions")) if name in FUNCTIONS}
    found: dict[str, Calls] = {}
    ops, called = mapping(seen.get("ops")), mapping(seen.get("functions"))
    for kernels, numbers in ((operators, ops), (launched, ops), (functions, called)):
        for name, calls in _by_kernel(kernels, numbers).items():
            if name not in found or calls.number > found[name].number:
                found[name] = calls
    return found


def added_kernels(samples: list[Event]) -> dict[str, Calls]:
    """{kernel: calls} of several samples, added up."""
    total: dict[str, Calls] = {}
    for sample in samples:
        for name, calls in kernels_of(sample).items():
            total[name] = calls._replace(number=total[name].number + calls.number) if name in total else calls
    return total


def _by_kernel(kernels: Mapping[str, AttentionKernel], numbers: Mapping[str, Any]) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    for seen_as, kernel in kernels.items():
        number = whole(numbers.get(seen_as)) or 0
        if number and kernel.name in found:
            found[kernel.name] = found[kernel.name]._replace(number=found[kernel.name].number + number)
        elif number:
            found[kernel.name] = Calls(number, kernel.fused, seen_as)
    return found
