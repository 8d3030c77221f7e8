"""An optimizer updates float32 copies of its low-precision parameters, which are rounded from them after each step.

Of optimizers that step within each other (Lookahead, SAM) the outermost does; one that has another step over a part of
its parameters and then sends them to the other processes (ZeroRedundancyOptimizer) leaves it to that one.
"""

from __future__ import annotations

import functools
import sys
import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Held = list[tuple[Any, Any, Any, Any, int]]
    """(parameter, its own data, its own gradient, the gradient in float32, the version of that) of a step that runs."""

LOW = ("torch.bfloat16", "torch.float16")


def attach(switch: Switch) -> None:
    switch.after("torch.optim.optimizer", lambda module: _steps(switch, module))


def _steps(switch: Switch, module: Any) -> None:
    """The hooks around every step of every optimizer; within one the parameter holds its float32 copy."""
    torch = sys.modules["torch"]
    masters: dict[int, Any] = {}
    """id(parameter) → its float32 copy, which goes when the parameter does."""
    running: list[tuple[Any, Held]] = []
    """The steps that run, the outermost first, and what each of them took."""

    def take(optimizer: Any, held: Held) -> None:
        if _steps_by_shards(optimizer, module.Optimizer):
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                own, gradient = parameter.data, parameter.grad
                if gradient is None or str(parameter.dtype) not in LOW:
                    continue
                if hasattr(parameter, "__tensor_flatten__"):
                    switch.cannot("parameters made of tensors (DTensor) cannot hold another dtype for a step")
                    continue
                master, copy = _master(torch, masters.get(id(parameter)), own), gradient.detach().float()
                if id(parameter) not in masters:
                    weakref.finalize(parameter, masters.pop, id(parameter), None)
                masters[id(parameter)] = master
                held.append((parameter, own, gradient, copy, copy._version))
                parameter.grad = None
                parameter.data = master
                parameter.grad = copy
        if held:
            switch.changed("updates in float32", type(optimizer).__name__)

    def give_back(held: Held) -> None:
        """A gradient that the step has set to None, zeroed or clipped is so afterwards, too."""
        for parameter, own, gradient, copy, version in held:
            masters[id(parameter)] = parameter.data.float()
            now, parameter.grad = parameter.grad, None
            own.copy_(parameter.data)
            parameter.data = own
            if now is None:
                continue
            if now is not copy or now._version != version:
                gradient.detach().copy_(now)
            parameter.grad = gradient
        held.clear()

    def end(depth: int) -> None:
        """Steps from this depth on have ended, by an error or well."""
        with torch.no_grad():
            while len(running) > depth:
                give_back(running[-1][1])
                running.pop()

    def depth_of(optimizer: Any) -> int:
        return next((depth for depth, (each, _) in enumerate(running) if each is optimizer), len(running))

    def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        end(depth_of(optimizer))
        held: Held = []
        running.append((optimizer, held))
        take(optimizer, held)
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if not callable(closure):
            return None

        @functools.wraps(closure)
        def in_low_precision() -> Any:
            """The forward and backward that the step asks for see the parameters as they are outside of it."""
            with torch.no_grad():
                give_back(held)
            loss = closure()
            take(optimizer, held)
            return loss

        if "closure" in kwargs:
            return args, {**kwargs, "closure": in_low_precision}
        return (args[0], in_low_precision, *args[2:]), kwargs

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        end(depth_of(optimizer))

    def hooked(original: Callable[..., Any]) -> Callable[..., Any]:
        def profile_hook_step(step: Callable[..., Any]) -> Callable[..., Any]:
            """A step that fails leaves the parameters as it got them: no hook runs after it."""
            with_hooks = original(step)

            @functools.wraps(with_hooks)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if torch.compiler.is_compiling():
                    return with_hooks(*args, **kwargs)
                depth = len(running)
                try:
                    return with_hooks(*args, **kwargs)
                finally:
                    if len(running) > depth:
                        end(depth)

            return wrapper

        return profile_hook_step

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
    replace(module.Optimizer, "profile_hook_step", hooked)


def _master(torch: Any, master: Any, own: Any) -> Any:
    """The float32 copy of a parameter, that follows what the program wrote into the parameter between two steps."""
    if master is None or master.shape != own.shape or master.device != own.device:
        return own.detach().float().clone()
    with torch.no_grad():
        return torch.where(own == master.to(own.dtype), master, own.float())


def _steps_by_shards(optimizer: Any, kind: type[Any]) -> bool:
    """Whether an optimizer of its own steps over fewer parameters than it has itself."""
    mine = sum(len(group["params"]) for group in optimizer.param_groups)
    inner = [each for each in vars(optimizer).values() if isinstance(each, kind)]
    return any(sum(len(group["params"]) for group in each.param_groups) < mine for each in inner)
