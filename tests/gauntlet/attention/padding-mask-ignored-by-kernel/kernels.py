"""Stand-ins for flash-attn on machines without a GPU: same arguments, plain operators."""

import torch


def flash_attn_func(q, k, v, causal=False):
    """q, k, v: (batch, length, heads, head size)."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def flash_attn_varlen_func(q, k, v, cu_seqlens):
    """q, k, v: (tokens, heads, head size); one softmax for each document."""
    parts = [
        flash_attn_func(q[None, a:b], k[None, a:b], v[None, a:b])[0]
        for a, b in zip(cu_seqlens[:-1].tolist(), cu_seqlens[1:].tolist(), strict=True)
    ]
    return torch.cat(parts)
