"""`checkpointing=off`: torch.utils.checkpoint calls its function straight, so that nothing is recomputed.

The one function that everything else is made of is replaced, as soon as its module is there: wrapped modules, Hugging
Face's and Lightning's switches and `checkpoint_sequential` all take it by name afterwards. They keep their classes and
their flags, and with them what the flags also do, such as filling no key/value cache.
"""

from __future__ import annotations

import inspect
import sys

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.utils.checkpoint", lambda module: _functions(switch, module))
    switch.after("torch._dynamo.utils", lambda module: _in_graphs(switch, module))
    switch.after("torch.distributed._composable.checkpoint_activation", lambda module: _composable(switch, module))


def _functions(switch: Switch, module: ModuleType) -> None:
    replace(module, "checkpoint", lambda original: _straight(switch, original))


def _straight(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    own = {
        name
        for name, parameter in inspect.signature(original).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    } | {"preserve_rng_state"}
    tell = switch.guarded(lambda function: switch.changed("calls the function straight", name_of(function)))
    is_compiling = None

    def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if is_compiling is not None and not is_compiling():
            tell(function)
        return function(*args, **{name: value for name, value in kwargs.items() if name not in own})

    def torch_is_there(torch: ModuleType) -> None:
        nonlocal is_compiling
        is_compiling = torch.compiler.is_compiling

    switch.after("torch", torch_is_there)
    return checkpoint


def _in_graphs(switch: Switch, module: ModuleType) -> None:
    """Dynamo makes an operator of its own of a checkpoint in a graph; it now traces into the straight call."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def is_utils_checkpoint(value: Any) -> bool:
            if original(value):
                switch.changed("is traced as a straight call")
            return False

        return is_utils_checkpoint

    if not replace(module, "is_utils_checkpoint", make):
        switch.cannot("this torch recognizes checkpoints in graphs by other means")


def _composable(switch: Switch, module: ModuleType) -> None:
    """`torch.distributed._composable.checkpoint` works through hooks that a switch of its state governs."""

    def make(original: Any) -> Callable[..., Any]:
        def checkpoint(target: Any, **kwargs: Any) -> Any:
            result = original(target, **kwargs)
            original.state(target).enable_hook = False
            switch.changed("hooks are idle", type(target).__name__)
            return result

        return checkpoint

    replace(module, "checkpoint", make)


def name_of(function: Any) -> str:
    """The class of a module or of a method's module, else the function's own name."""
    function = getattr(function, "func", function)
    owner = getattr(function, "__self__", function)
    if isinstance(owner, sys.modules["torch"].nn.Module):
        return type(owner).__name__
    return getattr(function, "__qualname__", None) or type(function).__name__
