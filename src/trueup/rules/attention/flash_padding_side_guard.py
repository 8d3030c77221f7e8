"""A right-padded batch meets the guard that some models had for generation with flash attention."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="attention/flash-padding-side-guard",
    title="Right-padded batch trips the FlashAttention cache guard",
    layers=("attention", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Models of transformers 4 refuse a right-padded mask when flash attention and a KV cache are on; use_cache "
        "is on by "
        "default, so a plain training forward looks like generation."
    ),
    remedies=(
        Remedy(
            id="disable-kv-cache",
            kind="in-process",
            automatic=True,
            how=(
                "model.config.use_cache = False for training and log-probability passes, or use_cache=False in the call"
            ),
        ),
        Remedy(
            id="pad-left",
            kind="in-process",
            automatic=False,
            how="tokenizer.padding_side = 'left', where the batch is really for generation",
        ),
        Remedy(
            id="upgrade-transformers", kind="install", automatic=False, how="transformers >= 5, which has no such guard"
        ),
    ),
    caution="In real generation with a decoder-only model the advice to pad left is right.",
    sources=(
        "https://github.com/brendanhogan/DeepSeekRL-Extended/issues/4",
        "https://github.com/huggingface/trl/issues/1477",
    ),
    log=(
        LogText(
            text="attempting to perform batched generation with padding_side=right this may lead to unexpected "
            "behaviour for Flash Attention",
            versions="transformers 4.34 to 4.5x",
        ),
        LogText(text="attempting to perform batched generation with padding_side=right", versions="cut short"),
    ),
)
