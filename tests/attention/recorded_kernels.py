"""Libraries that no machine here runs, as modules: their entry points' signatures, over the kernels of `opaque`.

Signatures of FlashAttention 3 (hopper/flash_attn_interface.py at fbf24f67, 2025-11), FlashAttention 4
(flash_attn/cute/interface.py, 4.0.0.beta27) and xformers (ops/fmha/__init__.py, 0.0.32); the kernels compute attention
of rows without anything that these tests do not ask for.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import opaque
import torch


def _computed(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    return opaque.forward(q * (scale / opaque.SCALE), k, v, causal)


def _gradients(dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, causal: bool, scale: float) -> Any:
    factor = scale / opaque.SCALE
    dq, dk, dv = opaque.backward(dout, out, lse, q * factor, k, v, causal)
    return dq * factor, dk, dv


def _module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    for member in members.values():
        member.__module__ = name
    vars(made).update(members)
    return made


def flash_attention_3() -> ModuleType:
    @torch._dynamo.disable
    def kernel(*args: Any) -> Any:
        return _computed(*args)

    @torch._dynamo.disable
    def kernel_backward(gradients: Any, *args: Any) -> None:
        for place, each in zip(gradients, _gradients(*args), strict=True):
            place.copy_(each)

    def _flash_attn_forward(
        q, k, v, k_new, v_new, qv, out, cu_seqlens_q, cu_seqlens_k, cu_seqlens_k_new, seqused_q, seqused_k,
        max_seqlen_q, max_seqlen_k, page_table, kv_batch_idx, leftpad_k, rotary_cos, rotary_sin, seqlens_rotary,
        q_descale, k_descale, v_descale, softmax_scale, causal, window_size=(-1, -1), attention_chunk=0, softcap=0.0,
        rotary_interleaved=True, scheduler_metadata=None, num_splits=1, pack_gqa=None, sm_margin=0,
    ):  # fmt: skip
        return *kernel(q, k, v, causal, softmax_scale), None, None

    def _flash_attn_backward(
        dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, sequed_q, sequed_k, max_seqlen_q, max_seqlen_k,
        dq, dk, dv, softmax_scale, causal, window_size=(-1, -1), softcap=0.0, deterministic=False, sm_margin=0,
    ):  # fmt: skip
        kernel_backward((dq, dk, dv), dout, q, k, v, out, softmax_lse, causal, softmax_scale)
        return dq, dk, dv, None

    class FlashAttnFunc(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, softmax_scale, causal):
            nothing = (None,) * 20
            out, softmax_lse, *_ = made._flash_attn_forward(q, k, v, *nothing, softmax_scale, causal=causal)
            ctx.save_for_backward(q, k, v, out, softmax_lse)
            ctx.softmax_scale, ctx.causal = softmax_scale, causal
            return out

        @staticmethod
        def backward(ctx, dout):
            q, k, v, out, softmax_lse = ctx.saved_tensors
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            made._flash_attn_backward(
                dout, q, k, v, out, softmax_lse, None, None, None, None, None, None, dq, dk, dv, ctx.softmax_scale,
                ctx.causal,
            )  # fmt: skip
            return dq, dk, dv, None, None

    made = _module(
        "flash_attn_interface",
        _flash_attn_forward=_flash_attn_forward,
        _flash_attn_backward=_flash_attn_backward,
        FlashAttnFunc=FlashAttnFunc,
    )
    made.attention = lambda q, k, v: made.FlashAttnFunc.apply(q, k, v, opaque.SCALE, True)
    return made


def flash_attention_4() -> ModuleType:
    @torch._dynamo.disable
    def _flash_attn_fwd(
        q, k, v, qv=None, cu_seqlens_q=None, cu_seqlens_k=None, seqused_q=None, seqused_k=None, max_seqlen_q=None,
        max_seqlen_k=None, min_seqlen_k=None, page_table=None, softmax_scale=None, causal=False, softcap=None,
        window_size_left=None, window_size_right=None, learnable_sink=None, tile_mn=None, mma_pv_is_rs=None,
        intra_wg_overlap=None, num_threads=384, num_splits=1, pack_gqa=None, _arch=None, score_mod=None, mask_mod=None,
        block_sparse_tensors=None, return_lse=False, out=None, lse=None, aux_tensors=None, aux_scalars=None,
        q_descale=None, k_descale=None, v_descale=None, gather_kv_indices=None, scheduler_metadata=None,
        seqlen_k_per_split=None, disable_scheduler_metadata=False,
    ):  # fmt: skip
        found, sums = _computed(q, k, v, causal, softmax_scale)
        asked = return_lse or any(each.requires_grad for each in (q, k, v))
        return found, sums if asked else None, None, None

    @torch._dynamo.disable
    def _flash_attn_bwd(
        q, k, v, out, dout, lse, softmax_scale=None, causal=False, softcap=0.0, window_size_left=None,
        window_size_right=None, m_block_size=64, n_block_size=128, num_threads=256, pack_gqa=False, num_stages_Q=2,
        num_stages_dO=2, SdP_swapAB=False, dKV_swapAB=False, dQ_swapAB=False, AtomLayoutMSdP=2, AtomLayoutNdKV=2,
        AtomLayoutMdQ=2, V_in_regs=False, cu_seqlens_q=None, cu_seqlens_k=None, seqused_q=None, seqused_k=None,
        max_seqlen_q=None, max_seqlen_k=None, deterministic=False, dq=None, dk=None, dv=None, score_mod=None,
        score_mod_bwd=None, mask_mod=None, aux_tensors=None, aux_scalars=None, block_sparse_tensors=None, dlse=None,
        learnable_sink=None,
    ):  # fmt: skip
        return _gradients(dout, q, k, v, out, lse, causal, softmax_scale)

    class FlashAttnFunc(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, softmax_scale, causal, softcap=0.0):
            out, lse, _, _ = made._flash_attn_fwd(
                q, k, v, softmax_scale=softmax_scale, causal=causal, softcap=softcap, score_mod=None, mask_mod=None
            )
            ctx.save_for_backward(q, k, v, out, lse)
            ctx.settings = softmax_scale, causal, softcap
            return out

        @staticmethod
        def backward(ctx, dout):
            q, k, v, out, lse = ctx.saved_tensors
            dq, dk, dv = made._flash_attn_bwd(q, k, v, out, dout, lse, *ctx.settings, dlse=None)
            return dq, dk, dv, None, None, None

    made = _module(
        "flash_attn.cute.interface",
        _flash_attn_fwd=_unwrapped(_flash_attn_fwd),
        _flash_attn_bwd=_unwrapped(_flash_attn_bwd),
        FlashAttnFunc=FlashAttnFunc,
    )
    made.attention = lambda q, k, v: made.FlashAttnFunc.apply(q, k, v, opaque.SCALE, True)
    return made


def _unwrapped(hidden: Any) -> Any:
    """A plain function of the same signature, which Dynamo follows down to where it must stop."""
    import functools

    @functools.wraps(hidden.__wrapped__ if hasattr(hidden, "__wrapped__") else hidden)
    def entry(*args: Any, **options: Any) -> Any:
        return hidden(*args, **options)

    return entry


def xformers() -> ModuleType:
    class LowerTriangularMask:
        """The causal bias."""

    @torch._dynamo.disable
    def memory_efficient_attention_forward_requires_grad(
        query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
    ):
        return _computed(query, key, value, isinstance(attn_bias, LowerTriangularMask), scale)

    @torch._dynamo.disable
    def memory_efficient_attention_backward(
        grad, output, lse, query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None
    ):
        return _gradients(grad, query, key, value, output, lse, isinstance(attn_bias, LowerTriangularMask), scale)

    class _fMHA(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query, key, value, attn_bias, scale):
            out, lse = memory_efficient_attention_forward_requires_grad(query, key, value, attn_bias, 0.0, scale)
            ctx.save_for_backward(out, lse, query, key, value)
            ctx.attn_bias, ctx.scale = attn_bias, scale
            return out

        @staticmethod
        def backward(ctx, grad):
            found = memory_efficient_attention_backward(grad, *ctx.saved_tensors, ctx.attn_bias, 0.0, ctx.scale)
            return *found, None, None

    def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None):
        return _fMHA.apply(query, key, value, attn_bias, scale)

    made = _module(
        "xformers.ops.fmha",
        LowerTriangularMask=LowerTriangularMask,
        memory_efficient_attention_forward_requires_grad=memory_efficient_attention_forward_requires_grad,
        memory_efficient_attention_backward=memory_efficient_attention_backward,
        memory_efficient_attention=memory_efficient_attention,
    )
    bias = LowerTriangularMask()
    made.attention = lambda q, k, v: made.memory_efficient_attention(q, k, v, bias, scale=opaque.SCALE)
    return made
