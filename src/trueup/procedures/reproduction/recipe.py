"""What a synthesised script is made of: a small model, the guilty layers in their order, a few steps."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Scope = Literal["model", "blocks"]
Sign = Literal["eager blocks", "eager model", "gradients", "gathers", "reduced", "graphs", "finite", "loss", "time"]
"""What the script itself tests, where the fault raises nothing: see `signs`."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A layer as it is applied, by one of the ways in `parts`."""

    layer: str
    way: str
    scope: Scope = "model"
    options: dict[str, Any] = {}


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    off: tuple[str, ...]
    """Layers that the script can leave out."""
    steps: tuple[Step, ...]
    model: str | None = None
    """Class of transformers; None for a model in plain torch."""
    blocks: int = 2
    attention: bool = False
    """Whether the blocks of a plain model attend."""
    breaks: tuple[str, ...] = ()
    """What in the blocks of a plain model ends a graph: keys of `parts.model.BREAKS`."""
    ranks: int = 1
    device: Literal["cpu", "cuda"] = "cpu"
    iterations: int = 3
    clip: bool = True
    """Whether gradients are clipped."""
    optimizer: bool = True
    sign: Sign | None = None
    threshold: float | None = None
    """Relative difference of losses, or how many times as long a step takes."""

    def step_of(self, layer: str) -> Step | None:
        """The first application of a layer."""
        return next((step for step in self.steps if step.layer == layer), None)

    def ways(self) -> set[str]:
        """Of all steps."""
        return {step.way for step in self.steps}
