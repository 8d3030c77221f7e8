"""torch.compile."""

from __future__ import annotations

from trueup.procedures.reproduction.parts.part import Part, keywords
from trueup.procedures.reproduction.recipe import Recipe, Step


def in_place(step: Step, recipe: Recipe) -> Part:
    """`model.compile()`, or of each block."""
    if step.scope == "model":
        return Part(lines=(f"model.compile({_arguments(step)})",))
    return Part(lines=("for block in blocks:", f"    block.compile({_arguments(step)})"), blocks=True)


def wrapped(step: Step, recipe: Recipe) -> Part:
    """`torch.compile(model)`, or of each block."""
    options = f", {_arguments(step)}" if _arguments(step) else ""
    if step.scope == "model":
        return Part(lines=(f"model = torch.compile(model{options})",))
    return Part(
        lines=("for i, block in enumerate(blocks):", f"    blocks[i] = torch.compile(block{options})"), blocks=True
    )


def _arguments(step: Step) -> str:
    options = step.options
    backend = options.get("backend")
    return keywords(
        backend=None if backend == "inductor" else backend,
        mode=options.get("mode"),
        fullgraph=options.get("fullgraph") or None,
        dynamic=options.get("dynamic"),
    )
