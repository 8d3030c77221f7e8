"""A compiled module sees the same `requires_grad` in each call, where the program switches it on and off.

What is frozen now, and was trainable in an earlier call or when its optimizer was made, is trainable within the call. A
parameter is frozen again right after it, so that backward leaves its gradient alone; an input is a leaf of its own,
whose gradient goes nowhere.
"""

from __future__ import annotations

import sys
import weakref

from trueup_instrument.appliers.compiled_calls import around_compiled_calls
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switched = Switched()
    remember = switch.guarded(switched.remember)

    def add_param_group(original: Callable[..., Any]) -> Callable[..., Any]:
        def add_param_group(self: Any, param_group: dict[str, Any]) -> Any:
            result = original(self, param_group)
            remember(self.param_groups[-1]["params"])
            return result

        return add_param_group

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
    switch.after("torch.optim.optimizer", lambda module: replace(module.Optimizer, "add_param_group", add_param_group))


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
    """What was trainable: the inputs of each compiled module, and parameters."""

    def __init__(self) -> None:
        self._inputs: weakref.WeakKeyDictionary[Any, Places] = weakref.WeakKeyDictionary()
        self._trained: dict[int, weakref.ref[Any]] = {}

    def inputs_of(self, module: Any) -> Places:
        return self._inputs.setdefault(module, Places())

    def remember(self, parameters: list[Any]) -> None:
        for parameter in parameters:
            if parameter.requires_grad and not self._was_trainable(parameter):
                self._trained[id(parameter)] = weakref.ref(parameter)

    def frozen_parameters(self, module: Any) -> list[Any]:
        """Parameters that are frozen now and were trainable before."""
        parameters = list(module.parameters())
        self.remember(parameters)
        return [each for each in parameters if not each.requires_grad and each.is_leaf and self._was_trainable(each)]

    def _was_trainable(self, parameter: Any) -> bool:
        known = self._trained.get(id(parameter))
        return known is not None and known() is parameter
