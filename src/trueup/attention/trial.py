"""A call made real: tensors for it, and the kernel that ran, by the names that the profiler tells.

For tests and for `checks/gpu/attention.py`; the only module of the knowledge that needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trueup.attention.call import Call
from trueup.attention.kernels import OPERATORS

SOFTMAX = "aten::_softmax"


@dataclass(frozen=True)
class Ran:
    """What happened."""

    kernel: str | None
    """Name of the first attention kernel that ran; None where none did."""
    error: str | None
    """The exception in words; None for a call that succeeded."""


def tensors(call: Call) -> tuple[Any, Any, Any]:
    """Queries, keys and values, random."""
    query, key, value = (_tensor(shape, call) for shape in (call.query, call.key, call.value))
    return query, key, value


def _tensor(shape: tuple[int, ...], call: Call) -> Any:
    import torch

    dtype, device = dtype_of(call.dtype), call.place.device
    if call.contiguous:
        made = torch.randn(shape, device=device).to(dtype)
    else:
        made = torch.randn((*shape[:-1], 2 * shape[-1]), device=device).to(dtype)[..., ::2]
    return made.requires_grad_(call.requires_grad)


def hidden(call: Call) -> Any:
    """What the mask hides, (length, length of keys), True where it does."""
    import torch

    device = call.place.device
    rows = torch.arange(call.length, device=device)[:, None]
    columns = torch.arange(call.key_length, device=device)[None]
    half = call.key_length // 2
    kinds = {
        "causal": columns > rows,
        "causal-tensor": columns > rows,
        "padding": (columns >= call.key_length - 1).expand(call.length, -1),
        "window": (columns > rows) | (columns <= rows - (call.mask.window or 0)),
        "document": (columns > rows) | ((columns < half) != (rows < half)),
    }
    nothing = torch.zeros(call.length, call.key_length, dtype=torch.bool, device=device)
    return kinds.get(call.mask.kind, nothing)


def mask_tensor(call: Call) -> Any:
    """The tensor for the mask of scaled_dot_product_attention, None where a flag says it."""
    import torch

    if not call.mask.is_tensor:
        return None
    shape, away = call.mask_shape, hidden(call)
    device = call.place.device
    fits = shape[-2:] == tuple(away.shape)
    allowed = (~away).expand(shape) if fits else torch.ones(shape, dtype=torch.bool, device=device)
    if call.mask_dtype == "bool":
        return allowed.clone()
    added = torch.zeros(shape, dtype=dtype_of(call.mask_dtype), device=device).masked_fill(~allowed, float("-inf"))
    return added.requires_grad_(call.mask.requires_grad)


def dtype_of(name: str) -> Any:
    """torch's dtype."""
    import torch

    return {
        "fp64": torch.float64,
        "fp32": torch.float32,
        "fp16": torch.float16,
        "bf16": torch.bfloat16,
        "fp8": torch.float8_e4m3fn,
        "bool": torch.bool,
    }[name]


def try_sdpa(call: Call) -> Ran:
    """Through scaled_dot_product_attention, with its switches; with its backward where the call is trained."""
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = tensors(call)
    mask = mask_tensor(call)
    options: dict[str, Any] = {"dropout_p": call.dropout, "is_causal": call.is_causal, "enable_gqa": call.enable_gqa}
    with switched_off(call.place.disabled):
        return watched(lambda: scaled_dot_product_attention(query, key, value, attn_mask=mask, **options), call)


@contextmanager
def switched_off(names: frozenset[str]) -> Iterator[None]:
    """torch's switches, as they were afterwards."""
    from torch.backends import cuda

    before = (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )
    switches = (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_math_sdp, cuda.enable_cudnn_sdp)
    for switch, name in zip(switches, ("flash", "efficient", "math", "cudnn"), strict=True):
        switch(name not in names)
    try:
        yield
    finally:
        for switch, on in zip(switches, before, strict=True):
            switch(on)


def watched(function: Callable[[], Any], call: Call | None = None) -> Ran:
    """What a function runs; for a call that is trained its backward as well."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = call is not None and call.place.device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    error = None
    with profile(activities=activities, acc_events=True) as profiled:
        try:
            result = function()
            if call is not None and call.requires_grad and getattr(result, "requires_grad", False):
                result.sum().backward()
            if on_gpu:
                _synchronize()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    return Ran(kernel_in([event.name for event in profiled.events() or ()]), error)


def _synchronize() -> None:
    import torch

    torch.cuda.synchronize()


def kernel_in(names: list[str]) -> str | None:
    """The first attention kernel among the names of a profile.

    A softmax outside of one is attention by plain operators; a compiled graph without one FlexAttention.
    """
    from trueup.attention.knowledge import KERNELS

    known = next((OPERATORS[name].name for name in names if name in OPERATORS), None)
    if known is not None:
        return known.removesuffix("-varlen")
    launched = [kernel for kernel in KERNELS.values() if not kernel.name.startswith("kernels-community/")]
    for kernel in launched:
        if any(part in name for part in kernel.device_kernels for name in names):
            return kernel.name
        if any(name in kernel.operators for name in names if name != SOFTMAX and not name.startswith("Flex")):
            return kernel.name
    if any(name.startswith("FlexAttention") for name in names):
        return "flex-eager" if SOFTMAX in names else "flex"
    if SOFTMAX in names:
        return "eager"
    return "flex" if any("CompiledFxGraph" in name for name in names) else None
