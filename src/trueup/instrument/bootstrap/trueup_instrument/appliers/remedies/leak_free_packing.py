"""Packed rows without a cache and without a mask of tokens: transformers then keeps their documents apart.

A mask of padding is left out where no token that counts has padding before it within its document, as positions tell
documents: a causal token then sees what it should. What is computed at the padding itself is another thing than before.
"""

from __future__ import annotations

import sys

from trueup_instrument.appliers.remedies import disable_kv_cache
from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    disable_kv_cache.attach(switch)
    switch.after("transformers.masking_utils", lambda module: _masks(switch, module))


def _masks(switch: Switch, module: ModuleType) -> None:
    """The function that each mask is made through; it looks for packed rows where it is given no mask."""

    def drop(arguments: dict[str, Any]) -> None:
        mask = arguments["attention_mask"]
        if mask is None or not isinstance(mask, sys.modules["torch"].Tensor) or mask.ndim != 2:
            return
        positions = arguments.get("position_ids")
        if positions is None:
            return
        if bool(mask.all()):
            arguments["attention_mask"] = None
            switch.changed("attention_mask of ones left out")
        elif padding_stands_apart(mask, positions):
            arguments["attention_mask"] = None
            switch.changed("attention_mask of padding left out, which the positions keep apart")

    if not change_arguments(switch, module, "_preprocess_mask_arguments", drop):
        switch.cannot("this transformers makes its masks by other means")


def padding_stands_apart(mask: Any, positions: Any) -> bool:
    """Whether rows are packed and the documents that transformers makes of positions part tokens from padding.

    Padding may follow the tokens of a document, which then do not look at it.
    """
    torch = sys.modules["torch"]
    if positions.dim() != 2 or positions.shape[-1] != mask.shape[-1]:
        return False
    positions = positions.expand(mask.shape)
    keep = mask != 0
    starts = positions.diff(prepend=positions[:, :1] - 1, dim=-1) != 1
    places = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    start = torch.where(starts, places, 0).cummax(1).values
    padding = torch.where(keep, -1, places).cummax(1).values
    documents = starts.cumsum(1)
    first = torch.where(keep, documents, documents.max() + 1).min(1).values
    last = torch.where(keep, documents, -1).max(1).values
    return bool((last > first).any()) and not bool((keep & (padding >= start)).any())
