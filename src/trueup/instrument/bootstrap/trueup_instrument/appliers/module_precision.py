"""`precision=fp32:layers.0,head`: these modules compute in float32, the others as the job has them.

A module of the list runs without autocast, with parameters and inputs in float32, and gives float32 on. Each of the
others has its own precision again: autocast as the job asked for it, and inputs in the dtype of its own parameters.
Names are those of the model before it was wrapped; a name stands for that module's own code, not for its children.
"""

from __future__ import annotations

import functools
import sys
import weakref

from trueup_instrument import modules
from trueup_instrument.appliers.casts import is_low
from trueup_instrument.appliers.complete import when_complete
from trueup_instrument.appliers.naming import plain_module_name, root_of
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

NO_CODE = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential", "Identity")
"""Modules that compute nothing themselves."""
MARK, NAME = "_trueup_precision", "_trueup_name"
WIDE, OWN = "float32", "own"
MIXED = ("matmul", "bmm", "baddbmm", "addmm")
"""Functions of torch that refuse inputs of several dtypes, which come of modules that give more than others do."""


def attach(switch: Switch) -> None:
    precision = _ByModule(switch)
    when_complete(switch, precision.prepare)
    switch.after("torch", _promoting)


class _ByModule:
    """Marks modules, and has the `forward` of their classes do what a mark says: copies of a module have it too."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._wide = frozenset(switch.parts or ())
        self._roots: list[weakref.ref[Any]] = []
        self._names: list[str] = []
        self._kinds: weakref.WeakSet[type] = weakref.WeakSet()
        self._autocast: dict[str, Any] = {}
        """Device type → dtype that the job asks autocast for."""

    def prepare(self, model: Any, wrapper: str | None) -> None:
        """Have the modules of a model run in the precision of each, once."""
        for given in model if isinstance(model, (list, tuple)) else [model]:
            if MARK not in given.__dict__:
                self._prepare(root_of(given), wrapper is not None and wrapper != "DistributedDataParallel")

    def _prepare(self, root: Any, is_to_be_sharded: bool) -> None:
        known = [reference() for reference in self._roots]
        if not any(root is each for each in known):
            self._roots.append(weakref.ref(root))
        prefix = f"{modules.class_name(root)}:" if known and root is not known[0] else ""
        for name, module in root.named_modules():
            if MARK in module.__dict__:
                continue
            name = prefix + plain_module_name(name)
            module.__dict__[MARK] = None
            if type(module).__name__ in NO_CODE or modules.bare(module) is not module:
                continue
            self._names.append(name)
            module.__dict__[MARK] = WIDE if name in self._wide else OWN
            module.__dict__[NAME] = name
            if name in self._wide and not is_to_be_sharded:  # units want parameters of one dtype
                self._store_wide(module, name)
            self._change(type(module))
        self._switch.has_parts(self._names)

    def _store_wide(self, module: Any, name: str) -> None:
        own = [each for each in (*module._parameters.values(), *module._buffers.values()) if each is not None]
        if any(is_low(each.dtype) for each in own) and not any(hasattr(each, "placements") for each in own):
            module._apply(lambda tensor: tensor.float() if is_low(tensor.dtype) else tensor, recurse=False)
            self._switch.changed("parameters held in float32", name)

    def _change(self, kind: type) -> None:
        """The class whose `forward` is called, once."""
        owner = next(base for base in kind.__mro__ if "forward" in vars(base))
        if owner not in self._kinds and owner is not sys.modules["torch"].nn.Module:
            self._kinds.add(owner)
            replace(owner, "forward", self._by_mark)

    def _by_mark(self, original: Callable[..., Any]) -> Callable[..., Any]:
        torch, autocast = sys.modules["torch"], self._autocast
        tell = self._switch.guarded(lambda module: self._switch.changed("computes in float32", module.__dict__[NAME]))

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            mark = self.__dict__.get(MARK)
            if mark is None:
                return original(self, *args, **kwargs)
            device = _device(torch, self, args, kwargs)
            was_on = torch.is_autocast_enabled(device)
            if mark == OWN:
                if device in autocast and not was_on:
                    with torch.autocast(device, dtype=autocast[device]):
                        return original(self, *args, **kwargs)
                if not was_on:
                    args, kwargs = _narrowed(torch, self, args, kwargs)
                return original(self, *args, **kwargs)
            if was_on:
                autocast[device] = torch.get_autocast_dtype(device)
            args, kwargs, changed = _widened(torch, args, kwargs)
            narrow = _narrow_parameters(torch, self)
            if (was_on or changed or narrow) and not torch.compiler.is_compiling():
                tell(self)
            with torch.autocast(device, enabled=False):
                if not narrow:
                    return original(self, *args, **kwargs)
                return _with_wide(self, narrow, original, args, kwargs)

        return forward


def _device(torch: Any, module: Any, args: Any, kwargs: Any) -> str:
    for each in (*args, *kwargs.values(), *module._parameters.values()):
        if isinstance(each, torch.Tensor):
            return str(each.device.type)
    return "cuda" if torch.cuda.is_available() else "cpu"


def _widened(torch: Any, args: Any, kwargs: Any) -> tuple[Any, Any, bool]:
    from torch.utils._pytree import tree_leaves, tree_map_only

    if not any(isinstance(each, torch.Tensor) and is_low(each.dtype) for each in tree_leaves((args, kwargs))):
        return args, kwargs, False  # what a module was given to fill is the caller's own

    def wide(tensor: Any) -> Any:
        return tensor.float() if is_low(tensor.dtype) else tensor

    return tree_map_only(torch.Tensor, wide, args), tree_map_only(torch.Tensor, wide, kwargs), True


def _narrowed(torch: Any, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Inputs in the low dtype of the module's own parameters, as it gets them when all is low."""
    own = next((each.dtype for each in _own_tensors(torch, module).values() if each.is_floating_point()), None)
    if not is_low(own):
        return args, kwargs
    from torch.utils._pytree import tree_map_only

    def narrow(tensor: Any) -> Any:
        return tensor.to(own) if tensor.dtype == torch.float32 else tensor

    return tree_map_only(torch.Tensor, narrow, args), tree_map_only(torch.Tensor, narrow, kwargs)


def _own_tensors(torch: Any, module: Any) -> dict[str, Any]:
    """Parameters, and what FSDP1 puts in their place."""
    plain = {name: value for name, value in module.__dict__.items() if isinstance(value, torch.Tensor)}
    return {**plain, **{name: value for name, value in module._parameters.items() if value is not None}}


def _narrow_parameters(torch: Any, module: Any) -> dict[str, Any]:
    return {name: value for name, value in _own_tensors(torch, module).items() if is_low(value.dtype)}


def _with_wide(module: Any, narrow: dict[str, Any], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`function` of the module, with float32 copies, through which gradients go, in the place of these parameters."""
    spaces = {name: module._parameters if name in module._parameters else module.__dict__ for name in narrow}
    try:
        for name, space in spaces.items():
            space[name] = narrow[name].float()
        return function(module, *args, **kwargs)
    finally:
        for name, space in spaces.items():
            space[name] = narrow[name]


# -- inputs of several dtypes ------------------------------------------------------------------------------------------


def _promoting(torch: ModuleType) -> None:
    """Functions that want one dtype get the widest of those they are given."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            dtypes = {each.dtype for each in (*args, *kwargs.values()) if _is_floating(torch, each)}
            if len(dtypes) > 1:
                widest = functools.reduce(torch.promote_types, dtypes)
                args = tuple(each.to(widest) if _is_floating(torch, each) else each for each in args)
                kwargs = {name: each.to(widest) if _is_floating(torch, each) else each for name, each in kwargs.items()}
            return original(*args, **kwargs)

        return call

    for name in MIXED:
        replace(torch, name, make)
        replace(torch.Tensor, name, make)
    replace(torch.Tensor, "__matmul__", make)
    replace(torch.nn.functional, "scaled_dot_product_attention", make)


def _is_floating(torch: Any, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
