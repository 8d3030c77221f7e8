"""Dynamo tries the graphs of a function in the order in which they were made: recomputation takes that of forward."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch._dynamo.eval_frame", lambda module: _off(switch))


def _off(switch: Switch) -> None:
    evaluation: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if not hasattr(evaluation, "_set_lru_cache"):
        switch.cannot("this torch keeps the order")
        return
    evaluation._set_lru_cache(False)
    switch.changed("the order of graphs is that in which they were made")
