"""Gradients at the moment the optimizer steps: which are missing, their dtypes, their norm."""

from __future__ import annotations

import sys

from trueup_instrument.attributes import plain_attribute
from trueup_instrument.observers.samples import parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from trueup_instrument.sampling import Sample
    from trueup_instrument.session import Session

NAME = "gradients"

FIRST_STEPS = 5
"""Steps whose gradient norm is taken, besides the sampled ones."""
SHOWN = 40


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.without: set[int] = set()
        self.seen: set[int] = set()
        self.dtypes: dict[str, int] = {}

    def gradients_ready(self, optimizer: Any) -> None:
        norm_event(self.sample.session, optimizer, self.sample.clock.step_of(optimizer))
        for parameter in _trained_by(optimizer):
            if not parameter.requires_grad or id(parameter) in self.seen:
                continue
            self.seen.add(id(parameter))
            if parameter.grad is None:
                if parameter.numel():  # an FSDP1 rank may hold nothing of a parameter
                    self.without.add(id(parameter))
            else:
                name = parameters.dtype_name(parameter.grad)
                self.dtypes[name] = self.dtypes.get(name, 0) + parameters.local(parameter.grad).numel()

    def fields(self) -> dict[str, Any]:
        names = parameters.names_of(self.sample.roots)
        missing = sorted(names[key] for key in self.without if key in names)  # others are no part of the model
        return {
            "gradients": {
                "without": missing[:SHOWN],
                "without_count": len(missing),
                "with_count": len(self.seen) - len(self.without),
                "dtypes": self.dtypes,
            }
        }


def norm_event(session: Session, optimizer: Any, step: int) -> None:
    """Write the sums of squared gradient elements that this rank holds; merging over ranks gives the global norm."""
    torch = sys.modules["torch"]
    scale = plain_attribute(optimizer, "grad_scale")  # a fused optimizer takes a GradScaler's scale out by itself
    squares: dict[bool, list[Any]] = {False: [], True: []}
    with torch.no_grad():
        for parameter in _trained_by(optimizer):
            gradient = parameter.grad
            if gradient is None or gradient.is_sparse:
                continue
            held = parameters.local(gradient)
            if held.numel():
                values = torch.view_as_real(held.detach()) if held.is_complex() else held.detach()
                wide = values.dtype if values.dtype == torch.float64 else torch.float32
                norm = torch.linalg.vector_norm(values, dtype=wide)
                squares[parameters.is_sharded(gradient) or parameters.is_sharded(parameter)].append(norm * norm)
        if not squares[False] and not squares[True]:
            return
        session.write(
            "gradient",
            step=step,
            replicated_squares=_total(torch, squares[False], scale),
            sharded_squares=_total(torch, squares[True], scale),
        )


def _total(torch: ModuleType, parts: list[Any], scale: Any) -> float:
    if not parts:
        return 0.0
    device = parts[0].device
    total = float(torch.stack([part.to(device) for part in parts]).sum().item())
    return total / float(scale) ** 2 if scale is not None else total


def _trained_by(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
