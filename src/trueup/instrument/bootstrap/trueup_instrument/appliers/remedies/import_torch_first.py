"""torch is imported before the program's own imports, so that the loader knows its libraries."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    importlib.import_module("torch")
    switch.changed("torch imported first")
