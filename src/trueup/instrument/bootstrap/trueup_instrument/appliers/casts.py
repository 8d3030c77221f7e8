"""Casts to low precision, refused: of models by anyone, of tensors where the program itself casts its inputs."""

from __future__ import annotations

import functools
import os
import sys

from trueup_instrument import places
from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

TRAINERS = ("accelerate", "diffusers", "lightning", "lightning_fabric", "pytorch_lightning", "trl")
"""Libraries that cast a program's inputs in its place."""
IN_GRAPHS = tuple(os.path.join("torch", *path) for path in (("_dynamo", "utils.py"), ("fx", "interpreter.py")))
"""Files that run a captured cast, besides the code that FX generates."""
IN_BETWEEN = tuple(
    os.path.join("torch", *path)
    for path in (("_subclasses", "functional_tensor.py"), ("fx", "experimental", "proxy_tensor.py"))
)
"""Files that hand on a cast which another one asks for."""
HALVES = ("half", "bfloat16")


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _torch(switch, torch))


def is_low(value: Any) -> bool:
    """True for a floating dtype of fewer than 32 bits."""
    return getattr(value, "is_floating_point", None) is True and getattr(value, "itemsize", 4) < 4


def _torch(switch: Switch, torch: ModuleType) -> None:
    def default(arguments: dict[str, Any]) -> None:
        name = next(iter(arguments))
        if is_low(arguments[name]):
            switch.changed(f"default dtype {arguments[name]} replaced by float32")
            arguments[name] = torch.float32

    change_arguments(switch, torch, "set_default_dtype", default)
    _modules(switch, torch)
    _tensors(switch, torch)


def _modules(switch: Switch, torch: ModuleType) -> None:
    module = torch.nn.Module

    def to(original: Callable[..., Any]) -> Callable[..., Any]:
        tell = switch.guarded(lambda self: switch.changed("cast of the model refused", type(self).__name__))

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            args, kwargs, changed = in_float32(torch, args, kwargs)
            if changed:
                tell(self)
            return original(self, *args, **kwargs)

        return call

    for name in ("to", "type"):
        replace(module, name, to)
    for name in HALVES:
        replace(module, name, lambda original: _float_instead(switch))
    replace(torch.nn.Parameter, "__new__", lambda original: _wide_parameter(switch, torch, original))
    change_arguments(switch, module, "register_buffer", lambda arguments: _widen(switch, torch, arguments))


def _float_instead(switch: Switch) -> Callable[..., Any]:
    tell = switch.guarded(lambda self: switch.changed("cast of the model refused", type(self).__name__))

    def call(self: Any) -> Any:
        tell(self)
        return self.float()

    return call


def _wide_parameter(switch: Switch, torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """Parameters that are made in low precision, by `dtype=` of a layer or of loaded weights."""

    def __new__(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if type(data) in (torch.Tensor, torch.nn.Parameter) and is_low(data.dtype):
            switch.changed("parameters made in float32", cls.__name__)
            data = data.detach().float()
        return original(cls, data, requires_grad)

    return __new__


def _widen(switch: Switch, torch: ModuleType, arguments: dict[str, Any]) -> None:
    tensor = arguments["tensor"]
    if type(tensor) is torch.Tensor and is_low(tensor.dtype):
        switch.changed("buffers made in float32", type(arguments["self"]).__name__)
        arguments["tensor"] = tensor.float()


def _tensors(switch: Switch, torch: ModuleType) -> None:
    tell = switch.guarded(lambda: switch.changed("cast of a tensor refused"))

    def to(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if casts_inputs(sys._getframe(1)):
                args, kwargs, changed = in_float32(torch, args, kwargs)
                if changed:
                    tell()
            return original(self, *args, **kwargs)

        return call

    def half(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if casts_inputs(sys._getframe(1)):
                tell()
                return self.float(*args, **kwargs)
            return original(self, *args, **kwargs)

        return call

    for name in ("to", "type"):
        replace(torch.Tensor, name, to)
    for name in HALVES:
        replace(torch.Tensor, name, half)
    lazy = getattr(torch.nn.parameter, "UninitializedTensorMixin", None)
    if lazy is not None:  # it knows by identity what may be called before there is a shape
        lazy._allowed_methods = [*lazy._allowed_methods, *(getattr(torch.Tensor, name) for name in ("to", *HALVES))]


def in_float32(
    torch: ModuleType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments of `to` with float32 in the place of a low dtype, and whether there was one."""
    changed = False

    def wide(value: Any) -> Any:
        nonlocal changed
        if is_low(value):
            changed = True
            return torch.float32
        return value

    first = args[0] if args else kwargs.get("other")
    if isinstance(first, torch.Tensor) and is_low(first.dtype):
        rest = {name: value for name, value in kwargs.items() if name != "other"}
        return (first.device, torch.float32, *args[1:]), rest, True
    args = tuple(wide(value) for value in args)
    kwargs = {name: wide(value) for name, value in kwargs.items()}
    return args, kwargs, changed


def casts_inputs(frame: FrameType) -> bool | None:
    """Whether the code that asks for a cast is the program's own, or casts what the program feeds to its model."""
    answer = _casts_inputs(frame.f_code.co_filename)
    while answer is None and frame.f_back is not None:
        frame = frame.f_back
        answer = _casts_inputs(frame.f_code.co_filename)
    return answer


@functools.cache
def _casts_inputs(filename: str) -> bool | None:
    """The same of a file; None for one that asks in the name of its caller."""
    if filename.endswith(IN_BETWEEN):
        return None
    return (
        places.is_user_file(filename)
        or filename.startswith("<eval_with_key>")
        or filename.endswith(IN_GRAPHS)
        or places.installed(filename).partition("/")[0] in TRAINERS
    )
