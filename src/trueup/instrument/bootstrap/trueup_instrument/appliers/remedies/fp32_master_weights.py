"""An optimizer updates float32 copies of its low-precision parameters, which are rounded from them after each step."""

from __future__ import annotations

import functools
import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

LOW = ("torch.bfloat16", "torch.float16")


def attach(switch: Switch) -> None:
    switch.after("torch.optim.optimizer", lambda module: _steps(switch, module))


def _steps(switch: Switch, module: Any) -> None:
    """The hooks around every step of every optimizer; within one the parameter holds its float32 copy."""
    masters: dict[int, Any] = {}
    """id(parameter) → its float32 copy, which goes when the parameter does."""
    held: list[tuple[Any, Any, Any]] = []
    """(parameter, its own data, its own gradient) of the step that runs."""

    def take(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None or str(parameter.dtype) not in LOW:
                    continue
                if id(parameter) not in masters:
                    masters[id(parameter)] = parameter.detach().float().clone()
                    weakref.finalize(parameter, masters.pop, id(parameter), None)
                gradient, parameter.grad = parameter.grad, None
                held.append((parameter, parameter.data, gradient))
                parameter.data = masters[id(parameter)]
                parameter.grad = gradient.float()
        if held:
            switch.changed("updates in float32", type(optimizer).__name__)

    def give_back() -> None:
        for parameter, own, gradient in held:
            masters[id(parameter)] = parameter.data
            parameter.grad = None
            own.copy_(parameter.data)
            parameter.data = own
            parameter.grad = gradient
        held.clear()

    def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held.clear()
        take(optimizer)
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if not callable(closure):
            return None

        @functools.wraps(closure)
        def in_low_precision() -> Any:
            """The forward and backward that the step asks for see the parameters as they are outside of it."""
            give_back()
            loss = closure()
            take(optimizer)
            return loss

        if "closure" in kwargs:
            return args, {**kwargs, "closure": in_low_precision}
        return (args[0], in_low_precision, *args[2:]), kwargs

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        with sys.modules["torch"].no_grad():
            give_back()

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
