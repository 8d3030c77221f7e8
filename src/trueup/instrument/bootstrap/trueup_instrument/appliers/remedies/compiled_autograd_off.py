"""The backward pass is the engine's own, not captured anew by compiled autograd."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "compiled_autograd", False)
