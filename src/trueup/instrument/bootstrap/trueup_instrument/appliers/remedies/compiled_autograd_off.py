"""The backward pass is the engine's own, not captured anew by compiled autograd."""

from __future__ import annotations

import contextlib

from trueup_instrument.appliers.replacing import replace
from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "compiled_autograd", False)
    switch.after("torch._dynamo.compiled_autograd", lambda module: _contexts(switch, module))


def _contexts(switch: Switch, module: ModuleType) -> None:
    """The context that programs put around their own backward pass does nothing."""
    told = switch.guarded(lambda: switch.changed("no compiled-autograd context", "torch._dynamo.compiled_autograd"))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _enable(*args: Any, **kwargs: Any) -> Any:
            told()
            return contextlib.nullcontext()

        return _enable

    replace(module, "_enable", make)
