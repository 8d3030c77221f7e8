"""dtypes by their short names, and autocast around a model's forward."""

from __future__ import annotations

from typing import Any

from trueup.compose.composed import Composed

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def torch_dtype(name: str) -> Any:
    import torch

    return getattr(torch, DTYPES[name])


def autocast_forward(done: Composed) -> None:
    """Enter autocast before the outermost forward and leave it after, whatever happens in between."""
    import torch

    device, dtype = done.device.type, torch_dtype(done.plan.precision)
    cache = done.plan.checkpointing is None
    entered: list[Any] = []

    def enter(module: Any, args: Any) -> None:
        context = torch.autocast(device, dtype, cache_enabled=cache)
        context.__enter__()
        entered.append(context)
        done.low_precision_forwards += 1

    def leave(module: Any, args: Any, result: Any) -> None:
        if entered:
            entered.pop().__exit__(None, None, None)

    done.model.register_forward_pre_hook(enter)
    done.model.register_forward_hook(leave, always_call=True)
    done.applied_layer("precision", f"autocast {done.plan.precision}")
