"""Lets flash-attn's own operators, which it defines for CUDA only, run on CPU tensors.

Lies beside the stand-in's `flash_attn_2_cuda`, which imports it for flash-attn 2.7 and newer: before the operators are
defined, so that the Python function of each is looked up when it is called.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

_OPERATORS = (
    "_flash_attn_forward",
    "_flash_attn_varlen_forward",
    "_flash_attn_backward",
    "_flash_attn_varlen_backward",
)


class _OnCpu:
    """The Python body of one operator, as flash_attn gave it to `torch.library.custom_op`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operator = getattr(sys.modules["flash_attn.flash_attn_interface"], self.name)
        return operator._init_fn(*args, **kwargs)


_library = torch.library.Library("flash_attn", "IMPL")
for _name in _OPERATORS:
    _library.impl(_name, _OnCpu(_name), "CPU")
