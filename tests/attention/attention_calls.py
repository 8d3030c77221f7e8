"""Calls as values, made real: tensors for them on a CPU, and the kernel that ran, by the profiler's operators."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trueup.attention.call import Call
from trueup.attention.kernels import OPERATORS

PLAIN_SOFTMAX = "aten::_softmax"


@dataclass(frozen=True)
class Ran:
    kernel: str | None
    error: str | None


def tensors(call: Call) -> tuple[Any, Any, Any]:
    return tuple(_tensor(shape, call) for shape in (call.query, call.key, call.value))


def _tensor(shape: tuple[int, ...], call: Call) -> Any:
    import torch

    dtype = dtype_of(call.dtype)
    if call.contiguous:
        made = torch.randn(shape).to(dtype)
    else:
        made = torch.randn((*shape[:-1], 2 * shape[-1])).to(dtype)[..., ::2]
    return made.requires_grad_(call.requires_grad)


def mask_of(call: Call) -> Any:
    """The tensor for the mask, None where a flag says it."""
    import torch

    if not call.mask.is_tensor:
        return None
    rows, columns = torch.arange(call.length)[:, None], torch.arange(call.key_length)[None]
    half = call.key_length // 2
    hidden = {
        "causal-tensor": columns > rows,
        "padding": (columns >= call.key_length - 1).expand(call.length, -1),
        "window": (columns > rows) | (columns <= rows - (call.mask.window or 0)),
        "document": (columns > rows) | ((columns < half) != (rows < half)),
    }.get(call.mask.kind, torch.zeros(call.length, call.key_length, dtype=torch.bool))
    shape = call.mask_shape
    allowed = (~hidden).expand(shape) if shape[-2:] == tuple(hidden.shape) else torch.ones(shape, dtype=torch.bool)
    if call.mask_dtype == "bool":
        return allowed.clone()
    added = torch.zeros(shape, dtype=dtype_of(call.mask_dtype)).masked_fill(~allowed, float("-inf"))
    return added.requires_grad_(call.mask.requires_grad)


def dtype_of(name: str) -> Any:
    import torch

    return {
        "fp64": torch.float64,
        "fp32": torch.float32,
        "fp16": torch.float16,
        "bf16": torch.bfloat16,
        "bool": torch.bool,
    }[name]


def run_sdpa(call: Call) -> Ran:
    """The call through scaled_dot_product_attention, with its switches."""
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = tensors(call)
    mask = mask_of(call)
    options: dict[str, Any] = {"dropout_p": call.dropout, "is_causal": call.is_causal, "enable_gqa": call.enable_gqa}
    with switched_off(call.place.disabled):
        return ran(lambda: scaled_dot_product_attention(query, key, value, attn_mask=mask, **options))


@contextmanager
def switched_off(names: frozenset[str]) -> Iterator[None]:
    from torch.backends import cuda

    before = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()
    cuda.enable_flash_sdp("flash" not in names)
    cuda.enable_mem_efficient_sdp("efficient" not in names)
    cuda.enable_math_sdp("math" not in names)
    try:
        yield
    finally:
        cuda.enable_flash_sdp(before[0])
        cuda.enable_mem_efficient_sdp(before[1])
        cuda.enable_math_sdp(before[2])


def ran(function: Callable[[], Any]) -> Ran:
    """The first attention operator that ran; a softmax outside of one is attention by plain operators."""
    from torch.profiler import ProfilerActivity, profile

    error = None
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        try:
            function()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    names = [event.name for event in profiled.events()]
    kernel = next((OPERATORS[name].name for name in names if name in OPERATORS), None)
    if kernel is None and any(name.startswith("FlexAttention") for name in names):
        kernel = "flex-eager" if PLAIN_SOFTMAX in names else "flex"
    if kernel is None and PLAIN_SOFTMAX in names:
        kernel = "eager"
    if kernel is None and any("CompiledFxGraph" in name for name in names):
        kernel = "flex"
    return Ran(kernel, error)
