"""The functions behind the entries, called with the tensors of a call; each needs its package."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from trueup.attention.call import Call
from trueup.attention.trial import Ran, hidden, tensors, try_sdpa, watched


class NotMade(Exception):
    """There is no way written here to make this call."""


def try_call(call: Call) -> Ran:
    """Make the call. Raises NotMade where nobody wrote how."""
    caller = CALLERS.get(call.entry)
    if caller is None:
        raise NotMade(f"no caller for {call.entry}")
    return caller(call)


def _flex(call: Call) -> Ran:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = tensors(call)
    away = hidden(call)
    score: Any = _softcapped if call.softcap else None
    block = None
    if not call.mask.hides_nothing and call.rank == 4:
        block = create_block_mask(
            lambda batch, head, row, column: ~away[row, column],
            None, None, call.length, call.key_length, device=call.place.device,
        )  # fmt: skip
    function: Any = torch.compile(flex_attention) if call.compiled else flex_attention
    options = {"score_mod": score, "block_mask": block, "enable_gqa": call.enable_gqa}
    if not call.requires_grad:
        with torch.no_grad():
            if call.compiled:
                _quietly(lambda: function(query, key, value, **options))  # what compiles it is not what runs
            return watched(lambda: function(query, key, value, **options), call)
    return watched(lambda: function(query, key, value, **options), call)


def _quietly(function: Callable[[], Any]) -> None:
    try:
        function()
    except Exception:
        pass  # the call that is watched tells it


def _softcapped(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
    import torch

    return 30.0 * torch.tanh(score / 30.0)


def _lengths(call: Call) -> tuple[Any, int]:
    """Boundaries of the packed sequences, (sequences + 1,), and the longest of them."""
    import torch

    half = call.length // 2
    each = [half, call.length - half] if call.mask.kind == "document" else [call.length]
    ends = torch.tensor([0, *each * call.batch], device=call.place.device).cumsum(0).to(torch.int32)
    return ends, max(each)


def _window(call: Call) -> tuple[int, int]:
    if call.mask.kind == "window":
        return (call.mask.window or 1) - 1, 0
    return (-1, 0) if call.mask.kind in ("causal", "document") else (-1, -1)


def _packed(call: Call) -> tuple[Any, Any, Any]:
    """(tokens of all sequences, heads, head size)"""
    query, key, value = (each.transpose(1, 2).flatten(0, 1) for each in tensors(call))
    return query, key, value


def _varlen_attn(call: Call) -> Ran:
    from torch.nn.attention.varlen import varlen_attn

    query, key, value = _packed(call)
    ends, longest = _lengths(call)
    options = {"window_size": _window(call), "enable_gqa": call.enable_gqa}
    return watched(lambda: varlen_attn(query, key, value, ends, ends, longest, longest, **options), call)


def _flash(call: Call, package: Any, options: dict[str, Any]) -> Ran:
    """The interfaces of FlashAttention 2, 3 and 4: (batch, length, heads, head size), or packed with cu_seqlens."""
    options |= {"causal": call.is_causal or call.mask.kind in ("document", "window")}
    if call.mask.kind == "window":
        options["window_size"] = _window(call)
    if call.softcap:
        options["softcap"] = 30.0
    if call.mask.kind in ("document", "padding"):
        query, key, value = _packed(call)
        ends, longest = _lengths(call)
        options |= {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": longest, "max_seqlen_k": longest}
        return watched(lambda: _first(package.flash_attn_varlen_func(query, key, value, **options)), call)
    query, key, value = (each.transpose(1, 2) for each in tensors(call))
    return watched(lambda: _first(package.flash_attn_func(query, key, value, **options)), call)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _flash_2(call: Call) -> Ran:
    return _flash(call, import_module("flash_attn"), {"dropout_p": call.dropout})


def _flash_3(call: Call) -> Ran:
    if call.dropout:
        raise NotMade("FlashAttention 3 has no argument for dropout")
    return _flash(call, import_module("flash_attn_interface"), {})


def _flash_4(call: Call) -> Ran:
    if call.dropout:
        raise NotMade("FlashAttention 4 has no argument for dropout")
    return _flash(call, import_module("flash_attn.cute"), {})


def _xformers(call: Call) -> Ran:
    operators = import_module("xformers.ops")
    if call.is_grouped or call.mask.kind not in ("none", "causal"):
        raise NotMade("only plain and causal calls are made through xformers here")
    query, key, value = (each.transpose(1, 2) for each in tensors(call))
    bias = operators.LowerTriangularMask() if call.is_causal else None
    return watched(
        lambda: operators.memory_efficient_attention(query, key, value, attn_bias=bias, p=call.dropout), call
    )


CALLERS: dict[str, Callable[[Call], Ran]] = {
    "sdpa": try_sdpa,
    "flex": _flex,
    "varlen_attn": _varlen_attn,
    "flash_attn": _flash_2,
    "flash_attn_3": _flash_3,
    "flash_attn_4": _flash_4,
    "xformers": _xformers,
}
"""Entry → how it is called."""
