"""One layer that this run forces to a value, or one remedy: says what was changed, or why it could not be."""

from __future__ import annotations

import functools

from trueup_instrument import places
from trueup_instrument.dynamo import unseen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, ParamSpec, TypeVar

    from trueup_instrument.session import Session

    P = ParamSpec("P")
    R = TypeVar("R")

LISTED = 40
"""Changes of one applier that are written."""
MOST_PARTS = 20_000
"""Parts of a layer that are."""


class Switch:
    """What an applier is given: the value asked for, and a way to tell what it did.

    The value of a remedy is the variables that it sets, else True. `parts` are those of the layer to which the value is
    restricted, in `precision=fp32:layers.0,layers.1`; None where it is not.
    """

    def __init__(self, session: Session, name: str, value: Any) -> None:
        self.session = session
        self.imports = session.imports
        self.name = name
        self.value, self.parts = _parted(value)
        self._told: set[tuple[str, str | None]] = set()
        self._write = unseen(self._write)  # type: ignore[method-assign]  # the same signature

    def changed(self, change: str, module: str | None = None, **detail: Any) -> None:
        """Record a change, once for each module. Cheap when it was told before."""
        key = (change, module)
        if key not in self._told and len(self._told) < LISTED:
            self._told.add(key)
            self._write(module, change=change, **detail)

    def cannot(self, why: str, module: str | None = None) -> None:
        """Record, once, that something stays as it is, and why."""
        if ("cannot", why) not in self._told:
            self._told.add(("cannot", why))
            self._write(module, cannot=why)

    def has_parts(self, names: list[str]) -> None:
        """Record what the parts of this layer are, in their order."""
        self.session.write("parts", layer=self.name, names=names[:MOST_PARTS])

    def _write(self, module: str | None, **detail: Any) -> None:
        detail = {"value": self.value, "at": places.user_line(), **detail}
        self.session.write("applier", applier=self.name, module=module, detail=detail)

    def guarded(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """`function`, whose failure is told and leaves the program as it is; it then gives None."""
        function = unseen(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self.cannot(f"{type(error).__name__}: {error}"[:500])
                return None

        return call

    def after(self, name: str, hook: Callable[[ModuleType], object]) -> None:
        """Call `hook(module)`, guarded, right after module `name` is imported, before others take names from it."""
        self.imports.after(name, self.guarded(hook))


def _parted(value: Any) -> tuple[Any, tuple[str, ...] | None]:
    if not isinstance(value, str) or ":" not in value:
        return value, None
    kind, _, parts = value.partition(":")
    return kind, tuple(parts.split(","))
