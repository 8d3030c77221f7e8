"""What was to be compiled by inductor is captured, and its graphs run operator by operator."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

BACKEND = "aot_eager"
OF_INDUCTOR = ("mode", "options")


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: replace(torch, "compile", lambda original: _compile(switch, original)))


def _compile(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    tell = switch.guarded(lambda: switch.changed(f"backend inductor replaced by {BACKEND}"))

    def torch_compile(model: Any = None, **options: Any) -> Any:
        if options.get("backend", "inductor") == "inductor" and not options.get("disable"):
            options = {name: value for name, value in options.items() if name not in OF_INDUCTOR}
            options["backend"] = BACKEND
            tell()
        return original(model, **options)

    return torch_compile
