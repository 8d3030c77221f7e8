"""What a bridged entry point of an attention kernel costs a call, beyond the bare one (a published hijack: 2.4 us).

The kernel computes nothing: it returns tensors that are there. Calls of each kind are timed in turns and the quickest
turn of each counts, so that other work on the machine is not measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from trueup.instrument import inside

HIJACK = 2.4
"""Microseconds a call of the published one."""
CALLS, TURNS = 2000, 60


def measure(quick: bool = False) -> Iterator[str]:
    """Each way to call the entry, in microseconds, and how much more than the bare call."""
    found = quickest(ways(), 5 if quick else TURNS)
    bare = found["bare entry point"]
    for name, each in found.items():
        yield f"{name}: {each:.2f} us a call, {each - bare:+.2f} us"
    more = found["bridged entry point, eager"] - bare
    yield f"the bridge takes {more:.2f} us of an eager call; a published hijack takes {HIJACK} us"
    around = found["autograd.Function over the bridged one"] - found["autograd.Function over the bare one"]
    yield f"the library's own autograd.Function takes {around:+.2f} us more over the bridged entry point"


def quickest(ways: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Microseconds of one call, of the quickest of the turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(turns):
        for name, call in ways.items():
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - began) / CALLS * 1e6)
    return best


def ways() -> dict[str, Callable[[], object]]:
    inside.make_importable()
    sys.setswitchinterval(1.0)
    import torch
    from trueup_instrument.bridging.entries import bridged

    torch.set_num_threads(1)
    q, k, v = (torch.zeros(1, 8, 2, 8, dtype=torch.bfloat16) for _ in range(3))
    out, lse = torch.zeros_like(q), torch.zeros(1, 2, 8)

    def entry(q: Any, k: Any, v: Any, dropout_p: float, softmax_scale: float, causal: bool, window_size: Any) -> Any:
        return out, lse

    rest = (0.0, 0.3, True, (-1, -1))
    known = bridged(torch, entry, Known(torch))
    operator = known._trueup_bridge  # type: ignore[attr-defined]
    packed = (q, k, v, 0.0, 0.3, True, -1, -1)

    schema = "(Tensor q, Tensor k, Tensor v, bool causal) -> (Tensor, Tensor)"

    @torch.library.custom_op("trueup_bench::custom", mutates_args=(), schema=schema)
    def custom(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return out, lse

    def under_autograd(function: Callable[..., Any]) -> Callable[..., Any]:
        class Attention(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
                found, lse = function(q, k, v, *rest)
                ctx.save_for_backward(q, k, v, found, lse)
                return found.view_as(found)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad, grad, grad

        return Attention.apply  # type: ignore[no-any-return]

    plain, over = under_autograd(entry), under_autograd(known)
    wanted = q.clone().requires_grad_()
    return {
        "bare entry point": lambda: entry(q, k, v, *rest),
        "bridged entry point, eager": lambda: known(q, k, v, *rest),
        "the operator itself, as in a graph": lambda: operator(*packed),
        "the same as torch.library.custom_op": lambda: custom(q, k, v, True),
        "autograd.Function over the bare one": lambda: plain(wanted, k, v),
        "autograd.Function over the bridged one": lambda: over(wanted, k, v),
    }


class Known:
    """What the bridge is told of the entry point."""

    name = "entry"
    operator = "trueup_bench::entry"
    schema = (
        "(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, SymInt left, SymInt right)"
        " -> (Tensor, Tensor)"
    )

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def carries(self, given: dict[str, Any]) -> bool:
        return True

    def pack(self, given: dict[str, Any]) -> tuple[Any, ...]:
        return (*(given[name] for name in list(given)[:6]), *given["window_size"])

    def run(self, original: Callable[..., Any], *packed: Any) -> Any:
        return original(*packed[:6], packed[6:])

    def fake(self, q: Any, k: Any, v: Any, *rest: Any) -> Any:
        return self.torch.empty_like(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]))

    def unpack(self, given: dict[str, Any], results: tuple[Any, ...]) -> Any:
        return results
