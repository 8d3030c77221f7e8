"""Attention kernels: what is known of them, and what makes them work in a training stack.

Public names are imported when they are first asked for, so that what needs no torch works without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trueup.attention.packing_leakage import leakage

PUBLIC = {"leakage": "trueup.attention.packing_leakage"}
"""Name → the module that holds it, which has another name: importing it must not hide what it holds."""

__all__ = ["leakage"]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
