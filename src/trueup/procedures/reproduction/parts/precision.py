"""Low precision: of the parameters; autocast is in `training`."""

from __future__ import annotations

from trueup.procedures.reproduction.parts.part import Part
from trueup.procedures.reproduction.recipe import Recipe, Step


def cast(step: Step, recipe: Recipe) -> Part:
    """All parameters."""
    return Part(lines=(f"model = model.to(torch.{step.options['dtype']})",))
