"""`A before B`: two layers of an unmodified job change places, where it applies B before A.

What counts is what lies within what: the layer that is applied first ends up within what the second one wraps. An
applier here says that it has changed something only where that was the other way round.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch

WAYS = {
    "compile before checkpointing": "compile_within",
    "compile before sharding": "compile_within",
    "compile before adapter": "compile_within",
    "checkpointing before compile": "compile_around",
    "sharding before compile": "compile_around",
    "adapter before compile": "compile_around",
    "adapter before sharding": "adapter_before_sharding",
    "checkpointing before sharding": "checkpoint_within_unit",
    "sharding before checkpointing": "checkpoint_around_unit",
    "checkpointing before adapter": "checkpointing_and_adapter",
    "adapter before checkpointing": "checkpointing_and_adapter",
    "precision before adapter": "precision_and_adapter",
    "adapter before precision": "precision_and_adapter",
}
"""Order → the file that brings it about."""
IMPOSSIBLE = {
    "sharding before adapter": "units are made of the parameters that are there; adapters come into none of them later",
    "compile before precision": "what is compiled is traced at its first call, with the dtypes of then",
    "precision before compile": "what is compiled is traced at its first call, with the dtypes of then",
}
"""Order → why it is not brought about in process."""


def attach(switch: Switch) -> None:
    way = WAYS.get(switch.name)
    if way is None:
        switch.cannot(IMPOSSIBLE.get(switch.name, "trueup cannot change this order in process"))
    else:
        importlib.import_module(f"{__name__}.{way}").attach(switch)
