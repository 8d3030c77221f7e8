"""`attn_implementation="flash_attention_2"` of transformers on a machine without a GPU."""

from __future__ import annotations

from typing import Any


def allow_flash_attention_2() -> None:
    """Makes transformers, in this process, take CPU for a device that FlashAttention 2 serves.

    transformers names the devices in `FLASH_ATTENTION_COMPATIBILITY_MATRIX` (5.x) and asks `is_flash_attn_2_available`,
    which wants a GPU beside the package. Both answer for CPU afterwards, and nothing else of transformers changes:
    `is_torch_cuda_available` and devices stay what they are. Call it before the first model is made. flash-attn's
    package, and einops which its padding helpers import, have to be importable (see `packages.flash_attn_on_cpu`).
    """
    from transformers import modeling_flash_attention_utils as flash

    flash.is_flash_attn_2_available = _available
    row: dict[str, Any] = flash.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]
    if row["general_availability_check"] is _available:
        return
    row["general_availability_check"] = _available
    row["supported_devices"] = (*row["supported_devices"], (_available, "cpu"))


def _available(kernels_fallback_ok: bool = False) -> bool:
    return True
