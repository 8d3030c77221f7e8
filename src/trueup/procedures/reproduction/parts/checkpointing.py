"""Activation checkpointing from outside of the model; that in a plain model's forward is in `model`."""

from __future__ import annotations

from trueup.procedures.reproduction.parts.part import Part
from trueup.procedures.reproduction.recipe import Recipe, Step

WRAPPING = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"


def hugging_face(step: Step, recipe: Recipe) -> Part:
    """Its own switch; a plain model has none, and checkpoints in its forward."""
    if recipe.model is None:
        return Part()
    given = is_reentrant(step)
    kwargs = "" if given is None else f'{{"use_reentrant": {given}}}'
    return Part(lines=(f"model.gradient_checkpointing_enable({kwargs})",))


def wrapper(step: Step, recipe: Recipe) -> Part:
    """Each block in a CheckpointWrapper."""
    names, given = "checkpoint_wrapper", ""
    if is_reentrant(step):
        names, given = "CheckpointImpl, checkpoint_wrapper", ", checkpoint_impl=CheckpointImpl.REENTRANT"
    return Part(
        imports=(f"from {WRAPPING} import {names}",),
        lines=("for i, block in enumerate(blocks):", f"    blocks[i] = checkpoint_wrapper(block{given})"),
        blocks=True,
    )


def is_reentrant(step: Step) -> bool | None:
    """As the step says; None where it leaves it to torch."""
    options = step.options
    found = options.get("use_reentrant", options.get("reentrant"))
    return None if found is None else bool(found)
