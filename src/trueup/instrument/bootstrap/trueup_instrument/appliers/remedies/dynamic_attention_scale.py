"""A scale of attention that differs from block to block is an input of their one graph: the queries are multiplied.

scaled_dot_product_attention takes its scale as a constant only, so that Dynamo compiles each block for its own.
"""

from __future__ import annotations

from trueup_instrument.appliers.attention_calls import change_attention, tells
from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "allow_unspec_int_on_nn_module", True)
    change_attention(switch, lambda original, torch: _scaled(switch, original, torch))


def _scaled(switch: Switch, original: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    tell = tells(switch, "queries of compiled attention are multiplied by its scale")

    def attention(query: Any, *args: Any, scale: Any = None, **options: Any) -> Any:
        if scale is None or not torch.compiler.is_compiling():
            return original(query, *args, scale=scale, **options)
        tell()
        return original(query * scale, *args, scale=1.0, **options)

    return attention
