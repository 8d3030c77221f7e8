"""torch.compile records no CUDA graphs, whichever mode asks for them."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


MODES = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}
OPTION = "triton.cudagraphs"


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: replace(torch, "compile", lambda original: _compile(switch, original)))


def _compile(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    def change(options: dict[str, Any]) -> None:
        mode, inner = options.get("mode"), options.get("options")
        if mode in MODES:
            options["mode"] = MODES[mode]
            switch.changed(f"mode {mode} replaced by {MODES[mode]}")
        if inner and inner.get(OPTION):
            options["options"] = {**inner, OPTION: False}
            switch.changed(f"{OPTION} = False")

    change = switch.guarded(change)

    def torch_compile(model: Any = None, **options: Any) -> Any:
        change(options)
        return original(model, **options)

    return torch_compile
