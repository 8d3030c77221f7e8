"""Attributes of the user's objects, read without running any code of theirs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELD = ("_parameters", "_buffers", "_modules")
"""Where a module keeps what its own `__getattr__` finds."""


def plain_attribute(thing: Any, name: str, default: Any = None) -> Any:
    """A value that the object, a module's tables or a class of it holds under `name`.

    `getattr` would call a `__getattr__` or property of the user's: it may raise, print or compute. What only those, or
    other descriptors, can give is `default` here.
    """
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:  # only slots
        own = {}
    if name in own:
        return own[name]
    for table in HELD:
        held = own.get(table)
        if isinstance(held, dict) and name in held:
            return held[name]
    for base in type(thing).__mro__:
        if name in base.__dict__:
            value = base.__dict__[name]
            return default if hasattr(type(value), "__get__") else value
    return default
