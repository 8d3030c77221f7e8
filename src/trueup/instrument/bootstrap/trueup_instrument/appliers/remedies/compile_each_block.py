"""The repeated blocks of the model that is trained are compiled in place, where a setting asked and nothing was.

They are compiled when the model is sharded, else when its optimizer is made, with the options that the program gives
to torch.compile elsewhere.
"""

from __future__ import annotations

import os
import sys

from trueup_instrument.appliers.binding import Binding
from trueup_instrument.appliers.compiling import compile_in_place, repeated_blocks
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

OPTIONS = ("backend", "mode", "dynamic", "options")
BACKENDS = ("ACCELERATE_DYNAMO_BACKEND",)


def attach(switch: Switch) -> None:
    Blocks(switch, Binding(switch))


class Blocks:
    """Follows what the program compiles, shards and trains."""

    def __init__(self, switch: Switch, binding: Binding) -> None:
        self._switch = switch
        self._binding = binding
        self._options: dict[str, Any] = {}
        self._compile, self._optimized = switch.guarded(self._compile_blocks), switch.guarded(self._all_of)
        self._remember = switch.guarded(self._remember_options)
        fully_shard = "torch.distributed.fsdp._fully_shard._fully_shard"
        switch.after("torch", lambda torch: replace(torch, "compile", self._compiling))
        switch.after("torch.optim.optimizer", lambda module: replace(module.Optimizer, "__init__", self._training))
        switch.after(fully_shard, lambda module: replace(module, "fully_shard", self._sharding))
        for name in BACKENDS:
            backend = os.environ.get(name, "").lower()
            if backend and backend != "no":
                self._options["backend"] = backend

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def torch_compile(model: Any = None, **options: Any) -> Any:
            self._remember(options)
            return original(model, **options)

        return torch_compile

    def _training(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._optimized(optimizer)

        return __init__

    def _sharding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._compile(module)
            return original(module, *args, **kwargs)

        return fully_shard

    def _remember_options(self, options: dict[str, Any]) -> None:
        if not options.get("disable"):
            self._options.update({name: options[name] for name in OPTIONS if options.get(name) is not None})

    def _all_of(self, optimizer: Any) -> None:
        given = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for model in self._binding.models():
            if any(id(each) in given for each in model.parameters()):
                self._compile_blocks(model)

    def _compile_blocks(self, model: Any) -> None:
        if isinstance(model, (list, tuple)) or any(_is_compiled(module) for module in model.modules()):
            return
        sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
        blocks = repeated_blocks(model) or [model]
        if any(isinstance(block, sharded) for block in blocks):
            self._switch.cannot("blocks that are sharded already would take the hooks into their graphs")
            return
        for block in blocks:
            compile_in_place(block, self._options)
        self._switch.changed(f"{len(blocks)} blocks compiled in place", type(blocks[0]).__name__)


def _is_compiled(module: Any) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules
