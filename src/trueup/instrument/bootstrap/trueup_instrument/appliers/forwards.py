"""What the appliers do around the forward of a whole model."""

from __future__ import annotations

import sys
import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Before = Callable[[Any], Callable[[], object] | None]


def around_forwards(switch: Switch, before: Before) -> None:
    """Call `before(model)` ahead of each outermost call of a model, and what it gives, if anything, after it.

    A model is what was asked for its parameters, as for an optimizer, and has parts. Its class is changed, not the
    model, which the program may save. What Dynamo traces is left alone.
    """
    followed: weakref.WeakSet[Any] = weakref.WeakSet()
    changed: weakref.WeakSet[type] = weakref.WeakSet()
    running: list[Any] = []
    begin = switch.guarded(before)

    def call(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if sys.modules["torch"].compiler.is_compiling() or running or self not in followed:
                return original(self, *args, **kwargs)
            running.append(self)
            end = begin(self)
            try:
                return original(self, *args, **kwargs)
            finally:
                running.pop()
                if end is not None:
                    end()

        return call

    def follow(model: Any) -> None:
        kind = type(model)
        if model in followed or not any(True for _ in model.children()):
            return
        followed.add(model)
        if not any(base in changed for base in kind.__mro__):
            changed.add(kind)
            replace(kind, "__call__", call)

    follow_guarded = switch.guarded(follow)

    def named_parameters(original: Callable[..., Any]) -> Callable[..., Any]:
        def named_parameters(self: Any, *args: Any, **kwargs: Any) -> Any:
            follow_guarded(self)
            return original(self, *args, **kwargs)

        return named_parameters

    switch.after("torch.nn.modules.module", lambda module: replace(module.Module, "named_parameters", named_parameters))
