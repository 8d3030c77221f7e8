"""What comes to scaled_dot_product_attention in float32 is cast to the half type of the others, as under autocast."""

from __future__ import annotations

from trueup_instrument.appliers.casts import is_low
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    name = "scaled_dot_product_attention"
    switch.after("torch.nn.functional", lambda module: replace(module, name, lambda f: _aligned(switch, f)))


def _aligned(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    """The low dtype is that of the projections; a rotary embedding, adapters or a learned prefix raise the others."""
    tell = switch.guarded(lambda dtypes: switch.changed(f"attention inputs cast to one dtype, were {dtypes}"))

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
        dtype = next((each.dtype for each in (value, query, key) if is_low(each.dtype)), value.dtype)
        odd = attn_mask is not None and attn_mask.is_floating_point() and attn_mask.dtype != dtype
        if query.dtype == key.dtype == value.dtype and not odd:
            return original(query, key, value, attn_mask, *args, **kwargs)
        tell(", ".join(str(each.dtype) for each in (query, key, value, attn_mask) if each is not None))
        if odd:
            attn_mask = attn_mask.to(dtype)
        return original(query.to(dtype), key.to(dtype), value.to(dtype), attn_mask, *args, **kwargs)

    return attention
