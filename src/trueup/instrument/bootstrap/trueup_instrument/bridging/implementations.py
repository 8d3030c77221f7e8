"""Attention implementations for transformers by its public interfaces: `trueup_flash_attention_2`, `_3` and `_4`.

They take the kernels of the names behind the prefix, give them no number of a layer, which Dynamo would guard in each,
and ask nothing of values in a graph.
"""

from __future__ import annotations

import importlib
import sys

from trueup_instrument.bridging.huggingface import FLASH, MASKS, VERSIONS, is_known, mask_unread, without_questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PREFIX = "trueup_"
NAMES = tuple(f"{PREFIX}flash_attention_{version}" for version in VERSIONS)


def register() -> tuple[str, ...]:
    """Register the implementations, once. Raises ImportError for a transformers without the interfaces."""
    flash, masks = importlib.import_module(FLASH), importlib.import_module(MASKS)
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise ImportError("attention functions are registered with transformers 4.56 or newer") from error
    if not is_known(flash):
        raise ImportError("attention functions take boundaries with transformers 4.56 or newer")
    if NAMES[0] not in AttentionInterface._global_mapping:
        torch = sys.modules["torch"]
        loaded_by_name(flash)
        attention, mask = function(torch, flash), mask_unread(torch, masks.flash_attention_mask)
        for name in NAMES:
            AttentionInterface.register(name, attention)
            AttentionMaskInterface.register(name, mask)
    return NAMES


def loaded_by_name(flash: Any) -> None:
    """Have transformers load the kernels of `flash_attention_2` for the name with the prefix, where it loads any."""
    original = flash.lazy_import_flash_attention

    def lazy_import_flash_attention(implementation: Any, *args: Any, **options: Any) -> Any:
        return original(plain(implementation), *args, **options)

    modules: tuple[Any, ...] = (flash, importlib.import_module("transformers.modeling_utils"))
    for module in modules:
        if hasattr(module, "lazy_import_flash_attention"):
            module.lazy_import_flash_attention = lazy_import_flash_attention


def plain(implementation: Any) -> Any:
    """The name that transformers knows."""
    return implementation.removeprefix(PREFIX) if isinstance(implementation, str) else implementation


def function(torch: Any, flash: Any) -> Callable[..., Any]:
    """An attention function as transformers calls it (integrations/flash_attention.py of 5.24, but for the layer)."""
    integration = importlib.import_module("transformers.integrations.flash_attention")
    attention = without_questions(torch, flash._flash_attention_forward)
    target_dtype = getattr(integration, "get_target_dtype", None)
    top_left = flash.flash_attn_supports_top_left_mask()
    pad = torch.nn.functional.pad

    def trueup_flash_attention(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        dropout: float = 0.0,
        scaling: float | None = None,
        sliding_window: int | None = None,
        softcap: float | None = None,
        is_causal: bool | None = None,
        s_aux: Any = None,
        **options: Any,
    ) -> tuple[Any, None]:
        """query, key, value: (rows, heads, length, size) → (rows, length, heads, size), None."""
        size, value_size = query.shape[-1], value.shape[-1]
        if value_size < size:
            value = pad(value, [0, size - value_size])
        out = attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attention_mask,
            query_length=query.shape[2],
            is_causal=module.is_causal if is_causal is None else is_causal,
            dropout=dropout,
            softmax_scale=scaling,
            sliding_window=sliding_window,
            softcap=softcap,
            use_top_left_mask=top_left,
            target_dtype=target_dtype(query, module) if target_dtype is not None else None,
            attn_implementation=plain(module.config._attn_implementation),
            s_aux=None if s_aux is None else s_aux.to(query.dtype),
            **options,
        )
        return out[..., :value_size] if value_size < size else out, None

    return trueup_flash_attention
