"""torch.compile finds out itself which sizes vary, where it was told that none does."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace
from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "automatic_dynamic_shapes", True)
    hold(switch, "assume_static_by_default", True)
    switch.after("torch._dynamo.eval_frame", lambda module: replace(module, "optimize", lambda f: _optimize(switch, f)))


def _optimize(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    """The one function behind torch.compile, which hands `dynamic` on by name."""
    tell = switch.guarded(lambda: switch.changed("dynamic = None, was False"))

    def optimize(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dynamic") is False:
            kwargs["dynamic"] = None
            tell()
        return original(*args, **kwargs)

    return optimize
