"""A piece of a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from trueup.procedures.reproduction.recipe import Recipe, Step


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Statements, and the imports that they need."""

    imports: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    blocks: bool = False
    """Whether the statements use the list `blocks`."""


Writer = Callable[[Step, Recipe], Part]


def keywords(**given: Any) -> str:
    """Arguments of a call: those that are set. A value that begins with `torch.` is an expression."""
    return ", ".join(f"{name}={value_of(value)}" for name, value in given.items() if value not in (None, ""))


def value_of(value: Any) -> str:
    """A Python literal with double quotes."""
    if isinstance(value, str):
        return value if value.startswith("torch.") else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_of, value)) + "]"
    return repr(value)
