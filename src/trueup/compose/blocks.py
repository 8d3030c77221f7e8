"""The blocks of a model, by name, and how one of them is put in the place of another."""

from __future__ import annotations

from typing import Any

from trueup.compose.errors import ComposeError
from trueup.compose.plan import Plan
from trueup.instrument import inside


def blocks_of(model: Any, plan: Plan) -> dict[str, Any]:
    """{name: block} in the model's order; the outermost ones where blocks lie within blocks.

    Raises ComposeError for class names that the model does not have, TypeError for what is no model or no plan.
    """
    if not hasattr(model, "named_modules") or not isinstance(plan, Plan):
        given = f"{type(model).__name__} and {type(plan).__name__}"
        raise TypeError(f"a torch.nn.Module and a trueup.Plan are composed, not {given}")
    inside.make_importable()
    from trueup_instrument.appliers.compiling import repeated_blocks

    if plan.blocks:
        _known_or_refused(model, plan.blocks)
        wanted = {id(module) for module in model.modules() if type(module).__name__ in plan.blocks}
    else:
        wanted = {id(block) for block in repeated_blocks(model)}
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        if id(module) in wanted and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    return found


def replace_block(model: Any, name: str, block: Any) -> None:
    """Put `block` where the submodule `name` was."""
    parent, _, attribute = name.rpartition(".")
    model.get_submodule(parent)._modules[attribute] = block


def _known_or_refused(model: Any, names: tuple[str, ...]) -> None:
    kinds = sorted({type(module).__name__ for module in model.modules()})
    unknown = [name for name in names if name not in kinds]
    if unknown:
        raise ComposeError(
            f"the model has no {' or '.join(unknown)}: set Plan(blocks=...) to classes it has ({', '.join(kinds)})"
        )
