"""Attention kernels that Dynamo cannot look into, without a library: those of `bridge` in the tests."""

from __future__ import annotations

from typing import Any

import torch

SCALE = 0.3


def scores(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    """(rows, heads, length, length)"""
    groups = q.shape[2] // k.shape[2]
    found = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float().repeat_interleave(groups, 2)) * SCALE
    if not causal:
        return found
    hidden = torch.ones(found.shape[-2:], dtype=torch.bool).triu(1)
    return found.masked_fill(hidden, float("-inf"))


@torch._dynamo.disable
def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True) -> Any:
    """A kernel without a gradient of its own. q, k, v: (rows, length, heads, size)."""
    with torch.no_grad():
        found = scores(q, k, causal)
        values = v.float().repeat_interleave(q.shape[2] // v.shape[2], 2)
        out = torch.einsum("bhqk,bkhd->bqhd", found.softmax(-1), values)
        return out.to(q.dtype).contiguous(), found.logsumexp(-1)


def backward(grad: Any, out: Any, lse: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    groups = q.shape[2] // k.shape[2]
    keys, values = (each.float().repeat_interleave(groups, 2) for each in (k, v))
    share = (scores(q, k, causal) - lse[..., None]).exp()
    to_values = torch.einsum("bhqk,bqhd->bkhd", share, grad.float())
    of_share = torch.einsum("bqhd,bkhd->bhqk", grad.float(), values)
    of_scores = share * (of_share - (of_share * share).sum(-1, keepdim=True)) * SCALE
    to_queries = torch.einsum("bhqk,bkhd->bqhd", of_scores, keys)
    to_keys = torch.einsum("bhqk,bqhd->bkhd", of_scores, q.float())
    folded = (each.unflatten(2, (k.shape[2], groups)).sum(3) for each in (to_keys, to_values))
    return tuple(each.to(q.dtype) for each in (to_queries, *folded))


def fake(q: Any, k: Any, v: Any, causal: bool) -> Any:
    return torch.empty_like(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)


@torch._dynamo.disable
def with_its_gradient(query, key, value, causal: bool = True, scale=None):
    """A function that autograd records, and that returns a view: (rows, length, heads, size)."""
    states = (each.transpose(1, 2) for each in (query, key, value))
    return torch.nn.functional.scaled_dot_product_attention(
        *states, is_causal=causal, scale=scale, enable_gqa=True
    ).transpose(1, 2)


def inputs(size: int = 8, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    torch.manual_seed(0)
    heads = (4, 2, 2)
    return [torch.randn(2, 8, each, size, dtype=dtype, requires_grad=True) for each in heads]
