"""Key and value heads are repeated for grouped-query attention, where fused kernels decline `enable_gqa`."""

from __future__ import annotations

from trueup_instrument.appliers.attention_calls import change_attention, runs_math, tells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    change_attention(switch, lambda original, torch: _expanded(switch, original, torch))


def _expanded(switch: Switch, original: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    tell = tells(switch, "key and value heads repeated, enable_gqa left out")

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        rest = (dropout_p, is_causal)
        if not options.get("enable_gqa") or query.dim() < 4 or query.size(-3) == key.size(-3):
            return original(query, key, value, attn_mask, *rest, **options)
        math = runs_math(torch, (query, key, value, attn_mask), rest, options)
        if math is False or (math is None and attn_mask is None):  # traced: a mask is what they decline
            return original(query, key, value, attn_mask, *rest, **options)
        keys = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        values = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
        alone = {**options, "enable_gqa": False}
        if runs_math(torch, (query, keys, values, attn_mask), rest, alone):
            return original(query, key, value, attn_mask, *rest, **options)
        tell()
        return original(query, keys, values, attn_mask, *rest, **alone)

    return attention
