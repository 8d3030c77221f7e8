"""Attention as flash-attn defines it, in float64 and plain torch, for any of its arguments."""

import math

import torch


def attention(
    q, k, v, causal=False, window=(-1, -1), softcap=0.0, slopes=None, keep=None, p=0.0, max_seqlen_k=None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (batch, queries, heads, dim) and logsumexp (batch, heads, queries), inf where nothing is seen.

    `keep` is the dropout mask (batch, heads, queries, keys). A window open on one side only ends `max_seqlen_k` keys
    away on the other, as in the kernels.
    """
    q, k, v = (x.double() for x in (q, k, v))
    rows, heads, keys = q.shape[1], q.shape[2], k.shape[1]
    k, v = (x.repeat_interleave(heads // k.shape[2], 2) for x in (k, v))
    logits = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    row, key = torch.arange(rows)[:, None] + keys - rows, torch.arange(keys)[None]
    left, right = window
    if causal:
        right = 0
    if slopes is not None:
        bias = key.expand(rows, keys) if (left, right) == (-1, 0) else -(row - key).abs()
        logits = logits + slopes.double().reshape(-1, heads, 1, 1) * bias
    reach = keys if max_seqlen_k is None else max_seqlen_k
    seen = torch.ones(rows, keys, dtype=torch.bool)
    if (left, right) != (-1, -1):
        seen &= (key >= row - (reach if left < 0 else left)) & (key <= row + (reach if right < 0 else right))
    logits = logits.masked_fill(~seen, -math.inf)
    nothing = ~seen.any(-1)
    weights = logits.softmax(-1).masked_fill(nothing[:, None], 0)
    if keep is not None:
        weights = weights * keep / (1 - p)
    lse = logits.logsumexp(-1).masked_fill(nothing, math.inf)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v), lse
