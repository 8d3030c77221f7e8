"""Pending results of collectives are waited for before a compiled module is called: its inputs are plain tensors."""

from __future__ import annotations

import sys

from trueup_instrument.appliers.compiled_calls import around_compiled_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

COLLECTIVES = "torch.distributed._functional_collectives"


def attach(switch: Switch) -> None:
    def wait(tensor: Any) -> Any:
        kind = getattr(sys.modules.get(COLLECTIVES), "AsyncCollectiveTensor", None)
        if kind is None or not isinstance(tensor, kind):
            return tensor
        switch.changed("pending result of a collective waited for")
        return tensor.trigger_wait()

    def around(module: Any, arguments: Any) -> Any:
        from torch.utils._pytree import tree_map

        return tree_map(wait, arguments), None

    around_compiled_calls(switch, around)
