"""The layers of a training stack, in the words used everywhere: code, output, documents."""

from __future__ import annotations

from typing import Literal, get_args

Layer = Literal[
    "environment",
    "launcher",
    "attention",
    "adapter",
    "precision",
    "checkpointing",
    "compile",
    "sharding",
    "memory",
    "trainer",
]

LAYERS: tuple[Layer, ...] = get_args(Layer)
