"""xformers before it re-exported mslk: memory_efficient_attention as one operator, over its forward and backward.

Read in the sources of 0.0.23 to 0.0.33 (`xformers/ops/fmha/__init__.py`), tried on their signatures; no GPU was at
hand. Calls with dropout, a kernel of the caller's choice, or a bias other than none, a tensor or the causal one stay
the library's.
"""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace
from trueup_instrument.bridging.functions import bridge
from trueup_instrument.bridging.operators import captures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MODULE = "xformers.ops.fmha"
NEEDED = ("memory_efficient_attention_forward_requires_grad", "memory_efficient_attention_backward")


def install(torch: Any, module: Any) -> tuple[list[str], str]:
    """Bridge `xformers.ops.memory_efficient_attention`: (what was, why not)."""
    name = "memory_efficient_attention"
    original = getattr(module, name, None)
    if original is None or hasattr(original, "_trueup_bridge"):
        return [], ""
    missing = [each for each in (*NEEDED, "LowerTriangularMask") if not hasattr(module, each)]
    if missing:
        return [], f"this xformers has no {', '.join(missing)}"
    replace(module, name, lambda function: _bridged(torch, module, function))
    return [name], ""


def _bridged(torch: Any, module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    causal_mask = module.LowerTriangularMask

    def bias_of(bias: Any, causal: bool) -> Any:
        return causal_mask() if causal else bias

    def forward(query: Any, key: Any, value: Any, bias: Any, causal: bool, scale: float | None) -> tuple[Any, Any]:
        out, lse = module.memory_efficient_attention_forward_requires_grad(
            query, key, value, bias_of(bias, causal), 0.0, scale
        )
        return out, lse

    def backward(
        grad: Any, out: Any, lse: Any, query: Any, key: Any, value: Any, bias: Any, causal: bool, scale: float | None
    ) -> tuple[Any, Any, Any]:
        found: tuple[Any, Any, Any] = module.memory_efficient_attention_backward(
            grad.contiguous(), out, lse, query, key, value, bias_of(bias, causal), 0.0, scale
        )
        return found

    def fake(query: Any, key: Any, value: Any, *rest: Any) -> tuple[Any, Any]:
        """query: (rows, length, heads, size); of five dimensions the third is a group of heads."""
        out = query.new_empty((*query.shape[:-1], value.shape[-1]))
        lse = query.new_empty((query.shape[0], *query.shape[2:-1], query.shape[1]), dtype=torch.float32)
        return out, lse

    kernel = bridge(
        forward,
        name="xformers::trueup_memory_efficient_attention",
        backward=backward,
        fake=fake,
        arguments={"bias": "Tensor?", "causal": "bool", "scale": "float?"},
        outputs=2,
    )
    captured = captures(torch)

    def memory_efficient_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_bias: Any = None,
        p: float = 0.0,
        scale: float | None = None,
        **options: Any,
    ) -> Any:
        known = attn_bias is None or attn_bias is causal_mask or isinstance(attn_bias, (causal_mask, torch.Tensor))
        if not captured() or p or not known or any(each is not None for each in options.values()):
            return original(query, key, value, attn_bias, p, scale, **options)
        if isinstance(attn_bias, torch.Tensor) and attn_bias.requires_grad:
            return original(query, key, value, attn_bias, p, scale, **options)
        causal = attn_bias is not None and not isinstance(attn_bias, torch.Tensor)
        return kernel(query, key, value, None if causal else attn_bias, causal, scale)[0]

    memory_efficient_attention._trueup_bridge = kernel._trueup_bridge  # type: ignore[attr-defined]
    return memory_efficient_attention
