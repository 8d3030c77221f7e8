"""A call and its place in words."""

from __future__ import annotations

from trueup.attention.call import Call, Place
from trueup.attention.here import text
from trueup.attention.limits import code, mask_in_words

SHOWN = ("torch", "cudnn", "transformers", "flash-attn", "flash-attn-3", "flash-attn-4", "xformers", "kernels")


def call_in_words(call: Call) -> str:
    """`queries (2, 32, 4096, 128), keys and values (2, 8, 4096, 128), bf16, causal, training`"""
    parts = [f"queries {call.query}"]
    if call.key == call.value:
        parts.append(f"keys and values {call.key}")
    else:
        parts.append(f"keys {call.key}, values {call.value}")
    parts += [call.dtype, mask_in_words(call)]
    parts += ["enable_gqa"] if call.enable_gqa else []
    parts += [f"dropout {call.dropout:g}"] if call.dropout else []
    parts += [words for on, words in ((call.softcap, "softcap"), (call.sinks, "sinks"), (call.alibi, "alibi")) if on]
    parts += ["nested"] if call.nested else []
    parts += [] if call.contiguous else ["strided"]
    parts += ["torch.compile"] if call.compiled else []
    parts.append("training" if call.requires_grad else "no gradients")
    return ", ".join(parts)


def place_in_words(place: Place, gpu: str) -> str:
    """`h100 (sm_90), torch 2.13.0, cuDNN 9.15.1`"""
    where = "a CPU" if place.device == "cpu" else f"{gpu} ({code(place.capability)})" if gpu else code(place.capability)
    parts = [where, *(f"{name} {text(place.versions[name])}" for name in SHOWN if name in place.versions)]
    parts += [f"{', '.join(sorted(place.disabled))} switched off"] if place.disabled else []
    parts += ["deterministic algorithms"] if place.deterministic else []
    return ", ".join(parts).replace("cudnn ", "cuDNN ")
