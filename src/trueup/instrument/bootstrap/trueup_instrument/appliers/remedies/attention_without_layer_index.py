"""Flash attention of Hugging Face models gets no layer index: it uses none, and each block is compiled for its own."""

from __future__ import annotations

from trueup_instrument.appliers.attention_calls import tells
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("transformers.modeling_flash_attention_utils", lambda module: _flash(switch, module))


def _flash(switch: Switch, module: Any) -> None:
    tell = tells(switch, "layer_idx left out")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _flash_attention_forward(*args: Any, **options: Any) -> Any:
            if "layer_idx" in options:
                tell()
                options = {name: value for name, value in options.items() if name != "layer_idx"}
            return original(*args, **options)

        return _flash_attention_forward

    if not replace(module, "_flash_attention_forward", make):
        switch.cannot("this transformers calls flash attention by other means")
