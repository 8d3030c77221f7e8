"""Ways to make a recipe smaller."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trueup.procedures.reproduction.recipe import Recipe, Step

Simplification = Callable[[Recipe], Recipe]


def _with(**changes: object) -> Simplification:
    return lambda recipe: msgspec.structs.replace(recipe, **changes)


def _settings(layer: str, **changes: object) -> Simplification:
    """Settings of a layer; None takes one away."""

    def change(step: Step) -> Step:
        options = {**step.options, **changes}
        return msgspec.structs.replace(step, options={name: to for name, to in options.items() if to is not None})

    return lambda recipe: msgspec.structs.replace(
        recipe, steps=tuple(change(step) if step.layer == layer else step for step in recipe.steps)
    )


RISKY: tuple[Simplification, ...] = (
    _with(iterations=3),
    _with(iterations=1),
    _with(optimizer=False),
    _with(breaks=()),
    _with(blocks=1),
    _with(ranks=1),
    _settings("compile", backend="eager"),
)
"""Some of which the fault mostly needs."""
SETTINGS: tuple[Simplification, ...] = (
    _settings("compile", mode=None, dynamic=None),
    _settings("compile", fullgraph=None),
    _settings("sharding", reshard_after_forward=None),
    _settings("sharding", param_dtype=None, reduce_dtype=None),
    _settings("sharding", sharding_strategy=None),
    _settings("sharding", use_orig_params=None),
)
EXTRAS: tuple[Simplification, ...] = (_with(clip=False), _with(attention=False))
"""What a fault seldom needs."""
SELDOM: tuple[Simplification, ...] = (_settings("adapter", others=None), _with(ranks=1))
"""What one that raises seldom needs, too."""


def lean(recipe: Recipe) -> Recipe:
    """Without what a fault seldom needs."""
    for change in (*EXTRAS, *(SELDOM if recipe.sign is None else ())):
        recipe = change(recipe) if _fits(recipe, change(recipe), raises=True) else recipe
    return recipe


def of(recipe: Recipe, raises: bool) -> list[list[Simplification]]:
    """Those that change it, in groups: what it still does without all of a group is asked first.

    A fault that does not raise keeps the size in which trueup sees it.
    """
    return [
        [change for change in group if change(recipe) != recipe and _fits(recipe, change(recipe), raises)]
        for group in ((*RISKY, *SETTINGS), (*EXTRAS, *SELDOM))
    ]


def _fits(before: Recipe, after: Recipe, raises: bool) -> bool:
    """Whether what the fault is about stays."""
    if "attention" in before.off and before.attention and not after.attention:
        return False
    seen = ("iterations", "optimizer", "blocks", "breaks")
    return raises or all(getattr(before, name) == getattr(after, name) for name in seen)
