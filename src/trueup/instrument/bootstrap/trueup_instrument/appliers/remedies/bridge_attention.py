"""Attention kernels that Dynamo cannot look into become operators within graphs; eager calls stay the library's own."""

from __future__ import annotations

import sys

from trueup_instrument.bridging import libraries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    for name, install in libraries.LIBRARIES.items():
        # mypy infers no type of a lambda with a default
        switch.after(name, lambda module, install=install: _bridge(switch, module, install))  # type: ignore[misc]


def _bridge(switch: Switch, module: Any, install: Any) -> None:
    before = dict(vars(module))
    done, why = install(sys.modules["torch"], module)
    for name, each in before.items():
        if name not in done and vars(module).get(name) is not each:
            switch.changed(f"{name} may be given a tensor twice", module.__name__)
    for name in done:
        switch.changed(f"{name} made an operator", module.__name__)
    if why:
        switch.cannot(why, module.__name__)
