"""The name of a module within the model that it is a part of, before anything wraps it."""

from __future__ import annotations

import weakref

from trueup_instrument import modules
from trueup_instrument.appliers.binding import plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ITSELF = "the model itself"
"""Name of the outermost module."""


class Naming:
    """Names of modules, which are looked for once for each model."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def of(self, module: Any) -> str:
        """The first name of a module in its model."""
        if module not in self._names:
            for name, part in root_of(module).named_modules():
                self._names.setdefault(part, plain_module_name(name))
        return self._names.get(module, modules.class_name(module))


def plain_module_name(name: str) -> str:
    """The name of a module as it was before its model was wrapped."""
    return plain_name(f"{name}.").rstrip(".") or ITSELF


def root_of(module: Any) -> Any:
    """The outermost module that holds this one: blocks are sharded one by one."""
    for root in modules.roots_of(modules.live_modules()):
        if any(part is module for part in root.modules()):
            return root
    return module
