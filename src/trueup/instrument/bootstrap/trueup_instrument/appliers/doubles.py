"""Models in float64 from where they are trained or run first: weights are drawn in float32, as the job draws them.

What is double stays so: casts of it to less, by anyone, are refused, and what meets it in a module is made double.
"""

from __future__ import annotations

import sys

from trueup_instrument.appliers.complete import when_complete
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

NARROWING = ("to", "type", "type_as", "float", "half", "bfloat16")


def attach(switch: Switch) -> None:
    when_complete(switch, lambda model, wrapper: _double(switch, model))
    switch.after("torch", lambda torch: _keep(switch, torch))


def _double(switch: Switch, model: Any) -> None:
    """Each module casts what it is given, too: inputs are as the program makes them."""
    torch = sys.modules["torch"]
    if isinstance(model, (list, tuple)):
        for each in model:
            _double(switch, each)
        return
    narrow = [each for each in (*model.parameters(), *model.buffers()) if _is_narrow(torch, each)]
    if not narrow:
        return
    if any(hasattr(each, "_local_tensor") or hasattr(each, "_fsdp_flattened") for each in narrow):
        switch.cannot("weights that are sharded already stay as they are", type(model).__name__)
        return
    model._apply(lambda each: each.double() if _is_narrow(torch, each) else each)
    for module in model.modules():
        if "_trueup_doubles" not in module.__dict__ and next(module.parameters(recurse=False), None) is not None:
            module.__dict__["_trueup_doubles"] = True
            module.register_forward_pre_hook(_double_inputs, with_kwargs=True)
    switch.changed(f"{len(narrow)} parameters and buffers made float64", type(model).__name__)


def _double_inputs(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    torch = sys.modules["torch"]
    from torch.utils._pytree import tree_leaves, tree_map_only

    def cast(each: Any) -> Any:
        return each.double() if _is_narrow(torch, each) else each

    if not any(isinstance(each, torch.Tensor) and _is_narrow(torch, each) for each in tree_leaves((args, kwargs))):
        return args, kwargs  # what a module was given to fill is the caller's own
    return tree_map_only(torch.Tensor, cast, args), tree_map_only(torch.Tensor, cast, kwargs)


def _is_narrow(torch: Any, tensor: Any) -> bool:
    return bool(tensor.is_floating_point() and tensor.dtype != torch.float64)


def _keep(switch: Switch, torch: ModuleType) -> None:
    def kept(was: Any, now: Any) -> Any:
        if was.dtype == torch.float64 and isinstance(now, torch.Tensor) and _is_narrow(torch, now):
            return was.to(now.device, copy=True)
        return now

    def cast(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return kept(self, original(self, *args, **kwargs))

        return call

    def apply(original: Callable[..., Any]) -> Callable[..., Any]:
        def _apply(self: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return original(self, lambda tensor: kept(tensor, fn(tensor)), *args, **kwargs)

        return _apply

    for name in NARROWING:
        replace(torch.Tensor, name, cast)

    def norm(original: Callable[..., Any]) -> Callable[..., Any]:
        """FSDP1 asks for its norms in float32, which torch refuses of what is double."""

        def vector_norm(x: Any, *args: Any, **kwargs: Any) -> Any:
            if x.dtype == torch.float64 and kwargs.get("dtype") is not None:
                kwargs["dtype"] = torch.float64
            return original(x, *args, **kwargs)

        return vector_norm

    replace(torch.nn.Module, "_apply", apply)
    replace(torch.linalg, "vector_norm", norm)
