"""Put another function in the place of a library's, with the same name, signature and kind."""

from __future__ import annotations

import functools
import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Replace `owner.name` by `make(original)`; class and static methods stay what they are.

    Returns False, and does nothing, when `owner` has no such attribute.
    """
    original = getattr(owner, name, None)
    if original is None:
        return False
    descriptor = owner.__dict__.get(name) if isinstance(owner, type) else None
    if isinstance(descriptor, (staticmethod, classmethod)):
        replacement = type(descriptor)(_dressed(make(descriptor.__func__), descriptor.__func__))
    else:
        replacement = _dressed(make(original), original)
    setattr(owner, name, replacement)
    return True


def change_arguments(switch: Switch, owner: Any, name: str, change: Callable[[dict[str, Any]], object]) -> bool:
    """Have `change(arguments)` alter, by name, the arguments of each call of `owner.name`, defaults included.

    When `change` fails the call is made as the program made it, and so is a call whose arguments do not fit.
    """
    altered = switch.guarded(lambda arguments: change(arguments) or True)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return original(*args, **kwargs)
            bound.apply_defaults()
            given = dict(bound.arguments)
            if not altered(bound.arguments):
                bound.arguments.update(given)
            return original(*bound.args, **bound.kwargs)

        return call

    return replace(owner, name, make)


def _dressed(replacement: Any, original: Callable[..., Any]) -> Any:
    """The name, signature, documentation and attributes of the original, but for what Dynamo has marked it with."""
    functools.update_wrapper(replacement, original, updated=())
    for attribute, value in getattr(original, "__dict__", {}).items():
        if not attribute.startswith("_torchdynamo") and attribute != "__wrapped__":
            setattr(replacement, attribute, value)
    return replacement
