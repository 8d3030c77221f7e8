"""The mixed precision of a sharding wrapper without the wrapper: forward passes on parameters cast to a lower dtype.

The cast is part of the graph, so that gradients come in the dtype of the parameters. Parameters are put in place of the
originals for the forward of the module that holds them, which may run again in the backward pass, and for all of the
unit's own forward.
"""

from __future__ import annotations

import functools
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MARK = "_trueup_cast"


def cast_in_forward(unit: Any, dtype: Any, ignored: Iterable[Any] = (), kept: tuple[type, ...] = ()) -> None:
    """Cast floating parameters of `unit` but those `ignored`; modules of a class in `kept` run in float32."""
    torch: Any = sys.modules["torch"]
    left = {id(parameter) for parameter in ignored}
    owners = []
    module: Any
    for module in unit.modules():
        if MARK in module.__dict__:
            continue
        is_kept = isinstance(module, kept)
        if is_kept:
            module.__dict__[MARK] = None
            module.register_forward_pre_hook(functools.partial(_cast_inputs, torch.float32), with_kwargs=True)
            module.register_forward_hook(functools.partial(_cast_output, dtype))
        elif any(each.is_floating_point() and id(each) not in left for each in module.parameters(recurse=False)):
            module.__dict__[MARK] = None
            owners.append(module)
            _around_forward(module, [module], dtype, left)
    if owners and owners != [unit]:
        _around_forward(unit, owners, dtype, left)


def cast_arguments(unit: Any, dtype: Any) -> None:
    """Cast what `unit` is given."""
    unit.register_forward_pre_hook(functools.partial(_cast_inputs, dtype), with_kwargs=True)


def cast_result(unit: Any, dtype: Any) -> None:
    """Cast what `unit` gives."""
    unit.register_forward_hook(functools.partial(_cast_output, dtype))


def _around_forward(module: Any, owners: list[Any], dtype: Any, ignored: set[int]) -> None:
    stack: list[list[tuple[dict[str, Any], str, Any]]] = []

    def put(*_: Any) -> None:
        parameter_class = sys.modules["torch"].nn.Parameter
        swapped = []
        for owner in owners:
            for name, each in owner._parameters.items():
                # what is cast already is no parameter
                if isinstance(each, parameter_class) and each.is_floating_point() and id(each) not in ignored:
                    swapped.append((owner._parameters, name, each))
        for held, name, each in swapped:
            held[name] = each.to(dtype)
        stack.append(swapped)

    def take_back(*_: Any) -> None:
        for held, name, each in stack.pop():
            held[name] = each

    module.register_forward_pre_hook(put)
    module.register_forward_hook(take_back, always_call=True)


def _cast_inputs(dtype: Any, module: Any, args: Any, kwargs: Any) -> Any:
    return _cast(dtype, args), _cast(dtype, kwargs)


def _cast_output(dtype: Any, module: Any, args: Any, output: Any) -> Any:
    return _cast(dtype, output)


def _cast(dtype: Any, values: Any) -> Any:
    torch: Any = sys.modules["torch"]
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda each: each.to(dtype) if each.is_floating_point() else each, values)
