"""Stand-ins for flash-attn on machines without a GPU: same arguments, plain operators, given to transformers."""

import torch
import transformers.modeling_flash_attention_utils as flash
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flash_attention import flash_attention_forward

NAME = "flash_attention_on_cpu"


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
    """q, k, v: (batch, length, heads, head size)."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=softmax_scale, is_causal=causal).transpose(1, 2)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False
):
    """q, k, v: (tokens, heads, head size); the documents begin at cu_seqlens."""
    document = torch.bucketize(torch.arange(q.shape[0]), cu_seqlens_q[1:], right=True)
    mask = document[:, None] == document[None]
    q, k, v = (each.transpose(0, 1)[None] for each in (q, k, v))
    mask = mask.tril() if causal else mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=softmax_scale)[0].transpose(0, 1)


def install():
    flash._lazy_imports = lambda *given, **options: (flash_attn_func, flash_attn_varlen_func, None, None, None)
    AttentionInterface.register(NAME, flash_attention_forward)
    AttentionMaskInterface.register(NAME, lambda *given, **options: None)
