"""A model that FSDP1 wraps automatically is wrapped and compiled once: preparing it again gives it back as it is."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


def attach(switch: Switch) -> None:
    prepared: list[type[Any]] = []
    switch.after(FSDP, lambda module: _fsdp1(switch, module.FullyShardedDataParallel, prepared))
    switch.after("torch", lambda torch: replace(torch, "compile", lambda original: _compile(original, prepared)))


def _fsdp1(switch: Switch, kind: Any, prepared: list[type[Any]]) -> None:
    prepared.append(kind)

    def __new__(cls: Any, module: Any = None, *args: Any, **kwargs: Any) -> Any:
        if module is not None and kwargs.get("auto_wrap_policy") is not None and _holds(kind, module):
            switch.changed("prepared before, and not once more", type(module).__name__)
            return module
        return object.__new__(cls)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
            if self is not module:
                original(self, module, *args, **kwargs)

        return __init__

    kind.__new__ = __new__
    replace(kind, "__init__", make)


def _compile(original: Callable[..., Any], prepared: list[type[Any]]) -> Callable[..., Any]:
    def torch_compile(model: Any = None, *args: Any, **options: Any) -> Any:
        if hasattr(model, "_orig_mod") and any(_holds(kind, model) for kind in prepared):
            return model
        return original(model, *args, **options)

    return torch_compile


def _holds(kind: type[Any], module: Any) -> bool:
    return any(isinstance(part, kind) for part in module.modules())
