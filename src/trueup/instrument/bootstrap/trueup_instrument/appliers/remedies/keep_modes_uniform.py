"""A compiled module sees the same `requires_grad` in each call, where the program switches it on and off.

What was frozen once and trainable another time is trainable within the call. A parameter is frozen again right after
it, so that backward leaves its gradient alone; an input is a leaf of its own, whose gradient goes nowhere.
"""

from __future__ import annotations

import sys
import weakref

from trueup_instrument.appliers.compiled_calls import around_compiled_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switched = Switched()

    def around(module: Any, arguments: Any) -> tuple[Any, Callable[[], None] | None]:
        args, kwargs = arguments
        inputs = switched.inputs_of(module)
        places: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        alike = {place: _trainable(value) for place, value in places if inputs.differs(place, value)}
        frozen = switched.frozen_parameters(module)
        if alike:
            switch.changed("inputs require gradients in each call", type(module).__name__)
            args = tuple(alike.get(index, value) for index, value in enumerate(args))
            kwargs = {name: alike.get(name, value) for name, value in kwargs.items()}
        if not frozen:
            return (args, kwargs), None
        switch.changed("parameters require gradients within each call", type(module).__name__)
        for parameter in frozen:
            parameter.requires_grad_(True)
        return (args, kwargs), lambda: _freeze(frozen)

    around_compiled_calls(switch, around)


def _freeze(parameters: list[Any]) -> None:
    for parameter in parameters:
        parameter.requires_grad_(False)


def _trainable(tensor: Any) -> Any:
    return tensor.detach().requires_grad_(True)


class Places:
    """The places of a module's arguments at which tensors required gradients."""

    def __init__(self) -> None:
        self._trained: set[int | str] = set()

    def differs(self, place: int | str, value: Any) -> bool:
        """True for a tensor that requires no gradient, where another one did."""
        torch = sys.modules["torch"]
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return False
        if value.requires_grad:
            self._trained.add(place)
        return not value.requires_grad and place in self._trained


class Switched:
    """What the calls of each compiled module have been given so far."""

    def __init__(self) -> None:
        self._inputs: weakref.WeakKeyDictionary[Any, Places] = weakref.WeakKeyDictionary()
        self._trained: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()

    def inputs_of(self, module: Any) -> Places:
        return self._inputs.setdefault(module, Places())

    def frozen_parameters(self, module: Any) -> list[Any]:
        """Parameters that are frozen now and were trainable in an earlier call of the module."""
        trained = self._trained.setdefault(module, set())
        frozen = []
        for index, parameter in enumerate(module.parameters()):
            if parameter.requires_grad:
                trained.add(index)
            elif index in trained and parameter.is_leaf:
                frozen.append(parameter)
        return frozen
