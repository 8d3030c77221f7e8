"""Flash attention of transformers reads no values within a graph: what it asks of a batch is asked once, before.

It asks whether a mask masks anything, how many tokens of each row are real, and of a single row whether its position
ids restart, in each layer. See `bridging/rows.py`, `bridging/padding.py`.
"""

from __future__ import annotations

import sys

from trueup_instrument.appliers.compiled_calls import around_compiled_calls
from trueup_instrument.appliers.replacing import replace
from trueup_instrument.bridging import huggingface
from trueup_instrument.bridging.rows import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    rows = Rows()

    def around(module: Any, arguments: Any) -> tuple[Any, None]:
        args, kwargs = arguments
        kwargs, changes = rows.prepared(module, args, kwargs)
        for change in changes:
            switch.changed(change, type(module).__name__)
        return (args, kwargs), None

    around_compiled_calls(switch, around)
    switch.after(huggingface.FLASH, lambda module: _attention(switch, module))
    switch.after(huggingface.MASKS, lambda module: _masks(switch, module))


def _attention(switch: Switch, module: Any) -> None:
    torch = sys.modules["torch"]
    tell = told(switch)
    if not huggingface.is_known(module):
        switch.cannot("this transformers calls flash attention by other means")
        return
    replace(module, "_flash_attention_forward", lambda original: huggingface.without_questions(torch, original, tell))


def _masks(switch: Switch, module: Any) -> None:
    """The mask functions of the flash implementations, by the interface through which models find them."""
    torch, interface = sys.modules["torch"], getattr(module, "AttentionMaskInterface", None)
    if interface is None or not hasattr(module, "flash_attention_mask"):
        switch.cannot("this transformers makes its masks by other means")
        return
    unread = huggingface.mask_unread(torch, module.flash_attention_mask)
    for name, function in list(interface._global_mapping.items()):
        if function is module.flash_attention_mask:
            interface.register(name, unread)


def told(switch: Switch) -> Callable[[str], None]:
    """A function that records a change; where it is traced, once for the graph, and it is no part of the graph."""

    def tell(what: str) -> None:
        switch.changed(what)

    found: Any = switch.guarded(tell)
    found._dynamo_marked_constant = True  # as by torch._dynamo.assume_constant_result, which would import the compiler
    kept: Callable[[str], None] = found
    return kept
