"""Hidden states turned float32 and are cast to a half type in front of every flash-attention call."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="precision/flash-input-cast-back",
    title="Hidden states are silently cast before flash attention",
    layers=("precision", "attention", "adapter"),
    severity="warning",
    silent="One warning on the first call; the cast is made in every block, in old releases to fp16 in bf16 training.",
    cause=(
        "Upcast norms or embeddings, or a sub-model whose configuration has no dtype, return float32, and the "
        "flash helper "
        "of transformers casts to a dtype that it guesses."
    ),
    remedies=(
        Remedy(
            id="pass-dtype-to-sub-models",
            kind="in-process",
            automatic=False,
            how="set dtype and attn_implementation in each sub-configuration too (vision, text), and upcast no norms",
        ),
        Remedy(
            id="autocast-every-forward",
            kind="in-process",
            automatic=False,
            how="bf16=True, or torch.autocast('cuda', torch.bfloat16) around the forward, so that the dtype is known",
        ),
        Remedy(
            id="upgrade-transformers",
            kind="install",
            automatic=False,
            how="transformers >= 4.35, which takes the dtype of autocast or of the unquantised model",
        ),
    ),
    caution="After k-bit preparation the upcast norms are meant, and the cast is only a cost.",
    sources=("https://github.com/huggingface/transformers/issues/26451",),
    log=(
        LogText(
            text="Casting fp32 inputs back to <dtype> for flash-attn compatibility",
            versions="transformers 4.48 and newer",
        ),
        LogText(
            text="The input hidden states seems to be silently casted in float32",
            versions="transformers 4.34 to 5",
        ),
    ),
)
