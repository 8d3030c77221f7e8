"""The shapes of parameters may become dynamic, so that an optimizer's function is not compiled again for each."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "force_parameter_static_shapes", False)
    hold(switch, "automatic_dynamic_shapes", True)
