"""Operators that have a deterministic form take it; those that have none warn."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _on(switch, torch))


def _on(switch: Switch, torch: Any) -> None:
    if not torch.are_deterministic_algorithms_enabled():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS is not
        torch.use_deterministic_algorithms(True, warn_only=True)
        switch.changed("use_deterministic_algorithms(True, warn_only=True)")
