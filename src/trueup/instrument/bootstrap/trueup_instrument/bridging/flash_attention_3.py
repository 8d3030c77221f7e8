"""FlashAttention 3 (`hopper/`) of before November 2025, whose operators have no fake implementation.

Read in the sources from 2025-04 to 2025-11 (https://github.com/Dao-AILab/flash-attention/pull/1769 registers its own),
tried on their signatures; no GPU of its generation was at hand.
"""

from __future__ import annotations

from trueup_instrument.bridging.entries import entered
from trueup_instrument.bridging.repeated import allow_repeated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.bridging.entries import Given

MODULE = "flash_attn_interface"
LENGTHS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "max_seqlen_q", "max_seqlen_k")
LENGTHS_SCHEMA = (
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? seqused_q, Tensor? seqused_k, SymInt? max_seqlen_q, "
    "SymInt? max_seqlen_k"
)
SCALES = ("qv", "q_descale", "k_descale", "v_descale")
CACHED = (
    "k_new", "v_new", "out", "cu_seqlens_k_new", "page_table", "kv_batch_idx", "leftpad_k", "rotary_cos", "rotary_sin",
    "seqlens_rotary", "scheduler_metadata",
)  # fmt: skip
"""Arguments of decoding, which write into what they are given or are no part of training: such calls stay theirs."""
DEFAULTS = {"attention_chunk": 0, "softcap": 0.0, "num_splits": 1, "pack_gqa": None, "sm_margin": 0}
SETTINGS = "float softmax_scale, bool causal, SymInt window_size_left, SymInt window_size_right"
BACKWARD_LENGTHS = ("cu_seqlens_q", "cu_seqlens_k", "sequed_q", "sequed_k", "max_seqlen_q", "max_seqlen_k")
RESULTS = ("dout", "q", "k", "v", "out", "softmax_lse")
GRADIENTS = ("dq", "dk", "dv")
FORWARD = ("q", "k", "v", *LENGTHS, *SCALES, *CACHED, *DEFAULTS, "rotary_interleaved")
BACKWARD = (*BACKWARD_LENGTHS, *RESULTS, *GRADIENTS, "deterministic")
KNOWN = frozenset((*FORWARD, *BACKWARD, "softmax_scale", "causal", "window_size"))


def install(torch: Any, module: Any) -> tuple[list[str], str]:
    """Bridge the entry points of `flash_attn_interface`: (those that were, why others were not)."""
    allow_repeated(torch, module)
    entries: tuple[Any, ...] = (Forward(torch), Backward(torch))
    return entered(torch, module, entries, KNOWN, "this FlashAttention 3")


class Forward:
    name = "_flash_attn_forward"
    operator = "flash_attn_3::_flash_attn_forward"
    schema = (
        f"(Tensor q, Tensor k, Tensor v, {LENGTHS_SCHEMA}, Tensor? qv, Tensor? q_descale, Tensor? k_descale, "
        f"Tensor? v_descale, {SETTINGS}, SymInt attention_chunk, float softcap, SymInt num_splits, bool? pack_gqa, "
        "SymInt sm_margin) -> (Tensor, Tensor)"
    )
    needs = ("q", "k", "v", *LENGTHS, *SCALES, "softmax_scale", "causal", "window_size")

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def carries(self, given: Given) -> bool:
        return all(given.get(name) is None for name in CACHED) and given["softmax_scale"] is not None

    def pack(self, given: Given) -> tuple[Any, ...]:
        return (
            *(given[name] for name in ("q", "k", "v", *LENGTHS, *SCALES)),
            float(given["softmax_scale"]),
            given["causal"],
            *_window(given),
            *(given.get(name, default) for name, default in DEFAULTS.items()),
        )

    def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
        tensors = dict(zip(("q", "k", "v", *LENGTHS, *SCALES), packed, strict=False))
        scale, causal, left, right, *rest = packed[len(tensors) :]
        given = {name: value for name, value in zip(DEFAULTS, rest, strict=True) if value != DEFAULTS[name]}
        unused = dict.fromkeys(name for name in CACHED if name != "scheduler_metadata")
        settings = {"softmax_scale": scale, "causal": causal, "window_size": (left, right)}
        out, lse, *_ = original(**tensors, **unused, **settings, **given)
        return out, lse

    def fake(self, q: Any, k: Any, v: Any, starts: Any, *rest: Any) -> tuple[Any, ...]:
        """8-bit floats have their output in bfloat16."""
        dtype = self.torch.bfloat16 if q.dtype.itemsize == 1 else q.dtype
        out = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype)
        return out, _logsumexp(self.torch, q, starts)

    def unpack(self, given: Given, results: tuple[Any, ...]) -> tuple[Any, ...]:
        return results


class Backward:
    name = "_flash_attn_backward"
    operator = "flash_attn_3::trueup_flash_attn_backward"
    schema = (
        "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor? cu_seqlens_q, "
        "Tensor? cu_seqlens_k, Tensor? sequed_q, Tensor? sequed_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, "
        f"{SETTINGS}, float softcap, bool deterministic, SymInt sm_margin) -> (Tensor, Tensor, Tensor)"
    )
    needs = (*RESULTS, *BACKWARD_LENGTHS, *GRADIENTS, "softmax_scale", "causal", "window_size")

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def carries(self, given: Given) -> bool:
        return all(given.get(name) is not None for name in GRADIENTS)

    def pack(self, given: Given) -> tuple[Any, ...]:
        return (
            *(given[name] for name in (*RESULTS, *BACKWARD_LENGTHS)),
            float(given["softmax_scale"]),
            given["causal"],
            *_window(given),
            float(given.get("softcap", 0.0)),
            given.get("deterministic", False),
            given.get("sm_margin", 0),
        )

    def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
        tensors = dict(zip((*RESULTS, *BACKWARD_LENGTHS), packed, strict=False))
        scale, causal, left, right, softcap, deterministic, margin = packed[len(tensors) :]
        gradients = {f"d{name}": self.torch.empty_like(tensors[name]) for name in ("q", "k", "v")}
        settings = {"softmax_scale": scale, "causal": causal, "window_size": (left, right), "softcap": softcap}
        original(**tensors, **gradients, **settings, deterministic=deterministic, sm_margin=margin)
        return tuple(gradients.values())

    def fake(self, dout: Any, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        empty = self.torch.empty_like
        return empty(q), empty(k), empty(v)

    def unpack(self, given: Given, results: tuple[Any, ...]) -> tuple[Any, ...]:
        for name, gradient in zip(GRADIENTS, results, strict=True):
            given[name].copy_(gradient)
        return given["dq"], given["dk"], given["dv"], None


def _window(given: Given) -> tuple[Any, Any]:
    left, right = given.get("window_size", (-1, -1))
    return -1 if left is None else left, -1 if right is None else right


def _logsumexp(torch: Any, q: Any, starts: Any) -> Any:
    """(rows, heads, length), or (heads, tokens) of documents."""
    shape = (q.shape[0], q.shape[2], q.shape[1]) if starts is None else (q.shape[1], q.shape[0])
    return q.new_empty(shape, dtype=torch.float32)
