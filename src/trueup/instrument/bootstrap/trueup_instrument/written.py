"""Whether parameters were written to, told from their version counters: a compiled optimizer step calls no hooks."""

from __future__ import annotations

import weakref

from trueup_instrument.observers.samples.parameters import local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

WATCHED = 16
"""Parameters with a gradient that are watched; an optimizer step writes to all of them."""


class Written:
    def __init__(self, optimizers: Callable[[], Iterable[Any]]) -> None:
        self._optimizers = optimizers
        """A function that gives the live optimizers."""
        self._seen: list[tuple[weakref.ref[Any], int]] = []

    def remember(self) -> None:
        """The gradients of a backward pass are there: a write from now on is an optimizer's."""
        self._seen = [(weakref.ref(parameter), version(parameter)) for parameter in self._with_gradient()]

    def forget(self) -> None:
        """The writes so far are accounted for."""
        self._seen = []

    def since_remembered(self) -> bool:
        """True when every watched parameter was written to since `remember`."""
        watched = [(parameter, seen) for reference, seen in self._seen if (parameter := reference()) is not None]
        return bool(watched) and all(version(parameter) != seen for parameter, seen in watched)

    def _with_gradient(self) -> list[Any]:
        found = []
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        found.append(parameter)
                        if len(found) == WATCHED:
                            return found
        return found


def version(parameter: Any) -> int:
    """Goes up with each write in place; that of a DTensor with writes to either of its two tensors."""
    held = local(parameter)
    return parameter._version + (held._version if held is not parameter else 0)  # type: ignore[no-any-return]  # an int
