"""`... before compile`: the other layer wraps what is not compiled yet, and what it makes is compiled."""

from __future__ import annotations

import sys
import weakref

from trueup_instrument import modules
from trueup_instrument.appliers.order import parts
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

WRAPPERS = {
    "sharding": (
        (parts.DDP, "DistributedDataParallel"),
        ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
    ),
    "checkpointing": ((parts.WRAPPING, "CheckpointWrapper"),),
    "adapter": ((parts.PEFT, "PeftModel"),),
}
"""Layer → the classes whose instances hold a module, the first argument."""
FULLY_SHARD = "torch.distributed.fsdp._fully_shard._fully_shard"


def attach(switch: Switch) -> None:
    other = switch.name.partition(" ")[0]
    compiled = Compiled(switch)
    for source, name in WRAPPERS[other]:
        # mypy infers no type of a lambda with a default
        switch.after(source, lambda module, name=name: _wrapper(switch, compiled, getattr(module, name)))  # type: ignore[misc]
    if other == "sharding":
        switch.after(FULLY_SHARD, lambda module: _fully_shard(switch, compiled, module))


class Compiled:
    """The modules that were compiled, with their options."""

    def __init__(self, switch: Switch) -> None:
        self._options: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        switch.after("torch", self._follow)

    def take(self, module: Any) -> tuple[Any, dict[str, Any]] | None:
        """(the module as it was before it was compiled, the options of that), or None if it was not."""
        if "_orig_mod" in getattr(module, "_modules", ()):
            return module._orig_mod, self._options.get(module, {})
        if getattr(module, "_compiled_call_impl", None) is not None:
            module._compiled_call_impl = None
            return module, self._options.get(module, {})
        return None

    def is_in_place(self, module: Any) -> bool:
        return getattr(module, "_compiled_call_impl", None) is not None

    def _follow(self, torch: Any) -> None:
        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            def torch_compile(model: Any = None, **options: Any) -> Any:
                result = original(model, **options)
                if isinstance(model, torch.nn.Module) and result is not model:
                    self._options[result] = dict(options)
                return result

            return torch_compile

        def in_place(original: Callable[..., Any]) -> Callable[..., Any]:
            def compile(module: Any, *args: Any, **options: Any) -> None:
                original(module, *args, **options)
                self._options[module] = dict(options)

            return compile

        replace(torch, "compile", wrapped)
        replace(torch.nn.Module, "compile", in_place)


def _wrapper(switch: Switch, compiled: Compiled, kind: Any) -> None:
    take, compile = switch.guarded(compiled.take), switch.guarded(_compile)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            name = None if args else next((each for each in ("module", "mod", "model") if each in kwargs), None)
            given = args[0] if args else kwargs.get(name or "")
            taken = take(given)
            if taken is None:
                original(self, *args, **kwargs)
                return
            if name is None:
                original(self, taken[0], *args[1:], **kwargs)
            else:
                original(self, **{**kwargs, name: taken[0]})
            compile(self, taken[1])
            switch.changed("compiled around, not within", kind.__name__)

        return __init__

    replace(kind, "__init__", make)


def _compile(module: Any, options: dict[str, Any]) -> None:
    """In place. Dynamo skips the frames of libraries unless another one is around."""
    from torch._dynamo.external_utils import wrap_inline

    module._compiled_call_impl = sys.modules["torch"].compile(wrap_inline(module._call_impl), **options)


def _fully_shard(switch: Switch, compiled: Compiled, owner: ModuleType) -> None:
    """Its hooks go to the module that was compiled, where they were to go to the compiled one."""

    def inner(module: Any) -> Any:
        beneath = module._modules.get("_orig_mod")
        if beneath is not None:
            switch.changed("sharded within what is compiled, not around it", modules.class_name(beneath))
            return beneath
        if compiled.is_in_place(module):
            switch.cannot("what is compiled in place meets the hooks of its unit in each call, whichever comes first")
        return module

    parts.shard_what_is_within(owner, switch.guarded(inner))
