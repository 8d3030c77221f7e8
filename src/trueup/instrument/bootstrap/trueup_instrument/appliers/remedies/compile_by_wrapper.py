"""`Module.compile` of a class of torch.nn compiles: Dynamo skips torch.nn unless a frame of another is around it."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import compile_in_place, is_of_torch
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: replace(torch.nn.Module, "compile", lambda f: _compile(switch, f)))


def _compile(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    tell = switch.guarded(lambda module: switch.changed("compiled within a frame", type(module).__name__))

    def compile(self: Any, *args: Any, **kwargs: Any) -> None:
        if args or not is_of_torch(self):
            original(self, *args, **kwargs)
        else:
            compile_in_place(self, kwargs)
            tell(self)

    return compile
