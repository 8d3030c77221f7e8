"""Which parameters, by the names that their model gives them, an optimizer was made with."""

from __future__ import annotations

import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.", "module.")
"""What wrapping puts into names."""


class Binding:
    """Follows the models whose parameters are asked for, and the optimizers that are made of them."""

    def __init__(self, switch: Switch) -> None:
        self._models: dict[int, weakref.ref[Any]] = {}
        self._bound: weakref.WeakKeyDictionary[Any, dict[int, tuple[weakref.ref[Any], str]]] = (
            weakref.WeakKeyDictionary()
        )
        """Optimizer → id of a parameter it was given → (model, name)."""
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        follow, bind = switch.guarded(self._follow), switch.guarded(self._bind)

        def named_parameters(original: Callable[..., Any]) -> Callable[..., Any]:
            def named_parameters(self: Any, *args: Any, **kwargs: Any) -> Any:
                follow(self)
                return original(self, *args, **kwargs)

            return named_parameters

        def add_param_group(original: Callable[..., Any]) -> Callable[..., Any]:
            def add_param_group(self: Any, param_group: dict[str, Any]) -> Any:
                result = original(self, param_group)
                bind(self)
                return result

            return add_param_group

        switch.after("torch.nn.modules.module", lambda module: replace(module.Module, *_at(named_parameters)))
        switch.after("torch.optim.optimizer", lambda module: replace(module.Optimizer, *_at(add_param_group)))

    def models(self) -> list[Any]:
        """The models whose parameters were asked for, no part of another among them."""
        alive = [model for reference in self._models.values() if (model := reference()) is not None]
        inner = {id(part) for model in alive for part in model.modules() if part is not model}
        return [model for model in alive if id(model) not in inner]

    def rebind(self, optimizer: Any) -> int:
        """Put the parameters that the models have now in the place of those they had; the number of those."""
        bound = self._bound.get(optimizer, {})
        names: dict[int, dict[str, Any]] = {}
        changed = 0
        for group in optimizer.param_groups:
            for index, parameter in enumerate(group["params"]):
                reference, name = bound.get(id(parameter), (lambda: None, ""))
                model = reference()
                if model is None:
                    continue
                present = names.setdefault(id(model), dict(_named(model))).get(name)
                if present is not None and present is not parameter:
                    group["params"][index] = present
                    bound[id(present)] = bound.pop(id(parameter))
                    optimizer.state.pop(parameter, None)
                    changed += 1
        return changed

    def _follow(self, model: Any) -> None:
        known = self._models.get(id(model))
        if known is None or known() is not model:  # a new model may lie where one was that is gone
            self._models[id(model)] = weakref.ref(model)

    def _bind(self, optimizer: Any) -> None:
        self.optimizers.add(optimizer)
        bound = self._bound.setdefault(optimizer, {})
        given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]} - set(bound)
        for model in self.models():
            for name, parameter in _named(model):
                if id(parameter) in given:
                    bound.setdefault(id(parameter), (weakref.ref(model), name))


def _at(function: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    return function.__name__, function


def _named(model: Any) -> list[tuple[str, Any]]:
    return [(plain_name(name), parameter) for name, parameter in model.named_parameters()]


def plain_name(name: str) -> str:
    """The name of a parameter as it was before its model was wrapped."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name
