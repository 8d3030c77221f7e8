"""A number on a module that changes from step to step is an input of its graph, also where sizes were to be static."""

from __future__ import annotations

from trueup_instrument.appliers.remedies import automatic_dynamic_shapes, unspecialize_module_integers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    unspecialize_module_integers.attach(switch)
    automatic_dynamic_shapes.attach(switch)
