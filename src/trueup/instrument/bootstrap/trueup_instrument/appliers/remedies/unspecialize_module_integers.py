"""An integer attribute of a module is an input of its graph, not a constant that each block is compiled again for."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "allow_unspec_int_on_nn_module", True)
