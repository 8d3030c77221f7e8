"""The least time that a device needs for a call: its arithmetic and its traffic, at the speeds it really reaches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from trueup.attention.bench.case import NAMES, Case, density
from trueup.attention.call import BYTES
from trueup.schema.attention_bench import Roofline

BACKWARD = 2.5
"""Matrix products of the backward pass to those of the forward pass: five to two, the scores computed once more."""
MATRIX = {"cpu": 1536, "cuda": 8192}
COPIED = {"cpu": 1 << 28, "cuda": 1 << 31}
"""Bytes; more than caches hold."""
REPEATS = 4


def forward_flops(case: Case) -> float:
    """Of both matrix products, without hidden scores."""
    batch, heads, length, size = case.query
    return 4.0 * batch * heads * length * case.key[2] * size * density(case)


def least_bytes(case: Case, backward: bool) -> float:
    """Inputs read once, outputs written once; in the backward pass the inputs, output and its gradient once more."""
    width = BYTES[case.dtype]  # type: ignore[index]  # one of its keys
    queries, keys = math.prod(case.query) * width, 2 * math.prod(case.key) * width
    forward = 2 * queries + keys
    return float(forward + (4 * queries + 2 * keys if backward else 0))


class Peaks:
    """What the device does at most in this dtype, measured."""

    def __init__(self, case: Case, torch: Any, device: str) -> None:
        dtype = getattr(torch, NAMES[case.dtype])
        wait = torch.cuda.synchronize if device == "cuda" else _nothing
        side = MATRIX[device]
        one = torch.randn(side, side, dtype=torch.float32).to(device=device, dtype=dtype)
        out = torch.empty_like(one)
        self.flops_per_second = 2.0 * side**3 / _fastest(lambda: torch.mm(one, one, out=out), wait)
        source = torch.ones(COPIED[device] // 4, dtype=torch.float32, device=device)
        target = torch.empty_like(source)
        self.bytes_per_second = 2.0 * COPIED[device] / _fastest(lambda: target.copy_(source), wait)

    def roofline(self, case: Case, backward: bool) -> Roofline:
        flops, moved = forward_flops(case), least_bytes(case, backward)
        if backward:
            flops *= 1 + BACKWARD
        return Roofline(
            flops=flops,
            bytes=moved,
            flops_per_second=self.flops_per_second,
            bytes_per_second=self.bytes_per_second,
            seconds=max(flops / self.flops_per_second, moved / self.bytes_per_second),
        )


def _fastest(work: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few runs: a peak, which noise only lowers."""
    best = math.inf
    for _ in range(REPEATS):
        wait()
        began = time.perf_counter()
        work()
        wait()
        best = min(best, time.perf_counter() - began)
    return best


def _nothing() -> None:
    """A CPU has done its work when the call returns."""
