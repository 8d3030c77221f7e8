"""No import and no setting takes kernels from scaled_dot_product_attention; `sdpa_kernel` still chooses."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

SETTERS = ("enable_flash_sdp", "enable_mem_efficient_sdp", "enable_math_sdp")


def attach(switch: Switch) -> None:
    switch.after("torch.backends.cuda", lambda module: _keep(switch, module))


def _keep(switch: Switch, module: Any) -> None:
    for name in SETTERS:
        # mypy infers no type of a lambda with a default
        if not replace(module, name, lambda original, name=name: _setter(switch, name, original)):  # type: ignore[misc]
            switch.cannot(f"this torch has no {name}")


def _setter(switch: Switch, name: str, original: Callable[[bool], None]) -> Callable[[bool], None]:
    tell = switch.guarded(lambda: switch.changed(f"{name}(False) left out", "torch.backends.cuda"))

    def enable(enabled: bool) -> None:
        if not enabled:
            tell()
        original(True)

    return enable
