"""FlashAttention 4 (`flash_attn.cute`), which compiles its kernels at run time and registers no operators.

Read in the betas up to 4.0.0.beta27 (https://github.com/Dao-AILab/flash-attention/issues/2154), tried on their
signatures; no GPU of its generation was at hand. Calls with functions of their own (score_mod, mask_mod), block
sparsity, sinks or paged keys stay the library's.
"""

from __future__ import annotations

import inspect
import types

from trueup_instrument.appliers.replacing import replace
from trueup_instrument.bridging.entries import bridged, takes
from trueup_instrument.bridging.repeated import allow_repeated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.bridging.entries import Given

MODULE = "flash_attn.cute.interface"
INPUTS = ("q", "k", "v")
LENGTHS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "max_seqlen_q", "max_seqlen_k")
LENGTHS_SCHEMA = (
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? seqused_q, Tensor? seqused_k, SymInt? max_seqlen_q, "
    "SymInt? max_seqlen_k"
)
SETTINGS = ("softmax_scale", "causal", "softcap", "window_size_left", "window_size_right")
SETTINGS_SCHEMA = (
    "float? softmax_scale, bool causal, float? softcap, SymInt? window_size_left, SymInt? window_size_right"
)
RESULTS = ("q", "k", "v", "out", "dout", "lse")


def install(torch: Any, module: Any) -> tuple[list[str], str]:
    """Bridge the entry points of `flash_attn.cute.interface`: (those that were, why others were not)."""
    allow_repeated(torch, module)
    found: list[Any] = [getattr(module, each.name, None) for each in (Forward, Backward)]
    if any(hasattr(each, "_trueup_bridge") for each in found):
        return [], ""
    if not all(isinstance(each, types.FunctionType) for each in found):
        return [], "this FlashAttention 4 registers operators of its own"
    entries = [kind(torch, was) for kind, was in zip((Forward, Backward), found, strict=True)]
    why = [
        f"{each.name} {told}"
        for each, was in zip(entries, found, strict=True)
        if (told := takes(was, each.needs, frozenset(each.parameters)))
    ]
    if why:
        return [], "; ".join(why)
    for each in entries:
        replace(module, each.name, lambda original, entry=each: bridged(torch, original, entry))  # type: ignore[misc]
    return [each.name for each in entries], ""


class _Entry:
    """An entry point, whose parameters of other names must have their defaults."""

    name = ""
    needs: tuple[str, ...] = ()

    def __init__(self, torch: Any, original: Callable[..., Any]) -> None:
        self.torch = torch
        self.parameters = dict(inspect.signature(original).parameters)
        self.taken = tuple(name for name in self.needs if name in self.parameters)
        self.rest = {
            name: each.default
            for name, each in self.parameters.items()
            if name not in self.needs and name not in self.written
        }

    written: tuple[str, ...] = ()
    """Parameters that the operator does without: it returns what they would be written to."""

    def carries(self, given: Given) -> bool:
        return all(given[name] is default for name, default in self.rest.items()) and given["q"] is not None

    def pack(self, given: Given) -> tuple[Any, ...]:
        return tuple(given[name] for name in self.needs)


class Forward(_Entry):
    name = "_flash_attn_fwd"
    operator = "flash_attn_4::_flash_attn_fwd"
    needs = (*INPUTS, *LENGTHS, *SETTINGS, "num_splits", "pack_gqa")
    written = ("return_lse",)
    schema = (
        f"(Tensor q, Tensor k, Tensor v, {LENGTHS_SCHEMA}, {SETTINGS_SCHEMA}, SymInt num_splits, bool? pack_gqa) "
        "-> (Tensor, Tensor)"
    )

    def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
        """Within an operator no input requires a gradient: the logsumexp is asked for by name."""
        out, lse, *_ = original(**dict(zip(self.needs, packed, strict=True)), return_lse=True)
        return out, lse

    def fake(self, q: Any, k: Any, v: Any, starts: Any, *rest: Any) -> tuple[Any, ...]:
        shape = (q.shape[0], q.shape[2], q.shape[1]) if starts is None else (q.shape[1], q.shape[0])
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        return out, q.new_empty(shape, dtype=self.torch.float32)

    def unpack(self, given: Given, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Later betas return two more, of sparse attention."""
        return (*results, None, None) if "gather_kv_indices" in self.parameters else results


class Backward(_Entry):
    name = "_flash_attn_bwd"
    operator = "flash_attn_4::_flash_attn_bwd"
    needs = (*RESULTS, *SETTINGS, *LENGTHS, "deterministic")
    schema = (
        "(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, "
        f"{SETTINGS_SCHEMA}, {LENGTHS_SCHEMA}, bool deterministic) -> (Tensor, Tensor, Tensor)"
    )

    def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
        dq, dk, dv, *_ = original(**dict(zip(self.needs, packed, strict=True)))
        return dq, dk, dv

    def fake(self, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        empty = self.torch.empty_like
        return empty(q), empty(k), empty(v)

    def unpack(self, given: Given, results: tuple[Any, ...]) -> tuple[Any, ...]:
        return results
