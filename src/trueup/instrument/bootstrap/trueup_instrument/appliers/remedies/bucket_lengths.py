"""Rows of tokens are padded at the end to multiples of 64 where a mask and labels leave the padding out."""

from __future__ import annotations

from trueup_instrument.appliers.compiled_calls import around_compiled_calls
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


MULTIPLE = 64
PADDING = {"input_ids": 0, "attention_mask": 0, "labels": -100}
"""What each argument is filled with; those that are needed, and no other of two dimensions may be there."""


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _compiled(switch, torch))
    switch.after("transformers.modeling_utils", lambda module: _models(switch, module.PreTrainedModel))


def _compiled(switch: Switch, torch: Any) -> None:
    """Where a whole model is compiled, sizes must be alike outside of its graph."""

    def around(module: Any, arguments: Any) -> Any:
        args, kwargs = arguments
        return (args, kwargs if args else padded(switch, kwargs)), None

    around_compiled_calls(switch, around)


def _models(switch: Switch, kind: Any) -> None:
    change = switch.guarded(lambda kwargs: padded(switch, kwargs))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not args and self.training and not torch.compiler.is_compiling():
                kwargs = change(kwargs) or kwargs
            return original(self, *args, **kwargs)

        return __call__

    replace(kind, "__call__", make)


def padded(switch: Switch, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments with longer rows; as they are where something would see the padding."""
    import torch

    rows = {name: value for name, value in kwargs.items() if isinstance(value, torch.Tensor) and value.dim() > 1}
    shapes = {value.shape for value in rows.values()}
    if set(rows) != set(PADDING) or len(shapes) != 1 or rows["input_ids"].dim() != 2:
        return kwargs
    more = -rows["input_ids"].shape[1] % MULTIPLE
    if not more:
        return kwargs
    switch.changed(f"rows padded to multiples of {MULTIPLE}")
    longer = {name: torch.nn.functional.pad(value, (0, more), value=PADDING[name]) for name, value in rows.items()}
    return {**kwargs, **longer}
