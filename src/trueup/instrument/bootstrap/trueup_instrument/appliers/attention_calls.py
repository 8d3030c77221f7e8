"""What the appliers do to calls of scaled_dot_product_attention, eager and within graphs."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

MATH = 0
"""`SDPBackend.MATH`"""


def change_attention(switch: Switch, make: Callable[[Callable[..., Any], Any], Callable[..., Any]]) -> None:
    """Replace scaled_dot_product_attention by `make(original, torch)`, which Dynamo traces into."""

    def attention(torch: Any) -> None:
        replace(torch.nn.functional, "scaled_dot_product_attention", lambda original: make(original, torch))

    switch.after("torch", attention)


def tells(switch: Switch, change: str) -> Callable[[], None]:
    """A function that records a change; where it is traced, once for the graph, and it is no part of the graph."""

    def tell() -> None:
        switch.changed(change)

    told: Any = switch.guarded(tell)
    told._dynamo_marked_constant = True  # as by torch._dynamo.assume_constant_result, which would import the compiler
    found: Callable[[], None] = told
    return found


def runs_math(torch: Any, inputs: tuple[Any, ...], rest: tuple[Any, ...], options: dict[str, Any]) -> bool | None:
    """Whether torch would take the math kernel for query, key, value and mask, then dropout and causality.

    None where torch does not tell: while a graph is traced, and for what it refuses.
    """
    if torch.compiler.is_compiling() or not hasattr(torch, "_fused_sdp_choice"):
        return None
    try:
        return bool(torch._fused_sdp_choice(*inputs, *rest, **options) == MATH)
    except RuntimeError:
        return None
