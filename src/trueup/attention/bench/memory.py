"""The most that one call allocates at once, beyond what was there before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HOW = {
    "cuda": "torch's CUDA allocator",
    "cpu": "torch.profiler: every allocation of torch's CPU allocator, also within kernels",
}


def peak_of(call: Callable[[], Any], torch: Any, device: str) -> int | None:
    """Bytes. The result of the call counts as well, as long as it is held."""
    return _on_gpu(call, torch) if device == "cuda" else _on_cpu(call, torch)


def _on_gpu(call: Callable[[], Any], torch: Any) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    del result
    return int(torch.cuda.max_memory_allocated() - before)


def _on_cpu(call: Callable[[], Any], torch: Any) -> int | None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = call()
    del result
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak if events else None
