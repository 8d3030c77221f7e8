"""Methods of an FSDP2 model that use its parameters gather them, as forward does.

Which methods these are is seen when one fails for a shard: it is registered, and called once more with the random
numbers that it began with.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys

from trueup_instrument import places
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

MIXED = re.compile(r"mixed torch\.Tensor and DTensor|convert all torch\.Tensor to DTensor|'weight' must be 2-D")


def attach(switch: Switch) -> None:
    switch.after("torch.distributed.fsdp._fully_shard._fully_shard", lambda module: _fsdp2(switch, module))


def _fsdp2(switch: Switch, module: Any) -> None:
    if not hasattr(module, "register_fsdp_forward_method"):
        switch.cannot("this release of FSDP2 registers no methods")
        return
    watch = switch.guarded(lambda model: _watch(switch, model, module.register_fsdp_forward_method))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def fully_shard(module: Any, **options: Any) -> Any:
            result = original(module, **options)
            if not isinstance(module, (list, tuple)):
                watch(module)
            return result

        return fully_shard

    replace(module, "fully_shard", make)


def _watch(switch: Switch, model: Any, register: Callable[[Any, str], None]) -> None:
    for name in _methods(model):
        _watch_method(switch, model, name, register)


def _methods(model: Any) -> list[str]:
    """The methods beside forward that the program's own classes define."""
    found: dict[str, None] = {}
    for kind in type(model).__mro__:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if file and places.is_user_file(file):
            found.update(dict.fromkeys(name for name, each in vars(kind).items() if inspect.isfunction(each)))
    return [name for name in found if name != "forward" and not name.startswith("__") and name not in vars(model)]


def _watch_method(switch: Switch, model: Any, name: str, register: Callable[[Any, str], None]) -> None:
    original = getattr(model, name)
    unused, forget = switch.guarded(_unused), switch.guarded(_forget)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        numbers, parts = _random_numbers(), unused(model)
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            if not MIXED.search(str(error)) or vars(model).get(name) is not call:
                raise
        vars(model).pop(name)
        forget(parts or [])
        register(model, name)
        switch.changed(f"{name} gathers parameters", type(model).__name__)
        _set_random_numbers(numbers)
        return getattr(model, name)(*args, **kwargs)

    setattr(model, name, call)


def _unused(model: Any) -> list[Any]:
    """(part, state, its groups with the mesh of each after forward) of the sharded parts, until the model has run."""
    if model._get_fsdp_state()._is_root is not None:
        return []
    found = []
    for part in model.modules():
        state = part._get_fsdp_state() if part is not model and hasattr(part, "_get_fsdp_state") else None
        if state is not None and state._is_root is None:
            groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
            found.append((part, state, [(each, each.post_forward_mesh_info) for each in groups if each is not None]))
    return found


def _forget(parts: list[Any]) -> None:
    """Parts that ran as if each were a whole model become parts again, which the model gathers and frees."""
    for part, state, groups in parts:
        if state._is_root is not None:
            state._is_root = None
            for group, mesh in groups:
                group.post_forward_mesh_info = mesh
            part.reshard()


def _random_numbers() -> list[Any]:
    torch = sys.modules["torch"]
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else [])]


def _set_random_numbers(numbers: list[Any]) -> None:
    torch = sys.modules["torch"]
    torch.set_rng_state(numbers[0])
    for state in numbers[1:]:
        torch.cuda.set_rng_state(state)
