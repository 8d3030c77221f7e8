"""Attention kernels by the names under which profilers show them.

Operators of torch and of flash-attn are matched whole, device kernels by what their names contain. CPU names were seen
on torch 2.13; CUDA operator names are torch's own (`native_functions.yaml`), device kernel names those of the kernels'
sources and public traces, unverified here for want of a GPU.
"""

from __future__ import annotations

from typing import NamedTuple


class AttentionKernel(NamedTuple):
    name: str
    fused: bool
    """True when the score matrix is never written out."""
    is_operator: bool
    """True for a dispatcher's operator, False for a device kernel that one of them launches."""


OPERATORS: dict[str, AttentionKernel] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": AttentionKernel("sdpa-flash-cpu", True, True),
    "aten::_scaled_dot_product_flash_attention": AttentionKernel("sdpa-flash", True, True),
    "aten::_scaled_dot_product_efficient_attention": AttentionKernel("sdpa-mem-efficient", True, True),
    "aten::_scaled_dot_product_cudnn_attention": AttentionKernel("sdpa-cudnn", True, True),
    "aten::_scaled_dot_product_fused_attention_overrideable": AttentionKernel("sdpa-fused-device", True, True),
    "aten::_scaled_dot_product_attention_math": AttentionKernel("sdpa-math", False, True),
    "aten::_scaled_dot_product_attention_math_for_mps": AttentionKernel("sdpa-math", False, True),
    "aten::_softmax over 4 dimensions": AttentionKernel("eager", False, True),
    "flash_attn::_flash_attn_forward": AttentionKernel("flash-attn-2", True, True),
    "flash_attn::_flash_attn_varlen_forward": AttentionKernel("flash-attn-2-varlen", True, True),
    "flash_attn_3::_flash_attn_forward": AttentionKernel("flash-attn-3", True, True),
    "flash_attn_3::fwd": AttentionKernel("flash-attn-3", True, True),
    "flash_attn_4::_flash_attn_fwd": AttentionKernel("flash-attn-4", True, True),
    "torch_attn::_varlen_attn": AttentionKernel("varlen-attn", True, True),
    "xformers::efficient_attention_forward_cutlass": AttentionKernel("xformers-cutlass", True, True),
    "xformers::trueup_memory_efficient_attention": AttentionKernel("xformers", True, True),
    "xformers_flash::flash_fwd": AttentionKernel("xformers-flash", True, True),
    "xformers_flash3::flash_fwd": AttentionKernel("xformers-flash3", True, True),
    "flex_attention": AttentionKernel("flex", True, True),
}

DEVICE_KERNELS: tuple[tuple[str, AttentionKernel], ...] = (
    ("FlashAttnFwdSm", AttentionKernel("flash-3", True, False)),
    ("FlashAttentionForward", AttentionKernel("flash-4", True, False)),
    ("flash_fwd", AttentionKernel("flash", True, False)),
    ("fmha_cutlass", AttentionKernel("mem-efficient", True, False)),
    ("cudnn_generated_fort_native_sdpa", AttentionKernel("cudnn", True, False)),
    ("triton_tem_fused_flex_attention", AttentionKernel("flex", True, False)),
)

FUNCTIONS: dict[str, AttentionKernel] = {
    "eager_attention_forward": AttentionKernel("eager", False, True),
}
"""Hugging Face attention functions that compute attention by plain operators."""


def kernel_of(name: str) -> AttentionKernel | None:
    """The kernel behind an operator or device kernel name of a profile; None for what is no attention."""
    known = OPERATORS.get(name)
    if known is not None:
        return known
    return next((kernel for part, kernel in DEVICE_KERNELS if part in name), None)
