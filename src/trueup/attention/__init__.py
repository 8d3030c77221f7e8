"""Attention kernels: what is known of them, and what makes them work in a training stack.

Public names are imported when they are first asked for, so that what needs no torch works without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trueup.attention.bridging import bridge, bridge_libraries
    from trueup.attention.huggingface import FallbackWarning, register_attention, use_attention
    from trueup.attention.packing import packed
    from trueup.attention.packing_leakage import leakage

PUBLIC = {
    "FallbackWarning": "trueup.attention.huggingface",
    "bridge": "trueup.attention.bridging",
    "bridge_libraries": "trueup.attention.bridging",
    "leakage": "trueup.attention.packing_leakage",
    "packed": "trueup.attention.packing",
    "register_attention": "trueup.attention.huggingface",
    "use_attention": "trueup.attention.huggingface",
}
"""Name → the module that holds it, which has another name: importing it must not hide what it holds."""

__all__ = [
    "FallbackWarning",
    "bridge",
    "bridge_libraries",
    "leakage",
    "packed",
    "register_attention",
    "use_attention",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
