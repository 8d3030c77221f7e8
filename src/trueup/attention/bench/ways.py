"""How each kernel is called. A way takes queries, keys and values of (batch, heads, length, head size)."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from trueup.attention.bench.case import NAMES, Case, allowed, bias, rule

Attention = Callable[[Any, Any, Any], Any]


class CannotCall(Exception):
    """The kernel is not here, or has no argument for what is asked; the message says which."""


@dataclass(frozen=True, slots=True)
class Way:
    """One kernel in one compile mode."""

    kernel: str
    make: Callable[[Case, Any, str], Attention]
    """Of (case, torch, device). Raises CannotCall."""
    fused: bool = True
    """False when all scores are written out."""
    mode: str = ""


def ways(device: str, modes: tuple[str, ...]) -> list[Way]:
    """All that may serve on a device of this type, not compiled first, then in each of the modes of torch.compile."""
    plain = CPU if device == "cpu" else CUDA
    flex = [Way("flex", flex_attention, mode=mode) for mode in modes]
    compiled = [Way(way.kernel, way.make, way.fused, mode) for mode in modes for way in reversed(plain)]
    return [*plain, *flex, *(way for way in compiled if way.kernel != "flex-eager")]


# -- scaled_dot_product_attention ------------------------------------------------------------------------------------


def _sdpa(backend: str) -> Callable[[Case, Any, str], Attention]:
    def make(case: Case, torch: Any, device: str) -> Attention:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        chosen = getattr(SDPBackend, backend, None)
        if chosen is None:
            raise CannotCall(f"torch {torch.__version__} has no such kernel")
        mask = bias(case, torch, device) if case.mask == "float" else allowed(case, torch, device)
        is_causal = case.mask == "causal"
        mask = None if is_causal else mask
        grouped = case.groups > 1
        function = torch.nn.functional.scaled_dot_product_attention

        def attention(q: Any, k: Any, v: Any) -> Any:
            with sdpa_kernel([chosen]):
                return function(q, k, v, attn_mask=mask, is_causal=is_causal, enable_gqa=grouped)

        return attention

    return make


# -- FlexAttention ---------------------------------------------------------------------------------------------------


def flex_attention(case: Case, torch: Any, device: str) -> Attention:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    may = rule(case, torch, device)
    added: Any = bias(case, torch, device)[0, 0] if case.mask == "float" else None
    rows = case.query[0] if case.mask == "padding" else None
    block_mask = None
    if may is not None:
        block_mask = create_block_mask(may, rows, None, case.query[2], case.key[2], device=device)

    def score(value: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return value + added[i, j]

    def attention(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(
            q, k, v, score_mod=None if added is None else score, block_mask=block_mask, enable_gqa=case.groups > 1
        )

    return attention


# -- Hugging Face's plain operators ----------------------------------------------------------------------------------


def _eager(case: Case, torch: Any, device: str) -> Attention:
    try:
        from transformers.models.llama.modeling_llama import eager_attention_forward
    except ImportError as error:
        raise CannotCall("transformers is not installed") from error
    may = allowed(case, torch, device)
    mask = bias(case, torch, device) if case.mask == "float" else None
    if may is not None:
        dtype = getattr(torch, NAMES[case.dtype])
        mask = torch.zeros(may.shape, dtype=dtype, device=device).masked_fill(~may, torch.finfo(dtype).min)
    module = SimpleNamespace(num_key_value_groups=case.groups, training=True)
    scaling = case.query[3] ** -0.5

    def attention(q: Any, k: Any, v: Any) -> Any:
        return eager_attention_forward(module, q, k, v, mask, scaling)[0].transpose(1, 2)

    return attention


# -- flash-attn, and what torch has of it ----------------------------------------------------------------------------


def _flash_attn(module: str, package: str) -> Callable[[Case, Any, str], Attention]:
    def make(case: Case, torch: Any, device: str) -> Attention:
        if case.mask not in ("none", "causal", "window"):
            raise CannotCall(f"has no argument for a mask of kind {case.mask}; its varlen function is for packed rows")
        try:
            function = importlib.import_module(module).flash_attn_func
        except ImportError as error:
            raise CannotCall(f"{package} is not installed") from error
        options: dict[str, Any] = {"causal": case.mask in ("causal", "window")}
        if case.mask == "window":
            options["window_size"] = (case.number - 1, 0)

        def attention(q: Any, k: Any, v: Any) -> Any:
            out = function(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

        return attention

    return make


def _varlen(case: Case, torch: Any, device: str) -> Attention:
    """Each row, or each document of one, as a sequence of its own."""
    if case.mask not in ("none", "causal", "document") or case.query[2] != case.key[2]:
        raise CannotCall(f"has no argument for a mask of kind {case.mask}")
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError as error:
        raise CannotCall(f"torch {torch.__version__} has no torch.nn.attention.varlen") from error
    batch, _, length, _ = case.query
    parts = case.number if case.mask == "document" else 1
    starts = [row * length + -(-part * length // parts) for row in range(batch) for part in range(parts)]
    ends = torch.tensor([*starts, batch * length], dtype=torch.int32, device=device)
    longest = max(end - start for start, end in zip(starts, [*starts[1:], batch * length], strict=True))
    options = _varlen_options(case.mask != "none", case.groups > 1, inspect.signature(varlen_attn).parameters)

    def attention(q: Any, k: Any, v: Any) -> Any:
        flat = [each.transpose(1, 2).reshape(batch * length, each.shape[1], each.shape[3]) for each in (q, k, v)]
        out = varlen_attn(*flat, ends, ends, longest, longest, **options)
        return out.view(batch, length, *out.shape[1:]).transpose(1, 2)

    return attention


def _varlen_options(is_causal: bool, grouped: bool, known: Container[str]) -> dict[str, Any]:
    """torch 2.10 has a flag for causal; later ones a window, and a flag for shared heads."""
    if grouped and "enable_gqa" not in known:
        raise CannotCall("takes as many heads of keys as of queries with this torch")
    options: dict[str, Any] = {"enable_gqa": True} if grouped else {}
    if is_causal and "window_size" in known:
        options["window_size"] = (-1, 0)
    elif is_causal:
        options["is_causal"] = True
    return options


CPU = (
    Way("sdpa-flash-cpu", _sdpa("FLASH_ATTENTION")),
    Way("sdpa-math", _sdpa("MATH"), fused=False),
    Way("eager", _eager, fused=False),
    Way("flex-eager", flex_attention, fused=False),
)
CUDA = (
    Way("sdpa-flash", _sdpa("FLASH_ATTENTION")),
    Way("sdpa-mem-efficient", _sdpa("EFFICIENT_ATTENTION")),
    Way("sdpa-cudnn", _sdpa("CUDNN_ATTENTION")),
    Way("flash-attn-2", _flash_attn("flash_attn", "flash-attn")),
    Way("flash-attn-3", _flash_attn("flash_attn_interface", "flash-attn-3")),
    Way("flash-attn-4", _flash_attn("flash_attn.cute", "flash-attn-4")),
    Way("varlen-attn", _varlen),
    Way("sdpa-math", _sdpa("MATH"), fused=False),
    Way("eager", _eager, fused=False),
    Way("flex-eager", flex_attention, fused=False),
)


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
