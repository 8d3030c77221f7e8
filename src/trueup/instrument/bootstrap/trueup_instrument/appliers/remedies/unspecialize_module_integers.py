"""An integer attribute of a module is an input of its graph, not a constant that each block is compiled again for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch._dynamo.config", lambda config: _allow(switch, config))


def _allow(switch: Switch, config: Any) -> None:
    if not hasattr(config, "allow_unspec_int_on_nn_module"):
        switch.cannot("this torch has no such setting (it came with 2.6)")
    elif not config.allow_unspec_int_on_nn_module:
        config.allow_unspec_int_on_nn_module = True
        switch.changed("allow_unspec_int_on_nn_module = True", "torch._dynamo.config")
