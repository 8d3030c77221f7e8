"""torch's varlen_attn, xformers, and attention by plain operators as in Hugging Face models."""

from __future__ import annotations

from trueup.attention import changes, limits
from trueup.attention.call import MaskKind
from trueup.attention.constraints import Constraint
from trueup.attention.kernel import Compiled, Kernel
from trueup.attention.knowledge.flash_attn import TAKEN
from trueup.attention.knowledge.sources import NATIVE, cuda, installed, page, xformers

VARLEN_FILE = "torch/nn/attention/varlen.py"
VARLEN_CODE = page(
    NATIVE.format(commit="03b7c19dbe228c9febd503755f723240945f8067", file="cuda/flash_attn/flash_api.cpp")
    + " (mha_varlen_fwd)",
    "torch main, 2026",
)

VARLEN = Kernel(
    name="varlen-attn",
    title="torch.nn.attention.varlen.varlen_attn",
    fused=True,
    package="torch",
    operators=("torch_attn::_varlen_attn",),
    device_kernels=("pytorch_flash::flash_fwd",),
    constraints=(
        limits.package(
            page("https://docs.pytorch.org/docs/stable/nn.attention.varlen.html", "torch 2.10"), "torch", (2, 10)
        ),
        limits.device(installed(VARLEN_FILE, 110, "torch 2.13", "run"), "cuda", raises=True),
        limits.generations(cuda("check_flash_attention_hardware_support"), (8, 0), (12, 1), raises=True),
        limits.dtypes(cuda("check_dtypes_low_precision"), "bf16", "fp16", raises=True),
        limits.same_sizes(cuda("check_head_dim_size_flash"), raises=True),
        limits.head_size(VARLEN_CODE, 256, multiple=8, raises=True),
        limits.last_stride(VARLEN_CODE, of_mask=False, raises=True),
        limits.flagged_heads(installed(VARLEN_FILE, 295, "torch 2.13")),
        limits.no_dropout(installed(VARLEN_FILE, 118, "torch 2.13"), raises=True),
        limits.masks(
            installed(VARLEN_FILE, 176, "torch 2.13"),
            *TAKEN,
            needs="no mask tensor: a window (causal is one), and cu_seq for padding and documents",
            raises=True,
        ),
        limits.without(installed(VARLEN_FILE, 176, "torch 2.13"), "softcap", "softcap"),
        limits.without(installed(VARLEN_FILE, 176, "torch 2.13"), "sinks", "attention sinks"),
        limits.without(installed(VARLEN_FILE, 176, "torch 2.13"), "alibi", "alibi"),
    ),
    compiled=(
        Compiled(
            in_graph="operator",
            words="a custom operator with autograd",
            source=installed(VARLEN_FILE, 45, "torch 2.13"),
        ),
    ),
)

XFORMERS_MASKS: tuple[MaskKind, ...] = ("none", "causal", "window", "padding", "document")


INSTALLED = limits.package(
    page("https://pypi.org/project/xformers/", "xformers"),
    "xformers",
    how="pip install xformers; `trueup doctor --for xformers` names the wheel that fits",
)
SAME_HEADS = Constraint(
    about="heads",
    needs="as many heads of keys and values as of queries; groups as a dimension of their own",
    holds=lambda call: not call.is_grouped,
    given=limits.heads,
    change=changes.expand_heads,
    source=xformers("common.py"),
)


def _biased(file: str) -> tuple[Constraint, ...]:
    """Arguments that memory_efficient_attention does not have."""
    return tuple(
        limits.without(xformers(file), name, words)
        for name, words in (("softcap", "softcap"), ("sinks", "attention sinks"))
    )


XFORMERS_FLASH = Kernel(
    name="xformers-flash",
    title="xformers, FlashAttention 2",
    fused=True,
    package="xformers",
    operators=("xformers_flash::flash_fwd",),
    device_kernels=("flash_fwd_kernel",),
    constraints=(
        INSTALLED,
        limits.device(xformers("flash.py"), "cuda"),
        limits.generations(xformers("flash.py"), (8, 0)),
        limits.dtypes(xformers("flash.py"), "bf16", "fp16"),
        limits.head_size(xformers("flash.py"), 256, multiple=8),
        limits.same_sizes(xformers("common.py")),
        limits.masks(
            xformers("flash.py"), *XFORMERS_MASKS, needs="an AttentionBias object of a kind it knows, no tensor"
        ),
        SAME_HEADS,
        *_biased("flash.py"),
        limits.without(xformers("flash.py"), "alibi", "alibi"),
    ),
    compiled=(
        Compiled(
            in_graph="operator",
            words="a custom operator; memory_efficient_attention around it still reads shapes in Python",
            source=xformers("flash.py"),
        ),
    ),
)

XFORMERS_FLASH_3 = Kernel(
    name="xformers-flash3",
    title="xformers, FlashAttention 3",
    fused=True,
    package="xformers",
    operators=("xformers_flash3::flash_fwd",),
    device_kernels=("FlashAttnFwdSm90", "FlashAttnFwdSm80"),
    constraints=(
        INSTALLED,
        limits.device(xformers("flash3.py"), "cuda"),
        limits.generations(xformers("flash3.py"), (8, 0), (9, 0)),
        limits.dtypes(xformers("flash3.py"), "bf16", "fp16"),
        limits.head_size(xformers("flash3.py"), 256, multiple=8, least=32),
        limits.head_size(
            xformers("flash3.py"), 256, least=64, when=lambda call: call.requires_grad, about="head size in training"
        ),
        limits.no_dropout(xformers("flash3.py")),
        limits.masks(
            xformers("flash3.py"), *XFORMERS_MASKS, needs="an AttentionBias object of a kind it knows, no tensor"
        ),
        SAME_HEADS,
        *_biased("flash3.py"),
        limits.without(xformers("flash3.py"), "alibi", "alibi"),
    ),
    compiled=(Compiled(in_graph="operator", words="a custom operator", source=xformers("flash3.py")),),
)

XFORMERS_CUTLASS = Kernel(
    name="xformers-cutlass",
    title="xformers, CUTLASS",
    fused=True,
    package="xformers",
    operators=("xformers::efficient_attention_forward_cutlass",),
    device_kernels=("fmha_cutlassF",),
    constraints=(
        INSTALLED,
        limits.device(xformers("cutlass.py"), "cuda"),
        limits.generations(xformers("cutlass.py"), (5, 0), (9, 0)),
        limits.dtypes(xformers("cutlass.py"), "bf16", "fp16", "fp32"),
        limits.head_size(xformers("cutlass.py"), 65536),
        limits.aligned_for_cutlass(xformers("cutlass.py")),
        SAME_HEADS,
        *_biased("cutlass.py"),
    ),
    compiled=(Compiled(in_graph="operator", words="torch's own operator", source=xformers("cutlass.py")),),
)


MODELS = page("https://github.com/huggingface/transformers", "transformers 5.24", "run")

EAGER = Kernel(
    name="eager",
    title="attention by plain operators (Hugging Face eager)",
    fused=False,
    package="transformers",
    operators=("aten::_softmax",),
    constraints=(
        limits.dtypes(MODELS, "fp64", "fp32", "fp16", "bf16", raises=True),
        limits.same_key_size(MODELS),
    ),
    compiled=(
        Compiled(
            in_graph="traced",
            words="its operators are compiled and partly fused; the scores stay in memory",
            source=MODELS,
        ),
    ),
)
