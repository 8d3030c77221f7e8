"""A flash kernel was given float32 queries, keys or values."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="attention/flash-fp32-input",
    title="Float32 queries reach a flash-attention kernel",
    layers=("attention", "precision", "adapter", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Flash kernels take half precision only, and something in front of them returned float32: a model loaded in "
        "float32 without autocast, an adapter, an upcast norm, or a rotary embedding."
    ),
    remedies=(
        Remedy(
            id="load-in-half-precision",
            kind="in-process",
            automatic=False,
            how="from_pretrained(..., dtype=torch.bfloat16) (torch_dtype before transformers 4.56; fp16 before Ampere)",
        ),
        Remedy(
            id="autocast-every-forward",
            kind="in-process",
            automatic=False,
            how="bf16=True in the trainer, and torch.autocast('cuda', torch.bfloat16) around every other forward",
        ),
        Remedy(
            id="cast-attention-inputs",
            kind="code",
            automatic=False,
            how="q, k, v = (t.to(torch.bfloat16) for t in (q, k, v)) right in front of the kernel",
        ),
    ),
    caution=(
        "The notice of transformers at load time is harmless under mixed precision. Under QLoRA look for the first "
        "module "
        "that returns float32."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/26066",
        "https://github.com/lm-sys/FastChat/issues/695",
        "https://github.com/unslothai/unsloth/issues/1154",
    ),
    log=(
        LogText(text="FlashAttention only support fp16 and bf16", versions="flash-attn 2"),
        LogText(text="FlashAttention only supports fp16 and bf16", versions="copies of flash-attn 2"),
        LogText(text="FlashAttention only supports fp16, bf16, and fp8_e4m3", versions="flash-attn 3"),
        LogText(text="FlashAttention only support fp16, bf16", versions="forks of flash-attn"),
        LogText(text="Expected q_dtype == torch::kFloat16", versions="flash-attn 1"),
        LogText(text="Expected q_dtype == at::kHalf", versions="the copy in torch 2.0 and 2.1"),
        LogText(text="Expected q.dtype() == torch::kFloat16", versions="flash-attn 0"),
        LogText(
            text="inputs must be float16 or bfloat16",
            strength="supporting",
            versions="flash-attn 4",
            inside=("flash_attn/",),
        ),
        LogText(
            text="Flash Attention <version> only supports torch.float16 and torch.bfloat16 dtypes",
            strength="supporting",
            versions="transformers, at load time",
            not_with=("without specifying a dtype", "without specifying a torch dtype"),
        ),
        LogText(
            text="only supports torch.float16 and torch.bfloat16 dtypes",
            strength="supporting",
            versions="transformers, at load time, cut short",
            not_with=("Flash Attention <version> only supports torch.float16", "without specifying a dtype"),
        ),
        LogText(
            text="You are attempting to use Flash Attention <version> without specifying a dtype",
            strength="supporting",
            versions="transformers 5, at load time",
        ),
        LogText(
            text="You are attempting to use Flash Attention <version> without specifying a torch dtype",
            strength="supporting",
            versions="transformers 4, at load time",
        ),
    ),
)
