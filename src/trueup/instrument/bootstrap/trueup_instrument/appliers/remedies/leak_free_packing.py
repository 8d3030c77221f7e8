"""Packed rows without a mask that masks nothing and without a cache: transformers then keeps their documents apart."""

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
        if arguments.get("position_ids") is not None and bool(mask.all()):
            arguments["attention_mask"] = None
            switch.changed("attention_mask of ones left out")

    if not change_arguments(switch, module, "_preprocess_mask_arguments", drop):
        switch.cannot("this transformers makes its masks by other means")
